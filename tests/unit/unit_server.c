/* SPDX-License-Identifier: MIT */
/* The real daemon, and peers that behave and peers that don't. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"

#define HANDLE_BYTE 0xc3 /* raw_share() makes handles of it */
#define GONE_MS 100      /* a dead owner's names, by the issue */

static struct raw_daemon daemon_here;
static reply answer;

static int start(void **state)
{
	(void)state;
	strcpy(daemon_here.directory, "/tmp/gpushare-unit-XXXXXX");
	assert_non_null(mkdtemp(daemon_here.directory));
	raw_daemon_start(&daemon_here, NULL);
	return 0;
}

/* Its exit status counts: a sanitizer's report is one. */
static int stop(void **state)
{
	char command[128];

	(void)state;
	kill(daemon_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&daemon_here, 4 * RAW_TIMEOUT_MS), 0);
	assert_int_not_equal(access(daemon_here.socket, F_OK), 0);
	snprintf(command, sizeof(command), "rm -rf %s", daemon_here.directory);
	return system(command);
}

static int ask(int fd, request what)
{
	return raw_ask(fd, &what, &answer);
}

static void assert_sentence(const char *part)
{
	if (!strstr(answer.message, part))
		fail_msg("\"%s\" is not in: %s", part, answer.message);
}

/* Other peers are served, at once. */
static void assert_serves(void)
{
	long long begin = raw_now_ms();
	int fd = raw_connect(&daemon_here);

	raw_stat(fd);
	close(fd);
	assert_in_range(raw_now_ms() - begin, 0, 1000);
}

/* A process of its own that shares `name` and stays. */
static pid_t fork_owner(const char *name)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		int fd = raw_connect(&daemon_here);
		request what = raw_share(name);

		if (raw_ask(fd, &what, &answer) || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static long long ms_until_gone(int fd, const char *name)
{
	long long begin = raw_now_ms();

	while (ask(fd, raw_lookup(name, 0)) == GPUSHARE_OK) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("\"%s\" does not go", name);
	}
	return raw_now_ms() - begin;
}

static void hello_is_wanted_first(void **state)
{
	int fd = raw_greet(&daemon_here);
	request hello = {.which_verb = gpushare_Request_hello_tag};

	(void)state;
	assert_int_equal(ask(fd, raw_lookup("x", 0)), GPUSHARE_E_PROTOCOL);
	assert_sentence("hello");
	hello.verb.hello.protocol = 99;
	assert_int_equal(ask(fd, hello), GPUSHARE_E_NOT_SUPPORTED);
	assert_sentence("protocol 99");
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(ask(fd, hello), GPUSHARE_OK);
	assert_int_equal(answer.body.hello.pid, daemon_here.pid);
	assert_int_equal(ask(fd, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	close(fd);
}

static void the_kernel_says_who_owns(void **state)
{
	pid_t pid = fork_owner("weights");
	int fd = raw_connect(&daemon_here);

	(void)state;
	assert_int_equal(ask(fd, raw_attach("weights", 0)), GPUSHARE_OK);
	assert_int_equal(answer.body.attach.buffer.owner_pid, pid);
	assert_int_equal(answer.body.attach.buffer.owner_uid, getuid());
	assert_true(answer.body.attach.buffer.owner_started > 0);
	assert_string_equal(answer.body.attach.buffer.owner_command, "unit_server");
	assert_false(answer.body.attach.own);
	assert_int_equal(answer.body.attach.buffer.address, 0);
	assert_int_equal(answer.body.attach.buffer.attachers, 1);
	assert_int_equal(answer.body.attach.handle[63], HANDLE_BYTE);

	assert_int_equal(ask(fd, raw_share("mine")), GPUSHARE_OK);
	close(raw_connect(&daemon_here));
	assert_int_equal(ask(fd, raw_attach("mine", 0)), GPUSHARE_OK);
	assert_true(answer.body.attach.own);
	assert_true(answer.body.attach.buffer.address == 0x7f0000000000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void a_taken_name_says_whose(void **state)
{
	pid_t pid = fork_owner("weights");
	int fd = raw_connect(&daemon_here);
	char who[64];

	(void)state;
	assert_int_equal(ask(fd, raw_share("weights")), GPUSHARE_E_EXISTS);
	snprintf(who, sizeof(who), "taken by pid %d (unit_server), uid %d", pid, (int)getuid());
	assert_sentence(who);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void a_killed_owners_names_go(void **state)
{
	pid_t pid = fork_owner("weights");
	int fd = raw_connect(&daemon_here);
	char who[64];

	(void)state;
	assert_int_equal(ask(fd, raw_lookup("weights", 0)), GPUSHARE_OK);
	kill(pid, SIGKILL);
	assert_in_range(ms_until_gone(fd, "weights"), 0, GONE_MS);
	waitpid(pid, NULL, 0);
	assert_int_equal(ask(fd, raw_lookup("weights", 0)), GPUSHARE_E_NOT_FOUND);
	snprintf(who, sizeof(who), "pid %d (unit_server) exited 0 s ago", pid);
	assert_sentence(who);
	assert_int_equal(ask(fd, raw_share("weights")), GPUSHARE_OK);
	close(fd);
}

/* Workers that a program forked keep its connection open after it was killed. */
static void a_forked_child_does_not_keep_the_lease(void **state)
{
	int alive[2], fd = raw_connect(&daemon_here);
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(alive), 0);
	pid = fork();
	if (!pid) {
		int own = raw_connect(&daemon_here);
		request what = raw_share("weights");

		if (raw_ask(own, &what, &answer))
			_exit(1);
		if (!fork()) {
			close(alive[0]);
			alarm(20); /* holds `own` open for longer than the test lasts */
			(void)!write(alive[1], "x", 1);
		}
		for (;;)
			pause();
	}
	close(alive[1]);
	assert_int_equal(read(alive[0], &byte, 1), 1);
	assert_int_equal(ask(fd, raw_lookup("weights", 0)), GPUSHARE_OK);
	kill(pid, SIGKILL);
	assert_in_range(ms_until_gone(fd, "weights"), 0, GONE_MS);
	waitpid(pid, NULL, 0);
	/* its end of the connection was closed: that is what lets the child go on */
	close(alive[0]);
	close(fd);
}

static void a_killed_attachers_attachments_go(void **state)
{
	int fd = raw_connect(&daemon_here), ready[2];
	long long begin;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(ask(fd, raw_share("x")), GPUSHARE_OK);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		int own = raw_connect(&daemon_here);
		request what = raw_attach("x", 0);

		if (raw_ask(own, &what, &answer) || raw_ask(own, &what, &answer))
			_exit(1);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(ask(fd, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(answer.body.lookup.buffer.attachers, 2);
	kill(pid, SIGKILL);
	begin = raw_now_ms();
	while (ask(fd, raw_lookup("x", 0)) == GPUSHARE_OK && answer.body.lookup.buffer.attachers)
		assert_in_range(raw_now_ms() - begin, 0, GONE_MS);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	close(fd);
}

static void a_handle_leaves_only_to_who_attaches(void **state)
{
	request asks[] = {raw_lookup("x", 0), {.which_verb = gpushare_Request_list_tag},
			  {.which_verb = gpushare_Request_stat_tag}, raw_share("x")};
	uint8_t wire[gpushare_Reply_size + 16], needle[8];
	int fd = raw_connect(&daemon_here);

	(void)state;
	memset(needle, HANDLE_BYTE, sizeof(needle));
	assert_int_equal(ask(fd, raw_share("x")), GPUSHARE_OK);
	for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
		ssize_t got;

		assert_true(raw_send(fd, (uint32_t)i, &asks[i]));
		raw_sleep_ms(50);
		got = recv(fd, wire, sizeof(wire), 0);
		assert_true(got > SP_HEADER_SIZE + SP_ID_SIZE);
		assert_null(memmem(wire, (size_t)got, needle, sizeof(needle)));
	}
	close(fd);
}

static void garbage_is_shown_the_door(void **state)
{
	static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\0SQ\0\0\x30\0\0",
					      "\0SP\0\0\x62\0\0"};
	static const size_t sizes[] = {18, 8, 8};

	(void)state;
	for (int i = 0; i < 3; i++) {
		int fd = raw_dial(&daemon_here);

		assert_true(raw_write(fd, garbage[i], sizes[i]));
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		close(fd);
	}
	assert_serves();
}

static void silent_peers_disturb_nobody(void **state)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	int mute[40], half[40];

	(void)state;
	sp_header(header, 1, 500);
	for (int i = 0; i < 40; i++) {
		mute[i] = raw_dial(&daemon_here);
		if (i % 2)
			assert_true(raw_write(mute[i], "\0SP", 3));
		half[i] = raw_connect(&daemon_here);
		assert_true(raw_write(half[i], header, (size_t)(i % 13 + 1)));
	}
	assert_serves();
	for (int i = 0; i < 40; i++) {
		close(mute[i]);
		close(half[i]);
	}
	assert_serves();
}

static void oversize_messages_end_the_connection(void **state)
{
	static const uint64_t sizes[] = {GPUSHARE_MESSAGE_MAX + 1, UINT64_C(1) << 40, UINT64_MAX - 4};

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
		int fd = raw_connect(&daemon_here);

		assert_int_equal(ask(fd, raw_share("mine")), GPUSHARE_OK);
		sp_header(header, 1, sizes[i]);
		assert_true(raw_write(fd, header, sizeof(header)));
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		close(fd);
	}
	assert_serves();
}

static void nonsense_is_answered(void **state)
{
	static const char unknown[] = "\x7a\x03" "abc"; /* field 15 */
	static char large[4096];
	int fd = raw_connect(&daemon_here);
	uint32_t seed = 4711;

	(void)state;
	assert_true(raw_send_bytes(fd, 1, unknown, 5));
	assert_true(raw_receive(fd, 1, &answer, RAW_TIMEOUT_MS));
	assert_int_equal(answer.status, GPUSHARE_E_PROTOCOL);
	assert_sentence("can't make sense");
	assert_true(raw_send_bytes(fd, 2, "", 0));
	assert_true(raw_receive(fd, 2, &answer, RAW_TIMEOUT_MS));
	assert_int_equal(answer.status, GPUSHARE_E_PROTOCOL);
	assert_int_equal(ask(fd, raw_lookup("a b", 0)), GPUSHARE_E_NAME);
	assert_sentence("valid name");
	for (uint32_t id = 10; id < 1010; id++) {
		size_t size = (seed >> 8) % sizeof(large);

		for (size_t i = 0; i < size; i++)
			large[i] = (char)((seed = seed * 1664525 + 1013904223) >> 16);
		seed = seed * 1664525 + 1013904223;
		assert_true(raw_send_bytes(fd, id, large, size));
		assert_true(raw_receive(fd, id, &answer, RAW_TIMEOUT_MS));
		assert_int_not_equal(answer.status, GPUSHARE_OK);
	}
	assert_int_equal(ask(fd, raw_share("x")), GPUSHARE_OK); /* still friends */
	close(fd);
}

/* Asks and never listens: it goes, with its names, and nobody waited for it. */
static void who_reads_no_answers_is_let_go(void **state)
{
	int fd = raw_connect(&daemon_here), other = raw_connect(&daemon_here);
	struct timeval patience = {.tv_sec = 10};
	request list = {.which_verb = gpushare_Request_list_tag};
	char name[16];

	(void)state;
	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "deaf%d", i);
		assert_int_equal(ask(fd, raw_share(name)), GPUSHARE_OK);
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	for (uint32_t id = 0; id < 100000 && raw_send(fd, id, &list); id++)
		;
	assert_serves();
	assert_in_range(ms_until_gone(other, "deaf3"), 0, RAW_TIMEOUT_MS);
	close(fd);
	close(other);
}

static void many_processes_at_once(void **state)
{
	pid_t pids[8];
	int fd;

	(void)state;
	for (int p = 0; p < 8; p++) {
		pids[p] = fork();
		if (pids[p])
			continue;
		for (int round = 0; round < 60; round++) {
			int own = raw_connect(&daemon_here);
			request what = raw_share("contended"), wait = raw_lookup("contended", 20);

			raw_ask(own, &what, &answer);
			if (answer.status != GPUSHARE_OK && answer.status != GPUSHARE_E_EXISTS)
				_exit(1);
			raw_ask(own, &wait, &answer);
			if (answer.status != GPUSHARE_OK && answer.status != GPUSHARE_E_TIMED_OUT)
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
	fd = raw_connect(&daemon_here);
	ms_until_gone(fd, "contended");
	raw_sleep_ms(100);
	assert_int_equal(raw_stat(fd).names, 0);
	assert_int_equal(raw_stat(fd).waiters, 0);
	assert_int_equal(raw_stat(fd).connections, 1);
	close(fd);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_daemon(hello_is_wanted_first),
		with_daemon(the_kernel_says_who_owns),
		with_daemon(a_taken_name_says_whose),
		with_daemon(a_killed_owners_names_go),
		with_daemon(a_forked_child_does_not_keep_the_lease),
		with_daemon(a_killed_attachers_attachments_go),
		with_daemon(a_handle_leaves_only_to_who_attaches),
		with_daemon(garbage_is_shown_the_door),
		with_daemon(silent_peers_disturb_nobody),
		with_daemon(oversize_messages_end_the_connection),
		with_daemon(nonsense_is_answered),
		with_daemon(who_reads_no_answers_is_let_go),
		with_daemon(many_processes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
