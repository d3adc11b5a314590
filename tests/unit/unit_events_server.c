/* SPDX-License-Identifier: MIT */
/* The real daemon's events.sock: who is told, who does not read, and who does not behave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon_fds.h"
#include "limit.h"
#include "listener.h"
#include "raw.h"

static notice told;

/* The next notice, in `told`. */
static bool hear(int fd, int timeout_ms)
{
	static uint8_t body[GPUSHARE_MESSAGE_MAX];
	uint8_t header[SP_HEADER_SIZE];
	long size;

	if (!raw_read(fd, header, sizeof(header), timeout_ms))
		return false;
	size = sp_header_size(header);
	assert_true(size >= 0 && raw_read(fd, body, (size_t)size, RAW_TIMEOUT_MS));
	assert_int_equal(codec_decode_notice(body, (size_t)size, &told), GPUSHARE_OK);
	return true;
}

/* What is about a buffer: others come to listen, too. */
static void expect(int fd, enum gpushare_notice_kind kind, const char *name)
{
	do
		assert_true(hear(fd, RAW_TIMEOUT_MS));
	while (!told.kind);
	assert_string_equal(gpushare_notice_text(told.kind), gpushare_notice_text(kind));
	assert_string_equal(told.buffer.name, name);
}

#define EXPECT(fd, kind, name) expect(fd, GPUSHARE_NOTICE_##kind, name)

/* One that is greeted, and hears all from now on. */
static int events_connect(void)
{
	int fd = listener_greet();

	do
		assert_true(hear(fd, RAW_TIMEOUT_MS)); /* what was on its way already comes first */
	while (told.kind);
	return fd;
}

/* The connections by which it hears itself are on their way out, perhaps. */
static void await_fds(int most)
{
	long long began_ms = raw_now_ms();

	while (daemon_fds() > most) {
		assert_in_range(raw_now_ms() - began_ms, 0, RAW_TIMEOUT_MS + raw_slack_ms());
		raw_sleep_ms(5);
	}
}

static void it_hears_what_others_do(void **state)
{
	int watcher = events_connect(), fd = raw_connect(&raw_here);
	pid_t pid = raw_owner("w", raw_share);
	uint64_t registry;

	(void)state;
	EXPECT(watcher, SHARE, "w");
	assert_int_equal(told.pid, pid);
	registry = told.registry;
	assert_true(registry && told.unix_ns > registry && told.serial == 1);
	assert_int_equal(raw_say(fd, raw_attach("w", 0)), GPUSHARE_OK);
	EXPECT(watcher, ATTACH, "w");
	assert_int_equal(told.pid, getpid());
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT(watcher, OWNER_GONE, "w");
	assert_true(told.pid == pid && told.serial == 3 && told.registry == registry);
	close(fd);
	EXPECT(watcher, DETACH, "w");
	close(watcher);
}

static void late_comers_hear_the_rest(void **state)
{
	int fd = raw_connect(&raw_here), first = events_connect(), second;

	(void)state;
	assert_int_equal(raw_say(fd, raw_share("a")), GPUSHARE_OK);
	second = events_connect();
	assert_int_equal(told.serial, 1);
	assert_int_equal(raw_say(fd, raw_share("b")), GPUSHARE_OK);
	EXPECT(first, SHARE, "a");
	EXPECT(first, SHARE, "b");
	EXPECT(second, SHARE, "b");
	assert_int_equal(told.serial, 2);
	close(first);
	assert_int_equal(raw_say(fd, raw_share("c")), GPUSHARE_OK);
	EXPECT(second, SHARE, "c");
	close(second);
	close(fd);
}

static long long rounds_us(int fd, int rounds)
{
	long long began_ms = raw_now_ms();

	for (int i = 0; i < rounds; i++) {
		assert_int_equal(raw_say(fd, raw_share("w")), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("w", 0)), GPUSHARE_OK);
	}
	return (raw_now_ms() - began_ms) * 1000 / rounds;
}

/* It loses the oldest of what it did not read, and can tell how many those were. */
static void who_does_not_read_holds_up_nobody(void **state)
{
	enum { ROUNDS = 6000 };
	int fd = raw_connect(&raw_here), quiet, reader;
	long long alone_us = rounds_us(fd, 1000), watched_us;
	uint64_t last = 0, lost = 0, got = 0;

	(void)state;
	quiet = events_connect();
	reader = events_connect(); /* which hears all the same */
	watched_us = rounds_us(fd, ROUNDS);
	assert_in_range(watched_us, 0, 3 * alone_us + 1000);
	print_message("a share and its end: %lld us, with watchers that don't read %lld us\n",
		      alone_us, watched_us);
	assert_int_equal(raw_say(fd, raw_share("last")), GPUSHARE_OK);
	for (int i = 0; i < 2; i++) {
		int watcher = i ? reader : quiet;

		last = 2 * 1000;
		for (got = lost = 0; strcmp(told.buffer.name, "last"); got++) {
			do
				assert_true(hear(watcher, RAW_TIMEOUT_MS));
			while (!told.kind);
			assert_true(told.serial > last);
			lost += told.serial - last - 1;
			last = told.serial;
		}
		/* A share, an unlink that leaves it without a name, each. */
		assert_int_equal(got + lost, last - 2000);
		assert_true(lost > 0 && got >= LIMIT_EVENTS);
		told.buffer.name[0] = '\0';
	}
	close(quiet);
	close(reader);
	close(fd);
}

static void a_hundred_watchers(void **state)
{
	enum { COUNT = 100 };
	int watchers[COUNT], fd = raw_connect(&raw_here), before = daemon_fds();

	(void)state;
	for (int i = 0; i < COUNT; i++)
		watchers[i] = events_connect();
	for (int i = 0; i < 20; i++) {
		assert_int_equal(raw_say(fd, raw_share("w")), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("w", raw_answer.body.share.generation)),
				 GPUSHARE_OK);
	}
	for (int i = 0; i < COUNT; i++) {
		for (int k = 0; k < 20; k++) {
			EXPECT(watchers[i], SHARE, "w");
			EXPECT(watchers[i], WITHDRAW, "w");
		}
		assert_int_equal(told.serial, 40);
		close(watchers[i]);
	}
	await_fds(before + 2);
	close(fd);
}

static void garbage_is_shown_the_door(void **state)
{
	static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\0SQ\0\0\x21\0\0",
					      "\0SP\0\0\x30\0\0"};
	static const size_t sizes[] = {18, 8, 8};
	int fd = raw_connect(&raw_here), watcher = events_connect();

	(void)state;
	for (int i = 0; i < 3; i++) {
		int bad = listener_dial();

		assert_true(raw_write(bad, garbage[i], sizes[i]));
		assert_true(raw_is_closed(bad, RAW_TIMEOUT_MS));
		close(bad);
	}
	for (int i = 0; i < 20; i++) /* nanomsg/nng#1518 */
		close(listener_dial());
	assert_int_equal(raw_say(fd, raw_share("w")), GPUSHARE_OK);
	EXPECT(watcher, SHARE, "w");
	close(watcher);
	watcher = events_connect();
	assert_int_equal(raw_say(fd, raw_withdraw("w", 0)), GPUSHARE_OK);
	EXPECT(watcher, UNLINK, "w");
	close(watcher);
	close(fd);
}

/* A watcher has nothing to say. What it says all the same, a part of a message or a whole one, while it is
 * told something, ends its connection and disturbs no other; and all of them are let go of. */
static void who_talks_is_not_listened_to(void **state)
{
	static const uint8_t message[SP_HEADER_SIZE + 4] = {1, 0, 0, 0, 0, 0, 0, 0, 4};
	int fd = raw_connect(&raw_here), watcher = events_connect(), before = daemon_fds();

	(void)state;
	for (int i = 0; i < 200; i++) {
		int talker = listener_greet();

		assert_true(raw_write(talker, message, (size_t)i % sizeof(message) + 1));
		assert_int_equal(raw_say(fd, raw_share("w")), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("w", raw_answer.body.share.generation)),
				 GPUSHARE_OK);
		EXPECT(watcher, SHARE, "w");
		EXPECT(watcher, WITHDRAW, "w");
		close(talker);
	}
	await_fds(before + 2);
	close(watcher);
	close(fd);
	raw_assert_serves();
}

/* In the midst of what they are told, having read some of it or none. */
static void watchers_that_go_are_let_go_of(void **state)
{
	int before = daemon_fds(), stop[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(stop), 0);
	pid = raw_fork();
	if (!pid) {
		int fd = raw_connect(&raw_here);

		close(stop[1]);
		while (!raw_is_closed(stop[0], 0))
			rounds_us(fd, 10);
		_exit(0);
	}
	close(stop[0]);
	for (int i = 0; i < 600; i++) {
		int fd = listener_greet();

		if (i % 3)
			raw_sleep_ms(i % 3);
		if (i % 2)
			hear(fd, RAW_TIMEOUT_MS);
		close(fd);
	}
	close(stop[1]);
	waitpid(pid, NULL, 0);
	await_fds(before + 2);
}

static void who_watches_keeps_an_idle_daemon(void **state)
{
	const char *const arguments[] = {"--idle-exit", "1", NULL};
	int watcher;

	(void)state;
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	raw_daemon_start(&raw_here, arguments);
	watcher = events_connect();
	raw_sleep_ms(2200);
	assert_false(raw_is_closed(watcher, 0));
	close(watcher);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	raw_daemon_start(&raw_here, NULL);
}

/* One that comes and goes between two looks of the daemon's has been there all the same. */
static void a_short_watch_begins_idleness_anew(void **state)
{
	const char *const arguments[] = {"--idle-exit", "1", NULL};
	long long began;

	(void)state;
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	raw_daemon_start(&raw_here, arguments);
	raw_sleep_ms(600);
	close(events_connect());
	began = raw_now_ms();
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	assert_true(raw_now_ms() - began >= 950);
	raw_daemon_start(&raw_here, NULL);
}

/* What stands in the place of the socket is not the daemon's to remove, and a stale one is. */
static void its_socket_comes_and_goes(void **state)
{
	char path[GPUSHARE_PATH_MAX], words[512];
	const char *const arguments[] = {"--dir", raw_here.directory, "--foreground", NULL};
	FILE *file;

	(void)state;
	directory_events_socket(raw_here.directory, path);
	assert_int_equal(access(path, F_OK), 0);
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	assert_int_equal(access(path, F_OK), -1);
	file = fopen(path, "w");
	fclose(file);
	assert_int_equal(raw_daemon_run(arguments, words, sizeof(words)), 1);
	assert_non_null(strstr(words, "events.sock is in the way"));
	assert_int_equal(unlink(path), 0);
	raw_daemon_start(&raw_here, NULL);
	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	assert_int_equal(access(path, F_OK), 0);
	raw_daemon_start(&raw_here, NULL);
	close(events_connect());
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(it_hears_what_others_do),
	    with_daemon(late_comers_hear_the_rest),
	    with_daemon(who_does_not_read_holds_up_nobody),
	    with_daemon(a_hundred_watchers),
	    with_daemon(garbage_is_shown_the_door),
	    with_daemon(who_talks_is_not_listened_to),
	    with_daemon(watchers_that_go_are_let_go_of),
	    with_daemon(who_watches_keeps_an_idle_daemon),
	    with_daemon(a_short_watch_begins_idleness_anew),
	    with_daemon(its_socket_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
