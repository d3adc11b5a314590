/* SPDX-License-Identifier: MIT */
/* The service manager's side played: what is manager_told it, kept by it, and given back by it. */
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "manager.h"
#include "persist/notify.h"
#include "raw.h"
#include "shelf.h"

/* In the registry's process. */
static int link_fd; /* as fdstore_tick() tells of it */

static int put_three_and_be_killed(void)
{
	struct fdstore *store;

	notify_init(true);
	if (getenv("NOTIFY_SOCKET") || getenv("FDSTORE") || getenv("LISTEN_PID") ||
	    getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES"))
		return 1;
	notify_say("READY=1");
	store = fdstore_open(shelf_directory);
	shelf_put(store, 1, 3);
	fdstore_drop(store, 2);
	shelf_put(store, 4, 1);
	if (fdstore_put(store, 5, 0)) /* one more than it keeps */
		return 2;
	fdstore_tick(store, &link_fd);
	return raise(SIGKILL);
}

static int take_two(void)
{
	struct fdstore *store;

	notify_init(true);
	store = fdstore_open(shelf_directory);
	shelf_take(store, 1, 1);
	shelf_take_none(store, 2, 1);
	shelf_take(store, 4, 1);
	fdstore_settle(store);
	notify_say("STOPPING=1");
	fdstore_close(store, true);
	return 0;
}

static int take_all_and_end(void)
{
	struct fdstore *store;

	notify_init(true);
	store = fdstore_open(shelf_directory);
	shelf_take(store, 1, 1);
	shelf_take_none(store, 3, 1);
	shelf_take(store, 4, 1);
	fdstore_close(store, false);
	return 0;
}

static void keep_and_give_back(void)
{
	assert_int_equal(manager_start("3", put_three_and_be_killed), 128 + SIGKILL);
	assert_true(manager_hear(0));
	assert_string_equal(manager_told, "READY=1");
	manager_hear_all();
	assert_int_equal(manager_count, 3);
	assert_null(strstr(manager_told, "gpushare-5"));
	assert_int_not_equal(access(shelf_path("keeper.sock"), F_OK), 0);
	manager_add("gpushare");
	manager_add("gpushare-x");
	manager_add("stored");
	assert_int_equal(manager_start("3", take_two), 0);
	manager_hear_all();
	assert_string_equal(manager_told, "STOPPING=1");
	assert_int_equal(manager_count, 5); /* without 3; what is somebody else's is there */
	assert_int_equal(manager_start("3", take_all_and_end), 0);
	manager_hear_all();
	assert_int_equal(manager_count, 3);
}

static void it_keeps_and_gives_back(void **state)
{
	(void)state;
	keep_and_give_back();
}

static void at_an_abstract_socket_too(void **state)
{
	char where[64];

	(void)state;
	manager_close();
	snprintf(where, sizeof(where), "@gpushare-unit-%d", getpid());
	manager_listen(where);
	keep_and_give_back();
}

static int take_one(void)
{
	struct fdstore *store;

	notify_init(true);
	store = fdstore_open(shelf_directory);
	shelf_take(store, 1, 1);
	shelf_put(store, 2, 1);
	return 0;
}

/* What doesn't say how many it keeps (systemd before 254), but did keep one, does keep. */
static void one_that_came_back_proves_it(void **state)
{
	(void)state;
	manager_add("gpushare-1");
	assert_int_equal(pwrite(manager_kept[0].fd, &(uint64_t){1}, 8, 0), 8);
	assert_int_equal(manager_start(NULL, take_one), 0);
	manager_hear_all();
	assert_int_equal(manager_count, 2);
}

/* A registry that a program of the service started: its manager is not ours to speak to. */
static int not_ours(void)
{
	struct fdstore *store;

	notify_init(false);
	if (getenv("NOTIFY_SOCKET") || getenv("LISTEN_FDS"))
		return 1;
	notify_say("READY=1");
	store = fdstore_open(shelf_directory);
	shelf_take_none(store, 1, 1);
	shelf_put(store, 1, 1);
	return raise(SIGKILL);
}

static int a_childs(void)
{
	setenv("SYSTEMD_EXEC_PID", "1", 1);
	notify_init(true);
	notify_say("READY=1");
	return notify_store_size() == 0 ? 0 : 1;
}

static int anothers_descriptors(void)
{
	uint64_t generation;

	setenv("LISTEN_PID", "1", 1);
	notify_init(true);
	return notify_take(&generation) < 0 ? 0 : 1;
}

static void what_is_not_meant_for_us_is_left(void **state)
{
	struct fdstore *store;

	(void)state;
	shelf_needs_keeper();
	manager_add("gpushare-1");
	assert_int_equal(manager_start("9", not_ours), 128 + SIGKILL);
	assert_int_equal(manager_start("9", a_childs), 0);
	assert_int_equal(manager_start("9", anothers_descriptors), 0);
	assert_false(manager_hear(0));
	store = fdstore_open(shelf_directory); /* the keeper has it */
	shelf_take(store, 1, 1);
	fdstore_close(store, false);
}

static int put_one(void)
{
	struct fdstore *store;

	notify_init(true);
	notify_say("READY=1");
	store = fdstore_open(shelf_directory);
	shelf_put(store, 1, 1);
	return raise(SIGKILL);
}

static void without_a_store_there_is_a_keeper(void **state)
{
	static const char *const sizes[] = {NULL, "0", "-0", "x"};
	struct fdstore *store;

	(void)state;
	shelf_needs_keeper();
	for (int i = 0; i < 4; i++) {
		assert_int_equal(manager_start(sizes[i], put_one), 128 + SIGKILL);
		assert_true(manager_hear(0));
		assert_string_equal(manager_told, "READY=1");
		assert_false(manager_hear(0));
		store = fdstore_open(shelf_directory);
		shelf_take(store, 1, 1);
		fdstore_close(store, true);
	}
}

/* What a keeper has is the service manager's from the first start under it on. */
static void a_keepers_things_move(void **state)
{
	pid_t keeper;

	(void)state;
	shelf_needs_keeper();
	assert_int_equal(manager_start(NULL, put_one), 128 + SIGKILL);
	keeper = shelf_keeper();
	manager_hear_all();
	assert_int_equal(manager_start("5", take_one), 0);
	manager_hear_all();
	assert_int_equal(manager_count, 2);
	shelf_await_end(keeper, 1000);
}

static int take_over_and_be_killed(void)
{
	notify_init(true);
	fdstore_open(shelf_directory);
	return raise(SIGKILL);
}

static void a_keepers_things_stay_until_they_are_taken(void **state)
{
	char path[sizeof(manager_path)];
	pid_t keeper;

	(void)state;
	shelf_needs_keeper();
	assert_int_equal(manager_start(NULL, put_one), 128 + SIGKILL);
	keeper = shelf_keeper();
	manager_hear_all();
	strcpy(path, manager_path);
	strcpy(manager_path, "/nowhere/at/all");
	assert_int_equal(manager_start("5", take_over_and_be_killed), 128 + SIGKILL);
	assert_int_equal(shelf_keeper(), keeper);
	shelf_await_kept(keeper, 1);
	strcpy(manager_path, path);
	assert_int_equal(manager_start("5", take_one), 0);
	manager_hear_all();
	assert_int_equal(manager_count, 2);
	shelf_await_end(keeper, 1000);
}

static int outlive_the_folder(void)
{
	struct fdstore *old, *next;
	char command[256];
	pid_t keeper;

	notify_init(true);
	old = fdstore_open(shelf_directory);
	shelf_put(old, 1, 1);
	/* a registry has it open, so that its inode's number is not another's */
	snprintf(command, sizeof(command), "mv %s %s.old && mkdir %s", shelf_directory,
		 shelf_directory, shelf_directory);
	if (system(command))
		return 1;
	next = fdstore_open(shelf_directory);
	shelf_put(next, 2, 1);
	keeper = shelf_keeper();
	for (int i = 0; i < 20; i++) {
		fdstore_tick(old, &link_fd);
		raw_sleep_ms(100);
	}
	fdstore_close(old, false);
	snprintf(command, sizeof(command), "rm -r %s.old", shelf_directory);
	if (system(command))
		return 1;
	return keeper && shelf_keeper() == keeper ? 0 : 2;
}

static void another_folders_keeper_is_left(void **state)
{
	(void)state;
	shelf_needs_keeper();
	assert_int_equal(manager_start(NULL, outlive_the_folder), 0);
}

static int put_many(void)
{
	struct fdstore *store;

	notify_init(true);
	store = fdstore_open(shelf_directory);
	shelf_put(store, 1, 50);
	if (fdstore_tick(store, &link_fd) == INT64_MAX)
		return 1;
	fdstore_close(store, true); /* for a second it tries */
	return 0;
}

/* A manager that is slow to read: 10 messages wait in its socket at most, by the kernel's default. */
static void a_busy_manager_gets_it_later(void **state)
{
	int limit = 0;
	FILE *file = fopen("/proc/sys/net/unix/max_dgram_qlen", "r");
	pid_t pid;
	int status;

	(void)state;
	if (file) {
		assert_int_equal(fscanf(file, "%d", &limit), 1);
		fclose(file);
	}
	if (limit > 40) {
		printf("skipped: sockets here hold %d messages\n", limit);
		skip();
	}
	pid = raw_fork();
	if (!pid)
		_exit(manager_start("50", put_many));
	raw_sleep_ms(300);
	while (manager_count < 50)
		assert_true(manager_hear(RAW_TIMEOUT_MS));
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static int put_one_again(void)
{
	struct fdstore *store;

	notify_init(true);
	store = fdstore_open(shelf_directory);
	shelf_put(store, 1, 49);
	shelf_put(store, 1, 1);
	fdstore_close(store, true);
	return 0;
}

/* What it had under that name goes first, also when that can't be said at once. */
static void a_busy_manager_has_one_of_a_name(void **state)
{
	pid_t pid = raw_fork();
	int status;

	(void)state;
	if (!pid)
		_exit(manager_start("50", put_one_again));
	raw_sleep_ms(300);
	while (manager_hear(1500))
		;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(manager_count, 49);
}

static int put_and_end(void)
{
	long long begin = raw_now_ms();
	struct fdstore *store;

	notify_init(true);
	notify_say("READY=1");
	store = fdstore_open(shelf_directory);
	fdstore_put(store, 1, 0);
	fdstore_close(store, false);
	return raw_now_ms() - begin < 2500 + raw_slack_ms() ? 0 : 1;
}

static void a_manager_that_is_not_there_harms_nobody(void **state)
{
	static const char *const places[] = {"/nowhere/at/all", "/dev/null", "relative", "@", "",
					     "vsock:2:1234"};

	(void)state;
	shelf_needs_keeper();
	for (int i = 0; i < 6; i++) {
		strcpy(manager_path, places[i]);
		assert_int_equal(manager_start("5", put_and_end), 0);
	}
	memset(manager_path, 'x', sizeof(manager_path) - 1);
	*manager_path = '/';
	assert_int_equal(manager_start("5", put_and_end), 0);
}

/* The daemon itself. */
static void the_daemon_says_when_it_is_ready_and_when_it_leaves(void **state)
{
	struct raw_daemon daemon = {0};

	(void)state;
	strcpy(daemon.directory, shelf_directory);
	setenv("NOTIFY_SOCKET", manager_path, 1);
	unsetenv("SYSTEMD_EXEC_PID");
	raw_daemon_start(&daemon, NULL);
	unsetenv("NOTIFY_SOCKET");
	assert_true(manager_hear(RAW_TIMEOUT_MS));
	assert_string_equal(manager_told, "READY=1");
	close(raw_connect(&daemon)); /* and it was */
	kill(daemon.pid, SIGTERM);
	assert_true(manager_hear(RAW_TIMEOUT_MS));
	assert_string_equal(manager_told, "STOPPING=1");
	assert_int_equal(raw_daemon_wait(&daemon, 4 * RAW_TIMEOUT_MS), 0);
}

#define with_manager(test) cmocka_unit_test_setup_teardown(test, manager_set_up, manager_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    with_manager(it_keeps_and_gives_back),
	    with_manager(at_an_abstract_socket_too),
	    with_manager(one_that_came_back_proves_it),
	    with_manager(what_is_not_meant_for_us_is_left),
	    with_manager(without_a_store_there_is_a_keeper),
	    with_manager(a_keepers_things_move),
	    with_manager(a_keepers_things_stay_until_they_are_taken),
	    with_manager(another_folders_keeper_is_left),
	    with_manager(a_busy_manager_gets_it_later),
	    with_manager(a_busy_manager_has_one_of_a_name),
	    with_manager(a_manager_that_is_not_there_harms_nobody),
	    with_manager(the_daemon_says_when_it_is_ready_and_when_it_leaves),
	};

	return shelf_main(argc, argv, tests);
}
