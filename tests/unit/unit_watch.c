/* SPDX-License-Identifier: MIT */
/* gpushare_watch() against a registry that a test plays, which may say anything. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "publisher.h"
#include "raw.h"
#include "scripted.h"

#define REGISTRY 1000 /* Notice.registry of the first one */

static struct gpushare_session *session;
static struct gpushare_watch *watch;

static int set_up(void **state)
{
	watch = NULL;
	session = NULL;
	return publisher_open() || scripted_set_up(state);
}

static int tear_down(void **state)
{
	gpushare_watch_close(watch);
	gpushare_close(session);
	publisher_close();
	return scripted_tear_down(state);
}

static void open_session(unsigned int timeout_ms)
{
	struct gpushare_open_options options = {.timeout_ms = timeout_ms};

	scripted_start();
	assert_int_equal(gpushare_open(&options, &session), GPUSHARE_OK);
}

static int open_watch(const char *glob)
{
	return gpushare_watch(session, glob, &watch);
}

static void begin(const char *glob, int calls)
{
	open_session(RAW_TIMEOUT_MS);
	publisher_start(calls);
	assert_int_equal(open_watch(glob), GPUSHARE_OK);
}

static struct gpushare_notice told;

static int next(int timeout_ms)
{
	return gpushare_watch_next(watch, timeout_ms, &told);
}

static void expect(enum gpushare_notice_kind kind, const char *name)
{
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_OK);
	assert_string_equal(gpushare_notice_text(told.kind), gpushare_notice_text(kind));
	assert_string_equal(told.info.name, name);
}

#define EXPECT(kind, name) expect(GPUSHARE_NOTICE_##kind, name)
#define SHARE GPUSHARE_NOTICE_SHARE
#define DETACH GPUSHARE_NOTICE_DETACH

static void expect_lost(uint64_t count)
{
	EXPECT(LOST, "");
	assert_int_equal(told.lost, count);
}

static void notices_come_in_order(void **state)
{
	char name[16];

	publisher_put_welcome(0, REGISTRY, 7);
	begin(NULL, 1);
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
	for (uint64_t i = 8; i < 108; i++) {
		snprintf(name, sizeof(name), "w%d", (int)i);
		publisher_say(REGISTRY, SHARE, i, name);
	}
	for (uint64_t i = 8; i < 108; i++) {
		snprintf(name, sizeof(name), "w%d", (int)i);
		EXPECT(SHARE, name);
		assert_true(told.serial == i && told.info.size == i && told.pid == 4711);
		assert_true(!told.lost && told.unix_ns == 5);
	}
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

static void only_names_that_match(void **state)
{
	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put(0, REGISTRY, SHARE, 1, "kv/1");
	publisher_put(0, REGISTRY, SHARE, 2, "w1");
	publisher_put(0, REGISTRY, DETACH, 3, "kv/1/2");
	begin("kv/*", 1);
	EXPECT(SHARE, "kv/1");
	EXPECT(DETACH, "kv/1/2");
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

/* Of other names too: nobody knows which they were. */
static void a_gap_is_told(void **state)
{
	publisher_put_welcome(0, REGISTRY, 10);
	publisher_put(0, REGISTRY, SHARE, 11, "w");
	publisher_put(0, REGISTRY, SHARE, 21, "w");
	publisher_put(0, REGISTRY, SHARE, 24, "other");
	publisher_put(0, REGISTRY, 0, 26, NULL); /* another watcher's greeting */
	publisher_put(0, REGISTRY, SHARE, 27, "w");
	begin("w", 1);
	EXPECT(SHARE, "w");
	expect_lost(9);
	EXPECT(SHARE, "w");
	assert_int_equal(told.serial, 21);
	expect_lost(2);
	expect_lost(2);
	EXPECT(SHARE, "w");
	assert_int_equal(told.serial, 27);
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

static void a_connection_that_ends_is_made_again(void **state)
{
	publisher_put_welcome(0, REGISTRY, 10);
	publisher_put(0, REGISTRY, SHARE, 11, "a");
	publisher.ends[0] = true;
	publisher_put_welcome(1, REGISTRY, 14); /* the same registry */
	publisher_put(1, REGISTRY, SHARE, 15, "b");
	publisher.ends[1] = true;
	publisher_put_welcome(2, REGISTRY + 1, 3); /* another */
	publisher_put(2, REGISTRY + 1, SHARE, 4, "c");
	begin(NULL, 3);
	EXPECT(SHARE, "a");
	expect_lost(3);
	EXPECT(SHARE, "b");
	EXPECT(RESTART, "");
	assert_int_equal(told.lost, 0);
	EXPECT(SHARE, "c");
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

/* Each in place of what a registry would say second; after it the connection is made anew. */
static void nonsense_is_refused(void **state)
{
	static const uint8_t long_header[SP_HEADER_SIZE] = {1, 0, 0, 0, 0, 0, 1, 0, 1};
	static const uint8_t garbage[] = "\1\0\0\0\0\0\0\0\10\x80\0\0\1\xff\xff\xff\xff";

	for (int i = 0; i < 6; i++)
		publisher_put_welcome(i, REGISTRY, 10 + (uint64_t)i);
	publisher_put_bytes(0, long_header, sizeof(long_header));
	publisher_put_bytes(1, garbage, sizeof(garbage) - 1);
	publisher_put(2, REGISTRY, SHARE, 13, NULL);
	publisher_put(3, REGISTRY, SHARE, 3, "w"); /* a number that was before */
	publisher_put(4, 0, SHARE, 15, "w");	   /* nobody's */
	publisher_put(5, REGISTRY, SHARE, 16, "w");
	begin(NULL, 6);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_PROTOCOL);
		assert_non_null(strstr(gpushare_explain(), "registry.sock"));
		expect_lost(1); /* as the next one greets with one more */
	}
	EXPECT(SHARE, "w");
}

static void who_does_not_greet_as_a_registry_is_refused(void **state)
{
	static const char *const greetings[] = {"HTTP/1.1 400", "\0SP\0\0\x20\0\0",
						"\0SP\0\0\x31\0\1"};

	for (int i = 0; i < 3; i++)
		publisher_put_bytes(i, greetings[i], 8);
	open_session(RAW_TIMEOUT_MS);
	publisher_start(3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_watch(NULL), GPUSHARE_E_PROTOCOL);
	assert_null(watch);
}

/* What a deaf listener does: the second try is heard. */
static void who_is_silent_is_left(void **state)
{
	long long began_ms = raw_now_ms();

	publisher_put_greeting(0);
	publisher_put_welcome(1, REGISTRY, 0);
	begin(NULL, 2);
	assert_in_range(raw_now_ms() - began_ms, 200, RAW_TIMEOUT_MS / 2);
	assert_int_equal(next(600), GPUSHARE_E_TIMED_OUT); /* who was heard may be silent */
	while (recv(publisher.line, &told, sizeof(told), MSG_DONTWAIT) > 0)
		; /* what it has asked */
	assert_int_equal(recv(publisher.line, &told, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void the_deadline_holds(void **state)
{
	long long began_ms = raw_now_ms();

	publisher_put_greeting(0);
	open_session(400);
	publisher_start(1);
	began_ms = raw_now_ms();
	assert_int_equal(open_watch(NULL), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - began_ms, 350, 700 + raw_slack_ms());
	publisher_end();
	began_ms = raw_now_ms();
	assert_int_equal(open_watch(NULL), GPUSHARE_E_NO_REGISTRY);
	assert_in_range(raw_now_ms() - began_ms, 350, 700 + raw_slack_ms());
	assert_non_null(strstr(gpushare_explain(), "older"));
}

/* A byte at a time, over and over half a message: nothing is told before it is whole. */
static void halves_are_waited_for(void **state)
{
	uint8_t bytes[PUBLISHER_FRAME_MAX];
	size_t size;

	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put_welcome(1, REGISTRY, 1);
	begin(NULL, 2);
	size = publisher_frame(bytes, REGISTRY, SHARE, 1, "w");
	for (size_t i = 0; i < size; i++) {
		assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
		assert_true(raw_write(publisher.line, bytes + i, 1));
	}
	EXPECT(SHARE, "w");
	assert_true(raw_write(publisher.line, bytes, size / 2));
	shutdown(publisher.line, SHUT_RDWR);
	assert_int_equal(next(300), GPUSHARE_E_TIMED_OUT); /* the half was nothing */
	publisher_say(REGISTRY, SHARE, 2, "x");
	EXPECT(SHARE, "x");
}

static bool is_readable(int timeout_ms)
{
	struct pollfd one = {.fd = gpushare_watch_fd(watch), .events = POLLIN};

	return poll(&one, 1, timeout_ms) == 1;
}

/* Also what has been read already: there is no end to be waited for but the last. */
static void poll_knows_when_there_is_more(void **state)
{
	int fd;

	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put_welcome(1, REGISTRY, 9);
	begin(NULL, 2);
	fd = gpushare_watch_fd(watch);
	assert_false(is_readable(0));
	for (uint64_t i = 1; i <= 3; i++)
		publisher_say(REGISTRY, SHARE, i, "w");
	publisher_say(REGISTRY, SHARE, 9, "w");
	for (int i = 0; i < 5; i++) {
		assert_true(is_readable(RAW_TIMEOUT_MS));
		assert_int_equal(next(0), GPUSHARE_OK);
		assert_int_equal(told.kind, i == 3 ? GPUSHARE_NOTICE_LOST : SHARE);
	}
	assert_false(is_readable(50));
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
	shutdown(publisher.line, SHUT_RDWR); /* over a connection that is made again too */
	while (publisher.line >= 0 && next(0) == GPUSHARE_E_TIMED_OUT && is_readable(300))
		;
	publisher_say(REGISTRY, SHARE, 10, "w");
	while (next(0) == GPUSHARE_E_TIMED_OUT)
		assert_true(is_readable(RAW_TIMEOUT_MS));
	assert_int_equal(told.serial, 10);
	assert_int_equal(gpushare_watch_fd(watch), fd);
}

static void a_newer_registrys_kinds_are_no_loss(void **state)
{
	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put(0, REGISTRY, 4000, 1, "w");
	publisher_put(0, REGISTRY, SHARE, 2, "w");
	begin(NULL, 1);
	EXPECT(SHARE, "w");
	assert_int_equal(told.serial, 2);
}

static void arguments_are_checked(void **state)
{
	static char glob[GPUSHARE_NAME_MAX + 2];

	publisher_put_welcome(0, REGISTRY, 0);
	begin(NULL, 1);
	memset(glob, '?', sizeof(glob) - 1);
	assert_int_equal(gpushare_watch(NULL, NULL, &watch), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch(session, NULL, NULL), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch(session, glob, &watch), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch_next(NULL, 0, &told), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch_next(watch, 0, NULL), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch_fd(NULL), -1);
	assert_string_equal(gpushare_notice_text(12345), "unknown");
	gpushare_watch_close(NULL);
}

#define PLAYED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(PLAYED(notices_come_in_order), PLAYED(only_names_that_match), PLAYED(a_gap_is_told),
	  PLAYED(a_connection_that_ends_is_made_again), PLAYED(nonsense_is_refused),
	  PLAYED(who_does_not_greet_as_a_registry_is_refused), PLAYED(who_is_silent_is_left),
	  PLAYED(the_deadline_holds), PLAYED(halves_are_waited_for),
	  PLAYED(poll_knows_when_there_is_more), PLAYED(a_newer_registrys_kinds_are_no_loss),
	  PLAYED(arguments_are_checked))
