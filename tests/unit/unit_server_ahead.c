/* SPDX-License-Identifier: MIT */
/* The real daemon, and peers that send requests before they have read earlier answers. */
#include "unit.h"

#include "raw.h"
#include "state/limit.h"

#define AHEAD 16     /* requests under way at a time */
#define ASKED 200000 /* requests of one connection */
#define LATE 20000   /* the same; more than the sockets and the daemon buffer */
#define LISTED 20000 /* names that there are to list */
#define GONE 150     /* connections that list and are closed */
#define GONE_TURNS 32

/* Return the id of the next answer, in whatever order they arrive; fail the test if none
 * arrives. */
static uint32_t hear_any(int fd, uint32_t heard)
{
	reply answer;
	uint32_t id;

	if (!raw_receive_any(fd, &id, &answer, RAW_TIMEOUT_MS))
		fail_msg("no answer to those under way after %u", heard);
	assert_int_equal(answer.status, GPUSHARE_OK);
	return id;
}

/* The client reads all the time and keeps AHEAD requests under way: each is answered once. */
static void each_request_ahead_is_answered(void **state)
{
	request ask = raw_lookup("ahead", 0);
	uint8_t *answered = test_calloc(ASKED, 1);
	int fd = raw_connect(&raw_here);
	uint32_t sent = 0;

	assert_int_equal(raw_say(fd, raw_share("ahead")), GPUSHARE_OK);
	for (uint32_t heard = 0; heard < ASKED; heard++) {
		uint32_t id;

		for (; sent < ASKED && sent < heard + AHEAD; sent++)
			assert_true(raw_send(fd, sent, &ask));
		id = hear_any(fd, heard);
		assert_in_range(id, 0, sent - 1);
		assert_int_equal(answered[id]++, 0);
	}
	test_free(answered);
	close(fd);
}

struct asking {
	int fd;
	atomic_uint sent;
};

static void *ask_all(void *argument)
{
	struct asking *asking = argument;
	request ask = raw_lookup("ahead", 0);

	for (uint32_t id = 0; id < LATE; id++) {
		if (!raw_send(asking->fd, id, &ask))
			break;
		atomic_store(&asking->sent, id + 1);
	}
	return NULL;
}

/* The client sends until its socket takes no more, and only then reads: it loses no answer. */
static void who_reads_late_gets_every_answer(void **state)
{
	struct asking asking = {.fd = raw_connect(&raw_here)};
	uint8_t *answered = test_calloc(LATE, 1);
	unsigned int before = 0, now = 1;
	pthread_t thread;

	assert_int_equal(raw_say(asking.fd, raw_share("ahead")), GPUSHARE_OK);
	assert_int_equal(pthread_create(&thread, NULL, ask_all, &asking), 0);
	for (; now != before || !now; now = atomic_load(&asking.sent)) {
		before = now;
		raw_sleep_ms(100);
	}
	assert_in_range(now, 1, LATE - 1);
	raw_assert_serves(); /* the daemon serves other clients meanwhile */
	for (uint32_t heard = 0; heard < LATE; heard++) {
		uint32_t id = hear_any(asking.fd, heard);

		assert_in_range(id, 0, LATE - 1);
		assert_int_equal(answered[id]++, 0);
	}
	pthread_join(thread, NULL);
	test_free(answered);
	close(asking.fd);
}

static int set_up_system(void **state)
{
	static const char *const extra[] = {"--system", NULL};

	if (geteuid()) {
		printf("skipped: only root can be others\n");
		return 0;
	}
	strcpy(raw_here.directory, "/tmp/gpushare-unit-XXXXXX");
	assert_non_null(mkdtemp(raw_here.directory));
	raw_daemon_start(&raw_here, extra);
	return 0;
}

static int tear_down_system(void **state)
{
	return geteuid() ? 0 : raw_tear_down(state);
}

/* Run in a child. A change of uid clears the parent-death signal, so set it again. */
static void become_other(void)
{
	if (setresgid(2042, 2042, 2042) || setresuid(2042, 2042, 2042) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
}

/* Start `flood` in a child; return once it has reported that it runs. */
static pid_t flood_begin(void (*flood)(int said))
{
	int said[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(said), 0);
	pid = raw_fork();
	if (!pid)
		flood(said[1]);
	close(said[1]);
	assert_int_equal(read(said[0], &byte, 1), 1);
	close(said[0]);
	return pid;
}

static void flood_end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* As another user, share for a group that doesn't exist, over four connections, as fast as the
 * daemon answers. */
static void share_for_strange_groups(int said)
{
	request share = raw_share("strange");
	reply answer;
	int fds[4];

	become_other();
	strcpy(share.verb.share.group, "no-such-group");
	share.verb.share.mode = 0640;
	for (int i = 0; i < 4; i++)
		fds[i] = raw_connect(&raw_here);
	for (uint32_t id = 0;; id++) {
		for (int i = 0; i < 4; i++)
			raw_send(fds[i], id, &share);
		for (int i = 0; i < 4; i++)
			raw_receive(fds[i], id, &answer, RAW_TIMEOUT_MS);
		if (id == 10 && write(said, "", 1) != 1)
			_exit(1);
	}
}

static void who_names_strange_groups_fails_no_other_user(void **state)
{
	request share = raw_share("grouped");
	int fd;
	pid_t pid;

	if (geteuid())
		skip();
	fd = raw_connect(&raw_here);
	pid = flood_begin(share_for_strange_groups);
	strcpy(share.verb.share.group, "root");
	share.verb.share.mode = 0640;
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(raw_say(fd, share), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("grouped", 0)), GPUSHARE_OK);
	}
	flood_end(pid);
	close(fd);
}

/* A glob that fits each name nearly, from each of its bytes on. */
static request slow_list(void)
{
	request list = {.which_verb = gpushare_Request_list_tag};

	memset(list.verb.list.glob, 'a', 120);
	list.verb.list.glob[0] = '*';
	list.verb.list.glob[120] = 'x';
	return list;
}

static void share_slow_names(int fd)
{
	request share = raw_share("x");

	share.verb.share.mode = 0644;
	for (int i = 0; i < LISTED; i++) {
		memset(share.verb.share.buffer.name, 'a', 240);
		snprintf(share.verb.share.buffer.name + 240, 16, "%dy", i);
		assert_int_equal(raw_say(fd, share), GPUSHARE_OK);
	}
}

static void close_all(const int fds[], int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

/* More lists are dropped than the daemon has contexts, so a leaked context would show. Lists
 * that wait don't keep the daemon from ending. */
static void lists_of_closed_connections_leave_nothing(void **state)
{
	int owner = raw_connect(&raw_here), fds[GONE];
	request list = slow_list();

	share_slow_names(owner);
	for (int turn = 0; turn <= GONE_TURNS; turn++) {
		for (int i = 0; i < GONE; i++)
			fds[i] = raw_connect(&raw_here);
		for (int i = 0; i < GONE; i++)
			assert_true(raw_send(fds[i], 1, &list));
		if (turn < GONE_TURNS) {
			close_all(fds, GONE);
			assert_int_equal(raw_say(owner, list), GPUSHARE_OK);
		}
	}
	assert_int_equal(kill(raw_here.pid, SIGTERM), 0);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	close_all(fds, GONE);
	close(owner);
}

UNIT_MAIN(RAW_TEST(each_request_ahead_is_answered), RAW_TEST(who_reads_late_gets_every_answer),
	  cmocka_unit_test_setup_teardown(who_names_strange_groups_fails_no_other_user,
					  set_up_system, tear_down_system),
	  RAW_TEST(lists_of_closed_connections_leave_nothing))
