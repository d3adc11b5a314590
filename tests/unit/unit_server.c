/* SPDX-License-Identifier: MIT */
/* The real daemon: who a peer is, and what goes when a peer goes. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"

static void hello_is_wanted_first(void **state)
{
	int fd = raw_greet(&raw_here);
	request hello = {.which_verb = gpushare_Request_hello_tag};

	(void)state;
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_E_PROTOCOL);
	raw_assert_sentence("hello");
	hello.verb.hello.protocol = 99;
	assert_int_equal(raw_say(fd, hello), GPUSHARE_E_NOT_SUPPORTED);
	raw_assert_sentence("protocol 99");
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.hello.pid, raw_here.pid);
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	close(fd);
}

static void the_kernel_says_who_owns(void **state)
{
	pid_t pid = raw_owner("weights", raw_share);
	int fd = raw_connect(&raw_here);

	(void)state;
	assert_int_equal(raw_say(fd, raw_attach("weights", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.attach.buffer.owner_pid, pid);
	assert_int_equal(raw_answer.body.attach.buffer.owner_uid, getuid());
	assert_true(raw_answer.body.attach.buffer.owner_started > 0);
	assert_string_equal(raw_answer.body.attach.buffer.owner_command, "unit_server");
	assert_false(raw_answer.body.attach.own);
	assert_int_equal(raw_answer.body.attach.buffer.address, 0);
	assert_int_equal(raw_answer.body.attach.buffer.attachers, 1);
	assert_int_equal(raw_answer.body.attach.handle[63], RAW_HANDLE_BYTE);

	assert_int_equal(raw_say(fd, raw_share("mine")), GPUSHARE_OK);
	close(raw_connect(&raw_here));
	assert_int_equal(raw_say(fd, raw_attach("mine", 0)), GPUSHARE_OK);
	assert_true(raw_answer.body.attach.own);
	assert_true(raw_answer.body.attach.buffer.address == 0x7f0000000000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void a_taken_name_says_whose(void **state)
{
	pid_t pid = raw_owner("weights", raw_share);
	int fd = raw_connect(&raw_here);
	char who[64];

	(void)state;
	assert_int_equal(raw_say(fd, raw_share("weights")), GPUSHARE_E_EXISTS);
	snprintf(who, sizeof(who), "taken by pid %d (unit_server), uid %d", pid, (int)getuid());
	raw_assert_sentence(who);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void a_killed_owners_names_go(void **state)
{
	pid_t pid = raw_owner("weights", raw_share);
	int fd = raw_connect(&raw_here);
	char who[64];

	(void)state;
	assert_int_equal(raw_say(fd, raw_lookup("weights", 0)), GPUSHARE_OK);
	kill(pid, SIGKILL);
	assert_in_range(raw_ms_until_gone(fd, "weights"), 0, RAW_GONE_MS);
	waitpid(pid, NULL, 0);
	assert_int_equal(raw_say(fd, raw_lookup("weights", 0)), GPUSHARE_E_NOT_FOUND);
	snprintf(who, sizeof(who), "pid %d (unit_server) exited 0 s ago", pid);
	raw_assert_sentence(who);
	assert_int_equal(raw_say(fd, raw_share("weights")), GPUSHARE_OK);
	close(fd);
}

/* Workers that a program forked keep its connection open after it was killed. */
static void a_forked_child_does_not_keep_the_session(void **state)
{
	int alive[2], fd = raw_connect(&raw_here);
	pid_t pid, worker;

	(void)state;
	assert_int_equal(pipe(alive), 0);
	pid = raw_fork();
	if (!pid) {
		int own = raw_connect(&raw_here);
		request what = raw_share("weights");

		if (raw_ask(own, &what, &raw_answer))
			_exit(1);
		if (!fork()) {
			alarm(20); /* holds `own` open for longer than the test lasts */
			worker = getpid();
			(void)!write(alive[1], &worker, sizeof(worker));
		}
		for (;;)
			pause();
	}
	close(alive[1]);
	assert_int_equal(read(alive[0], &worker, sizeof(worker)), sizeof(worker));
	close(alive[0]);
	assert_int_equal(raw_say(fd, raw_lookup("weights", 0)), GPUSHARE_OK);
	kill(pid, SIGKILL);
	assert_in_range(raw_ms_until_gone(fd, "weights"), 0, RAW_GONE_MS);
	waitpid(pid, NULL, 0);
	assert_int_equal(kill(worker, SIGKILL), 0); /* it was there all the time */
	close(fd);
}

static void a_killed_attachers_attachments_go(void **state)
{
	int fd = raw_connect(&raw_here), ready[2];
	long long begin;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(raw_say(fd, raw_share("x")), GPUSHARE_OK);
	assert_int_equal(pipe(ready), 0);
	pid = raw_fork();
	if (!pid) {
		int own = raw_connect(&raw_here);
		request what = raw_attach("x", 0);

		if (raw_ask(own, &what, &raw_answer) || raw_ask(own, &what, &raw_answer))
			_exit(1);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.attachers, 2);
	kill(pid, SIGKILL);
	begin = raw_now_ms();
	while (raw_say(fd, raw_lookup("x", 0)) == GPUSHARE_OK &&
	       raw_answer.body.lookup.buffer.attachers)
		assert_in_range(raw_now_ms() - begin, 0, RAW_GONE_MS);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	close(fd);
}

static void a_handle_leaves_only_to_who_attaches(void **state)
{
	request asks[] = {raw_lookup("x", 0),
			  {.which_verb = gpushare_Request_list_tag},
			  {.which_verb = gpushare_Request_stat_tag},
			  raw_share("x")};
	uint8_t wire[SP_HEADER_SIZE + SP_ID_SIZE + gpushare_Reply_size], needle[8];
	int fd = raw_connect(&raw_here);

	(void)state;
	memset(needle, RAW_HANDLE_BYTE, sizeof(needle));
	assert_int_equal(raw_say(fd, raw_share("x")), GPUSHARE_OK);
	for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
		const size_t ahead = SP_HEADER_SIZE + SP_ID_SIZE;
		size_t size;

		assert_true(raw_send(fd, (uint32_t)i, &asks[i]));
		assert_true(raw_read(fd, wire, ahead, RAW_TIMEOUT_MS));
		size = (size_t)sp_header_body_size(wire);
		assert_in_range(size, 1, gpushare_Reply_size);
		assert_true(raw_read(fd, wire + ahead, size, RAW_TIMEOUT_MS));
		assert_null(memmem(wire, ahead + size, needle, sizeof(needle)));
	}
	close(fd);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(hello_is_wanted_first),
	    with_daemon(the_kernel_says_who_owns),
	    with_daemon(a_taken_name_says_whose),
	    with_daemon(a_killed_owners_names_go),
	    with_daemon(a_forked_child_does_not_keep_the_session),
	    with_daemon(a_killed_attachers_attachments_go),
	    with_daemon(a_handle_leaves_only_to_who_attaches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
