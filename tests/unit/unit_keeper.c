/* SPDX-License-Identifier: MIT */
/* The keeper as a process: whose, how it ends, and what it takes from whom. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "persist/fdnames.h"
#include "persist/keeper.h"
#include "raw.h"
#include "shelf.h"

static struct fdstore *store;
static pid_t keeper;
static int thing;

/* A keeper that has one thing. */
static void begin(void)
{
	shelf_needs_keeper();
	store = fdstore_open(shelf_directory);
	thing = shelf_make(7);
	assert_true(fdstore_put(store, 7, thing));
	keeper = shelf_keeper();
	shelf_await_kept(keeper, 1);
}

static void end(void)
{
	fdstore_close(store, true);
	close(thing);
}

static char *read_link(const char *what, const char *name)
{
	static char path[64 + 256], text[256];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/%s%s", keeper, what, name);
	length = readlink(path, text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = '\0';
	return text;
}

static pid_t parent_of(pid_t pid)
{
	char path[64], line[256] = "";
	pid_t parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "PPid: %d", &parent) != 1)
		;
	fclose(file);
	return parent;
}

/* How many of what it has open lead there. */
static int opened(const char *what)
{
	char path[64];
	struct dirent *entry;
	DIR *folder;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", keeper);
	folder = opendir(path);
	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += !strncmp(read_link("fd/", entry->d_name), what, strlen(what)) &&
			 *entry->d_name != '.';
	closedir(folder);
	return count;
}

/* Not even a zombie: what went between was a child for a moment. */
static void await_no_child(void)
{
	long long begin = raw_now_ms();
	siginfo_t ended;

	while (fdstore_tick(store), waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0) {
		assert_in_range(raw_now_ms() - begin, 0, 1000 + raw_slack_ms());
		raw_sleep_ms(1);
	}
	assert_int_equal(errno, ECHILD);
}

static void await_closed(int fd)
{
	struct pollfd event = {.fd = fd, .events = POLLIN};
	char byte;

	assert_int_equal(poll(&event, 1, RAW_TIMEOUT_MS), 1);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

/* It closes the connection, keeps what it kept, and nothing of what came. */
static void refused(const char *message, size_t size, const int *fds, size_t count)
{
	int fd = shelf_dial();

	assert_true(fd >= 0);
	assert_int_equal(fds_send_bytes(fd, message, size, fds, count), GPUSHARE_OK);
	await_closed(fd);
}

static void it_stands_alone(void **state)
{
	int stray = open("/dev/zero", O_RDONLY); /* not close-on-exec */
	long long began = raw_now_ms();
	struct stat is;

	(void)state;
	begin();
	assert_int_not_equal(parent_of(keeper), getpid());
	assert_int_not_equal(getsid(keeper), getsid(0));
	assert_int_not_equal(getpgid(keeper), getpgid(0));
	await_no_child();
	assert_string_equal(read_link("cwd", ""), "/");
	assert_int_equal(lstat(shelf_path(KEEPER_SOCKET), &is), 0);
	assert_int_equal(is.st_mode, S_IFSOCK | 0600);
	refused("x", 1, NULL, 0); /* those who asked for its pid came before: now they go */
	while (opened("socket:") != 2 || opened("") != 6)
		assert_in_range(raw_now_ms() - began, 0, 1000 + raw_slack_ms());
	assert_string_equal(read_link("fd/", "0"), "/dev/null");
	assert_int_equal(opened("/dev/null"), 3);
	assert_int_equal(opened("/memfd:"), 1);
	close(stray);
	end();
}

static void await_killed_registry(int number)
{
	pid_t pid = raw_fork();
	int status;

	if (!pid) {
		setsid(); /* a group of its own, to be ended as one */
		store = fdstore_open(shelf_directory);
		shelf_put(store, 1, 2);
		kill(0, number);
		pause();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), number);
}

static void it_survives_its_registrys_group(void **state)
{
	static const int numbers[] = {SIGINT, SIGKILL, SIGTERM, SIGHUP};

	(void)state;
	shelf_needs_keeper();
	for (int i = 0; i < 4; i++) {
		await_killed_registry(numbers[i]);
		store = fdstore_open(shelf_directory);
		shelf_take(store, 1, 2);
		keeper = shelf_keeper();
		fdstore_close(store, false);
		shelf_await_end(keeper, 1000);
	}
}

static void a_signal_ends_it(void **state)
{
	static const int numbers[] = {SIGTERM, SIGINT};

	(void)state;
	for (int i = 0; i < 2; i++) {
		begin();
		kill(keeper, SIGHUP);
		kill(keeper, numbers[i]);
		shelf_await_end(keeper, 200);
		assert_int_not_equal(access(shelf_path(KEEPER_SOCKET), F_OK), 0);
		end();
	}
}

static void without_its_directory_it_ends(void **state)
{
	char command[128];

	(void)state;
	begin();
	snprintf(command, sizeof(command), "rm -r %s", shelf_directory);
	assert_int_equal(system(command), 0);
	shelf_await_end(keeper, 1000);
	end();
}

/* With another keeper's socket there it ends as well, and leaves that one its name. */
static void a_name_that_is_anothers_is_left(void **state)
{
	(void)state;
	begin();
	assert_int_equal(unlink(shelf_path(KEEPER_SOCKET)), 0);
	assert_int_equal(mknod(shelf_path(KEEPER_SOCKET), S_IFSOCK | 0600, 0), 0);
	shelf_await_end(keeper, 1000);
	assert_int_equal(access(shelf_path(KEEPER_SOCKET), F_OK), 0);
	end();
}

static void it_ends_with_the_last_one(void **state)
{
	int fd;

	(void)state;
	begin();
	fdstore_drop(store, 7);
	fdstore_flush(store);
	shelf_await_kept(keeper, 0);
	raw_sleep_ms(600);
	assert_int_equal(kill(keeper, 0), 0); /* its registry is there */
	fd = shelf_dial();
	raw_sleep_ms(50);
	end();
	raw_sleep_ms(600);
	assert_int_equal(kill(keeper, 0), 0); /* and so is somebody */
	close(fd);
	shelf_await_end(keeper, 1000);
	assert_int_not_equal(access(shelf_path(KEEPER_SOCKET), F_OK), 0);
}

static void nonsense_is_refused(void **state)
{
	static const char *const alone[] = {
	    "FDSTORE=1\nFDNAME=gpushare-7", /* without a descriptor */
	    "FDSTORE=1",
	    "FDNAME=gpushare-7",
	    "FDSTOREREMOVE=1",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare-",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare-7x",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare-7:",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare--7",
	    "FDSTOREREMOVE=1\nFDNAME= gpushare-7",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare-99999999999999999999",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare-123456789012345678901234567890",
	    "FDSTOREREMOVE=10\nFDNAME=gpushare-7",
	    "XFDSTOREREMOVE=1\nFDNAME=gpushare-7",
	    "GPUSHARE_TAKE=1",
	    "\n\n\n",
	};
	static const char *const with[] = {
	    "FDSTORE=1\nFDNAME=gpushare-7:gpushare-8", /* one descriptor */
	    "FDSTORE=1\nFDNAME=",
	    "FDSTORE=1\nFDNAME=sshd",
	    "FDSTOREREMOVE=1\nFDNAME=gpushare-7",
	    "GPUSHARE_TAKE=1\nFDNAME=",
	    "",
	};
	static char junk[FDNAMES_MESSAGE * 2];
	int fd = shelf_make(8);

	(void)state;
	begin();
	for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++)
		refused(alone[i], strlen(alone[i]), NULL, 0);
	for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++)
		refused(with[i], strlen(with[i]), &fd, 1);
	for (size_t size = 1; size < sizeof(junk); size = size * 2 + 1) {
		refused(junk, size, NULL, 0);
		memset(junk, 'F' + (int)(size % 7), size);
	}
	for (int i = 0; i < 200; i++) { /* names alone are too many, and so are the bytes */
		snprintf(junk + 29 * i, sizeof(junk) - 29 * (size_t)i, "%s%020d",
			 i ? ":gpushare" : "FDSTOREREMOVE=1\nFDNAME=gpushare-", i);
	}
	refused(junk, strlen(junk), NULL, 0);
	close(fd);
	shelf_await_kept(keeper, 1);
	assert_int_equal(fdstore_tick(store), INT64_MAX);
	assert_int_equal(shelf_keeper(), keeper);
	end();
	store = fdstore_open(shelf_directory);
	shelf_take(store, 7, 1);
	fdstore_close(store, false);
}

/* Those who say nothing or don't read do not keep a registry out. */
static void a_crowd_keeps_nobody_out(void **state)
{
	int crowd[60];

	(void)state;
	begin();
	for (int i = 0; i < 60; i++) {
		crowd[i] = shelf_dial();
		raw_sleep_ms(2);
		for (int j = 0; crowd[i] >= 0 && j < 1000; j++) { /* never read */
			static const char take[] = "GPUSHARE_TAKE=1\nFDNAME=";

			if (fds_send_bytes(crowd[i], take, sizeof(take) - 1, NULL, 0))
				break;
		}
	}
	fdstore_close(store, true);
	store = fdstore_open(shelf_directory);
	shelf_take(store, 7, 1);
	for (int i = 0; i < 60; i++)
		if (crowd[i] >= 0)
			close(crowd[i]);
	end();
}

static void another_user_is_refused(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0) {
		printf("skipped: another user's connection: not root\n");
		skip();
	}
	begin();
	assert_int_equal(chmod(shelf_directory, 0711) | chmod(shelf_path(KEEPER_SOCKET), 0666), 0);
	pid = raw_fork();
	if (!pid) {
		char byte;
		int fd;

		if (setgid(65534) || setuid(65534) || (fd = shelf_dial()) < 0)
			_exit(2);
		fds_send_bytes(fd, "FDSTOREREMOVE=1\nFDNAME=gpushare-7", 33, NULL, 0);
		poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, RAW_TIMEOUT_MS);
		_exit(recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(shelf_kept(keeper), 1);
	end();
}

/* By hand it is no keeper: nobody gave it a socket. */
static void people_get_a_sentence(void **state)
{
	const char *const bare[] = {"--keeper", NULL};
	const char *const with[] = {"--keeper", "--dir", shelf_directory, NULL};
	char words[512];

	(void)state;
	assert_int_equal(raw_daemon_run(bare, words, sizeof(words)), 2);
	assert_non_null(strstr(words, "not for people"));
	assert_int_equal(raw_daemon_run(with, words, sizeof(words)), 2);
	assert_non_null(strstr(words, "not for people"));
	assert_int_not_equal(access(shelf_path(KEEPER_SOCKET), F_OK), 0);
}

#define with_shelf(test) cmocka_unit_test_setup_teardown(test, shelf_set_up, shelf_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    with_shelf(it_stands_alone),
	    with_shelf(it_survives_its_registrys_group),
	    with_shelf(a_signal_ends_it),
	    with_shelf(without_its_directory_it_ends),
	    with_shelf(a_name_that_is_anothers_is_left),
	    with_shelf(it_ends_with_the_last_one),
	    with_shelf(nonsense_is_refused),
	    with_shelf(a_crowd_keeps_nobody_out),
	    with_shelf(another_user_is_refused),
	    with_shelf(people_get_a_sentence),
	};

	return shelf_main(argc, argv, tests);
}
