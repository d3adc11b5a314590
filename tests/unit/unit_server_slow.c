/* SPDX-License-Identifier: MIT */
/* The real daemon, and peers that are slow, silent, or stop halfway. The daemon drops them after
 * silent_s, a second here, and nobody else waits for them. */
#include "unit.h"

#include "configured.h"
#include "raw_fds.h"
#include "raw.h"

#define SILENT_MS 1000
#define LATE_MS (SILENT_MS + 1000 + raw_slack_ms()) /* the daemon looks every 500 ms */

static int set_up(void **state)
{
	configured_start("silent_s = 1\n");
	return 0;
}

/* Expect that the daemon closes the connection after SILENT_MS, and by LATE_MS. */
static void assert_dropped(int fd, long long begun_ms)
{
	assert_true(raw_is_closed(fd, LATE_MS));
	assert_in_range(raw_now_ms() - begun_ms, SILENT_MS - 10, LATE_MS);
	close(fd);
}

static void who_stays_silent(void **state)
{
	int first = raw_connect(&raw_here), before = daemon_fds();
	long long begun_ms = raw_now_ms();
	int mute = raw_dial(&raw_here), half = raw_dial(&raw_here), greeted = raw_greet(&raw_here);

	assert_true(raw_write(half, "\0SP", 3));
	raw_assert_serves();
	assert_dropped(mute, begun_ms);
	assert_dropped(half, begun_ms);
	assert_dropped(greeted, begun_ms);
	configured_await_drops(first, "silent", 3);
	assert_int_equal(configured_drops(first, "half"), 0);
	raw_await_connections(first, 1);
	raw_fds_await(before);
	close(first);
}

/* Single bytes don't postpone the deadline of an unfinished message. */
static void who_drips(void **state)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	int drip = raw_connect(&raw_here), fd;
	long long begun_ms = raw_now_ms();

	sp_header(header, 1, 4000);
	assert_true(raw_write(drip, header, sizeof(header)));
	while (raw_write(drip, "x", 1)) {
		assert_in_range(raw_now_ms() - begun_ms, 0, LATE_MS);
		raw_sleep_ms(100);
	}
	assert_in_range(raw_now_ms() - begun_ms, SILENT_MS, LATE_MS);
	close(drip);
	fd = raw_connect(&raw_here);
	configured_await_drops(fd, "half", 1);
	close(fd);
}

/* After its hello a client may be idle for long: its connection is its session. */
static void who_has_nothing_to_say_stays(void **state)
{
	int fd = raw_connect(&raw_here), many = raw_connect(&raw_here);
	int waits = raw_connect(&raw_here);
	request late = raw_lookup("late", 2500);

	assert_int_equal(raw_say(fd, raw_share("a")), GPUSHARE_OK);
	assert_true(raw_send(waits, 7, &late));
	for (int i = 0; i < 30; i++) {
		assert_int_equal(raw_say(many, raw_lookup("a", 0)), GPUSHARE_OK);
		raw_sleep_ms(100);
	}
	assert_int_equal(raw_say(fd, raw_lookup("a", 0)), GPUSHARE_OK);
	assert_true(raw_receive(waits, 7, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_say(waits, raw_lookup("late", 0)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(configured_drops(fd, "silent"), 0);
	assert_int_equal(configured_drops(fd, "half"), 0);
	close(waits);
	close(many);
	close(fd);
}

/* The peer sends without an end and never reads. The daemon drops the connection, and its
 * session with it. */
static void who_never_reads(void **state)
{
	struct timeval patience = {.tv_usec = 100000};
	request list = {.which_verb = gpushare_Request_list_tag};
	int deaf = raw_connect(&raw_here), fd = raw_connect(&raw_here);
	long long begun_ms;
	char name[16];

	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "deaf%d", i);
		assert_int_equal(raw_say(deaf, raw_share(name)), GPUSHARE_OK);
	}
	setsockopt(deaf, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	for (uint32_t id = 0; id < 10000 && raw_send(deaf, id, &list); id++)
		;
	begun_ms = raw_now_ms();
	while (raw_say(fd, raw_lookup("deaf3", 0)) == GPUSHARE_OK) {
		assert_in_range(raw_now_ms() - begun_ms, 0, LATE_MS + 1000);
		raw_sleep_ms(50);
	}
	configured_await_drops(fd, "deaf", 1);
	raw_assert_serves();
	close(deaf);
	close(fd);
}

static void await_waiters(int fd, uint64_t count)
{
	long long deadline = raw_now_ms() + RAW_TIMEOUT_MS;

	while (raw_stat(fd).waiters != count) {
		if (raw_now_ms() > deadline)
			fail_msg("%d waiters instead of %d", (int)raw_stat(fd).waiters, (int)count);
		raw_sleep_ms(1);
	}
}

#define LATE 20000 /* requests, more than the sockets and the daemon buffer */
static atomic_uint sent;

static void *ask_all(void *fd)
{
	request ask = raw_lookup("ahead", 0);

	while (atomic_load(&sent) < LATE && raw_send(*(int *)fd, atomic_load(&sent), &ask))
		atomic_fetch_add(&sent, 1);
	return NULL;
}

/* The client sends until its socket takes no more, and only then reads: it loses no answer. */
static void who_reads_late_gets_every_answer(void **state)
{
	static uint8_t answered[LATE];
	int fd = raw_connect(&raw_here);
	unsigned int before = 0, now = 1;
	pthread_t thread;
	uint32_t id;

	assert_int_equal(raw_say(fd, raw_share("ahead")), GPUSHARE_OK);
	assert_int_equal(pthread_create(&thread, NULL, ask_all, &fd), 0);
	for (; now != before || !now; now = atomic_load(&sent)) {
		before = now;
		raw_sleep_ms(100);
	}
	assert_in_range(now, 1, LATE - 1);
	raw_assert_serves(); /* the daemon serves other clients meanwhile */
	for (uint32_t heard = 0; heard < LATE; heard++) {
		assert_true(raw_receive_any(fd, &id, &raw_answer, RAW_TIMEOUT_MS));
		assert_int_equal(raw_answer.status, GPUSHARE_OK);
		assert_in_range(id, 0, LATE - 1);
		assert_int_equal(answered[id]++, 0);
	}
	pthread_join(thread, NULL);
	close(fd);
}

/* The wait that begins later ends first. */
static void waits_end_in_the_order_of_their_deadlines(void **state)
{
	int a = raw_connect(&raw_here), b = raw_connect(&raw_here);
	request slow = raw_lookup("x", 400), quick = raw_lookup("x", 50);

	assert_true(raw_send(a, 1, &slow));
	await_waiters(b, 1);
	assert_true(raw_send(b, 1, &quick));
	assert_true(raw_receive(b, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_TIMED_OUT);
	assert_int_equal(raw_stat(b).waiters, 1);
	assert_true(raw_receive(a, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_TIMED_OUT);
	close(a);
	close(b);
}

static int set_up_small(void **state)
{
	configured_start("user_connections = 5\naudit = audit.log\n");
	return 0;
}

/* A user's sockets have a limit, whether they send anything or not; connections within it are
 * served. */
static void who_opens_without_end(void **state)
{
	enum { ROOM = 5 + 2 * 100, MORE = 60 };
	int first = raw_connect(&raw_here), fds[ROOM + MORE], closed = 0, before, door;

	before = daemon_fds();
	for (int i = 0; i < ROOM + MORE; i++)
		fds[i] = raw_dial(&raw_here);
	assert_true(raw_is_closed(fds[ROOM + MORE - 1], RAW_TIMEOUT_MS));
	for (int i = 0; i < ROOM + MORE; i++)
		closed += raw_is_closed(fds[i], 0);
	assert_int_equal(closed, MORE + 1);
	for (long long end_ms = raw_now_ms() + RAW_TIMEOUT_MS; daemon_fds() > before + ROOM + 2;) {
		assert_in_range(raw_now_ms(), 0, end_ms);
		raw_sleep_ms(5);
	}
	assert_int_equal(raw_say(first, raw_share("x")), GPUSHARE_OK);
	configured_await_drops(first, "crowd", MORE + 1);
	configured_await("audit.log", "connect uid=");
	configured_await("audit.log", "outcome=E_LIMIT");
	door = raw_fds_dial(); /* fds.sock counts towards the same limit */
	assert_true(raw_is_closed(door, RAW_TIMEOUT_MS));
	configured_await_drops(first, "crowd", MORE + 2);
	close(door);
	for (int i = 0; i < ROOM + MORE; i++)
		close(fds[i]);
	raw_sleep_ms(100 + raw_slack_ms());
	raw_assert_serves();
	close(first);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, set_up, raw_tear_down)

UNIT_MAIN(RAW_TEST(who_reads_late_gets_every_answer),
	  RAW_TEST(waits_end_in_the_order_of_their_deadlines), with_daemon(who_stays_silent),
	  with_daemon(who_drips), with_daemon(who_has_nothing_to_say_stays),
	  with_daemon(who_never_reads),
	  cmocka_unit_test_setup_teardown(who_opens_without_end, set_up_small, raw_tear_down))
