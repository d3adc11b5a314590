/* SPDX-License-Identifier: MIT */
/* The real daemon, and peers that don't behave. */
#include "unit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"

static void garbage_is_shown_the_door(void **state)
{
	static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\0SQ\0\0\x30\0\0",
					      "\0SP\0\0\x62\0\0"};
	static const size_t sizes[] = {18, 8, 8};

	(void)state;
	for (int i = 0; i < 3; i++) {
		int fd = raw_dial(&raw_here);

		assert_true(raw_write(fd, garbage[i], sizes[i]));
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		close(fd);
	}
	raw_assert_serves();
}

static void silent_peers_disturb_nobody(void **state)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	int mute[40], half[40];

	(void)state;
	sp_header(header, 1, 500);
	for (int i = 0; i < 40; i++) {
		mute[i] = raw_dial(&raw_here);
		if (i % 2)
			assert_true(raw_write(mute[i], "\0SP", 3));
		half[i] = raw_connect(&raw_here);
		assert_true(raw_write(half[i], header, (size_t)(i % 13 + 1)));
	}
	raw_assert_serves();
	for (int i = 0; i < 40; i++) {
		close(mute[i]);
		close(half[i]);
	}
	raw_assert_serves();
}

/* nanomsg/nng#1518: one such peer made a listener of nng's REP deaf. */
static void who_leaves_without_a_word_deafens_nobody(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		close(raw_dial(&raw_here));
	raw_assert_serves();
}

static void oversize_messages_end_the_connection(void **state)
{
	static const uint64_t sizes[] = {GPUSHARE_MESSAGE_MAX + 1, UINT64_C(1) << 40,
					 UINT64_MAX - 4};
	int other = raw_connect(&raw_here);

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
		int fd = raw_connect(&raw_here);

		assert_int_equal(raw_say(fd, raw_share("mine")), GPUSHARE_OK);
		sp_header(header, 1, sizes[i]);
		assert_true(raw_write(fd, header, sizeof(header)));
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		assert_in_range(raw_ms_until_gone(other, "mine"), 0, RAW_GONE_MS);
		close(fd);
	}
	close(other);
	raw_assert_serves();
}

static void nonsense_is_answered(void **state)
{
	static const char unknown[] = "\x7a\x03"
				      "abc"; /* field 15 */
	static char large[4096];
	int fd = raw_connect(&raw_here);
	uint32_t seed = 4711;

	(void)state;
	assert_true(raw_send_bytes(fd, 1, unknown, 5));
	assert_true(raw_receive(fd, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_PROTOCOL);
	raw_assert_sentence("can't make sense");
	assert_true(raw_send_bytes(fd, 2, "", 0));
	assert_true(raw_receive(fd, 2, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_PROTOCOL);
	assert_int_equal(raw_say(fd, raw_lookup("a b", 0)), GPUSHARE_E_NAME);
	raw_assert_sentence("valid name");
	for (uint32_t id = 10; id < 1010; id++) {
		size_t size = (seed >> 8) % sizeof(large);

		for (size_t i = 0; i < size; i++)
			large[i] = (char)((seed = seed * 1664525 + 1013904223) >> 16);
		seed = seed * 1664525 + 1013904223;
		assert_true(raw_send_bytes(fd, id, large, size));
		assert_true(raw_receive(fd, id, &raw_answer, RAW_TIMEOUT_MS));
		assert_int_not_equal(raw_answer.status, GPUSHARE_OK);
	}
	assert_int_equal(raw_say(fd, raw_share("x")), GPUSHARE_OK); /* still friends */
	close(fd);
}

/* Asks and never listens: nobody waits for it, and its names go when it does. */
static void who_reads_no_answers_holds_up_nobody(void **state)
{
	int fd = raw_connect(&raw_here), other = raw_connect(&raw_here);
	struct timeval patience = {.tv_sec = 1};
	request list = {.which_verb = gpushare_Request_list_tag};
	char name[16];

	(void)state;
	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "deaf%d", i);
		assert_int_equal(raw_say(fd, raw_share(name)), GPUSHARE_OK);
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	for (uint32_t id = 0; id < 100000 && raw_send(fd, id, &list); id++)
		;
	for (int i = 0; i < 20; i++)
		raw_assert_serves();
	assert_int_equal(raw_say(other, raw_lookup("deaf3", 0)), GPUSHARE_OK);
	close(fd);
	assert_in_range(raw_ms_until_gone(other, "deaf3"), 0, RAW_GONE_MS);
	close(other);
}

static void many_processes_at_once(void **state)
{
	pid_t pids[8];
	int fd;

	(void)state;
	for (int p = 0; p < 8; p++) {
		pids[p] = raw_fork();
		if (pids[p])
			continue;
		for (int round = 0; round < 60; round++) {
			int own = raw_connect(&raw_here);
			request what = raw_share("contended"), wait = raw_lookup("contended", 20);

			raw_ask(own, &what, &raw_answer);
			if (raw_answer.status != GPUSHARE_OK &&
			    raw_answer.status != GPUSHARE_E_EXISTS)
				_exit(1);
			raw_ask(own, &wait, &raw_answer);
			if (raw_answer.status != GPUSHARE_OK &&
			    raw_answer.status != GPUSHARE_E_TIMED_OUT)
				_exit(2);
			if (round % 3 == 0)
				raw_send(own, 1, &wait); /* and leave without its answer */
			close(own);
		}
		_exit(0);
	}
	for (int p = 0; p < 8; p++) {
		int status;

		waitpid(pids[p], &status, 0);
		assert_int_equal(status, 0);
	}
	fd = raw_connect(&raw_here);
	raw_ms_until_gone(fd, "contended");
	raw_await_connections(fd, 1);
	assert_int_equal(raw_stat(fd).names, 0);
	assert_int_equal(raw_stat(fd).waiters, 0);
	close(fd);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(garbage_is_shown_the_door),
	    with_daemon(silent_peers_disturb_nobody),
	    with_daemon(who_leaves_without_a_word_deafens_nobody),
	    with_daemon(oversize_messages_end_the_connection),
	    with_daemon(nonsense_is_answered),
	    with_daemon(who_reads_no_answers_holds_up_nobody),
	    with_daemon(many_processes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
