/* SPDX-License-Identifier: MIT */
/* gpushare_watch() where descriptors run out, the directory goes, or the program takes what is ours. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "raw.h"
#include "stopped.h"

static struct gpushare_session *session;
static struct gpushare_watch *watch;
static struct gpushare_notice told;

static int set_up(void **state)
{
	struct gpushare_open_options options = {.timeout_ms = RAW_TIMEOUT_MS};

	session = NULL;
	watch = NULL;
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	if (raw_set_up(state))
		return -1;
	options.directory = raw_here.directory;
	return gpushare_open(&options, &session) || gpushare_watch(session, NULL, &watch);
}

static int tear_down(void **state)
{
	gpushare_watch_close(watch);
	gpushare_close(session);
	return raw_tear_down(state);
}

static int next(int timeout_ms)
{
	return gpushare_watch_next(watch, timeout_ms, &told);
}

/* What comes next is about that name. */
static void expect(enum gpushare_notice_kind kind, const char *name)
{
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_OK);
	assert_string_equal(gpushare_notice_text(told.kind), gpushare_notice_text(kind));
	assert_string_equal(told.info.name, name);
}

#define EXPECT(kind, name) expect(GPUSHARE_NOTICE_##kind, name)

/* The first free one is the limit: no more. */
static void set_room(int descriptors)
{
	int fd = open("/dev/null", O_RDONLY);
	struct rlimit limit = {.rlim_cur = (rlim_t)(fd + descriptors), .rlim_max = 1024};

	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void without_room_it_says_so(void **state)
{
	struct rlimit limit, before;
	struct gpushare_watch *another;
	int open_before = descriptors_open();

	getrlimit(RLIMIT_NOFILE, &before);
	for (int room = 0; room < 3; room++) {
		set_room(room);
		assert_int_equal(gpushare_watch(session, NULL, &another), GPUSHARE_E_LIMIT);
		limit = (struct rlimit){before.rlim_max < 1024 ? before.rlim_max : 1024, 1024};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(descriptors_open(), open_before);
	}
	assert_int_equal(gpushare_watch(session, NULL, &another), GPUSHARE_OK);
	gpushare_watch_close(another);
	assert_int_equal(descriptors_open(), open_before);
}

static void it_goes_on_when_there_is_room_again(void **state)
{
	struct rlimit limit = {1024, 1024};
	int taken;

	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	assert_int_equal(next(50), GPUSHARE_E_TIMED_OUT);
	raw_daemon_start(&raw_here, NULL);
	taken = dup(0); /* in place of the one that the watch has lost */
	set_room(0);
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_LIMIT);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close(taken);
	EXPECT(RESTART, "");
}

static void a_directory_that_is_open_to_others_is_refused(void **state)
{
	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	assert_int_equal(next(50), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(chmod(raw_here.directory, 0777), 0);
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_DENIED);
	assert_non_null(strstr(gpushare_explain(), "open to others"));
	assert_int_equal(chmod(raw_here.directory, 0700), 0);
	raw_daemon_start(&raw_here, NULL);
	EXPECT(RESTART, "");
}

static void a_directory_that_goes_may_come_back(void **state)
{
	char command[256];

	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	snprintf(command, sizeof(command), "rm -r %s", raw_here.directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(next(200), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(mkdir(raw_here.directory, 0700), 0);
	raw_daemon_start(&raw_here, NULL);
	EXPECT(RESTART, "");
}

/* Its socket, which is the last descriptor that it opened: the watch finds another way, and does not
 * touch what is there now. */
static void a_program_that_takes_the_socket_keeps_its_own(void **state)
{
	int fd = gpushare_watch_fd(watch) + 2, pair[2];
	struct stat is;
	char byte;

	assert_int_equal(fstat(fd, &is), 0);
	assert_true(S_ISSOCK(is.st_mode));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(dup2(pair[0], fd), fd);
	assert_int_equal(write(pair[1], "mine", 4), 4);
	assert_int_equal(next(200), GPUSHARE_E_TIMED_OUT);
	raw_say(raw_connect(&raw_here), raw_share("w"));
	EXPECT(SHARE, "w");
	gpushare_watch_close(watch);
	watch = NULL;
	assert_int_equal(read(fd, &byte, 1), 1);
	assert_int_equal(byte, 'm');
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

/* That has stopped: nobody waits for longer than was said. */
static void a_registry_that_has_stopped(void **state)
{
	struct gpushare_watch *another;
	long long began_ms = raw_now_ms();

	assert_true(stopped(raw_here.pid));
	assert_int_equal(next(100), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - began_ms, 90, 300 + raw_slack_ms());
	assert_int_equal(gpushare_watch(session, NULL, &another), GPUSHARE_E_TIMED_OUT);
	kill(raw_here.pid, SIGCONT);
	raw_say(raw_connect(&raw_here), raw_share("w"));
	EXPECT(SHARE, "w");
}

static void a_childs_end_is_not_the_parents(void **state)
{
	int status;
	pid_t pid = raw_fork();

	if (!pid)
		exit(next(0) != GPUSHARE_E_FORKED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	raw_say(raw_connect(&raw_here), raw_share("w"));
	EXPECT(SHARE, "w");
	/* One that stays does not keep the connection: it is shut down. */
	pid = raw_fork();
	if (!pid)
		for (;;)
			pause();
	kill(raw_here.pid, SIGTERM);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	raw_daemon_start(&raw_here, NULL);
	EXPECT(RESTART, "");
	assert_int_equal(next(100), GPUSHARE_E_TIMED_OUT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(SERVED(without_room_it_says_so), SERVED(it_goes_on_when_there_is_room_again),
	  SERVED(a_directory_that_is_open_to_others_is_refused),
	  SERVED(a_directory_that_goes_may_come_back),
	  SERVED(a_program_that_takes_the_socket_keeps_its_own),
	  SERVED(a_registry_that_has_stopped), SERVED(a_childs_end_is_not_the_parents))
