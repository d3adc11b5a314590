/* SPDX-License-Identifier: MIT */
/* The real daemon keeps what outlives its owner: over kills, in time, and to its own end. */
#include "unit.h"

#include "raw_peer.h"

#define ROUNDS 200
#define KEEP GPUSHARE_FLAG_KEEP
#define READONLY GPUSHARE_FLAG_READONLY

static int kept(int own, const char *name, uint32_t ttl_s)
{
	request what = raw_fds_share(name);
	int file = raw_fds_make(), status;

	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	what.verb.share.buffer.ttl_s = ttl_s;
	status = raw_fds_say(own, what, file);
	close(file);
	return status;
}

static int kept_for_good(int own, const char *name)
{
	return kept(own, name, 0);
}

static void a_dead_owners_name_is_free_at_once(void **state)
{
	int fd = raw_connect(&raw_here), before = raw_fds_settled();

	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid =
		    round % 2 ? raw_owner_by("x", kept_for_good) : raw_owner("x", raw_share);

		assert_int_equal(kept(fd, "x", 0), GPUSHARE_E_EXISTS);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_int_equal(kept(fd, "x", 0), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	}
	raw_fds_await(before);
	close(fd);
}

/* Killed in the middle of whatever it asks: its connection goes, and those after it. */
static void killed_clients_leave_no_connection(void **state)
{
	int before = raw_fds_settled();

	for (int round = 0; round < ROUNDS; round++) {
		int ready[2];
		char byte;
		pid_t pid;

		assert_int_equal(pipe(ready), 0);
		pid = raw_fork();
		if (!pid) {
			int fd = raw_connect(&raw_here);

			alarm(60);
			if (write(ready[1], "x", 1) != 1)
				_exit(1);
			for (;;)
				raw_say(fd, raw_lookup("x", 0));
		}
		close(ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		close(ready[0]);
		usleep((unsigned int)(round % 20) * 50);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	raw_fds_await(before);
}

static int share(int peer, const char *name, uint32_t flags, uint64_t base_size, bool adopt)
{
	request what = raw_fds_share(name);
	int file = raw_fds_make(), status;

	what.verb.share.buffer.flags = flags;
	what.verb.share.buffer.size = 100;
	what.verb.share.buffer.base_offset = 28;
	what.verb.share.buffer.base_size = base_size;
	what.verb.share.adopt = adopt;
	status = raw_fds_say(peer, what, file);
	close(file);
	return status;
}

static void end(int peer, int fd)
{
	uint64_t connections = raw_stat(fd).connections;

	raw_peer_end(peer);
	raw_await_connections(fd, connections - 1);
}

/* By its end or by a free; who let go of it is a reader like any other. */
static void it_stays_without_its_owner(void **state)
{
	int fd = raw_connect(&raw_here), owner = raw_peer(0, 0);
	pid_t pid = raw_peer_pid(owner);
	uint64_t freed;

	assert_int_equal(share(owner, "plain", READONLY, 128, false), GPUSHARE_OK);
	assert_int_equal(share(owner, "freed", KEEP | READONLY, 128, false), GPUSHARE_OK);
	freed = raw_answer.body.share.generation;
	assert_int_equal(kept(owner, "x", 0), GPUSHARE_OK);
	assert_false(raw_seen(fd, "x")->owner_gone);
	assert_int_equal(raw_say(owner, raw_withdraw("freed", freed)), GPUSHARE_OK);
	assert_true(raw_seen(owner, "freed")->owner_gone);
	assert_int_equal(raw_fds_get(owner, "freed"), GPUSHARE_OK);
	assert_false(raw_answer.body.attach.own);
	assert_int_equal(raw_say(owner, raw_withdraw("freed", freed)), GPUSHARE_E_DENIED);
	end(owner, fd);
	assert_int_equal(raw_say(fd, raw_lookup("plain", 0)), GPUSHARE_E_NOT_FOUND);
	assert_true(raw_seen(fd, "x")->owner_gone);
	assert_int_equal(raw_seen(fd, "x")->owner_pid, pid);
	assert_int_equal(raw_seen(fd, "x")->ttl_left_s, 0);
	owner = raw_peer(0, 0);
	assert_int_equal(raw_fds_get(owner, "x"), GPUSHARE_OK);
	assert_false(raw_answer.body.attach.own);
	assert_true(raw_answer.body.attach.buffer.address == 0x7f0000000000);
	assert_int_equal(raw_seen(fd, "x")->attachers, 1);
	end(owner, fd);
	assert_int_equal(raw_seen(fd, "x")->attachers, 0);
	assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	/* An ordinary buffer takes the place of what is kept, and is not. */
	assert_int_equal(raw_say(fd, raw_share("freed")), GPUSHARE_OK);
	assert_int_equal(raw_stat(fd).kept_bytes, 0);
	close(fd);
}

static void a_quota_is_answered(void **state)
{
	int fd = raw_connect(&raw_here), owner = raw_peer(0, 0);
	const uint64_t all = raw_stat(fd).kept_limit;

	assert_int_equal(share(owner, "a", KEEP, all - 128, false), GPUSHARE_OK);
	assert_int_equal(share(owner, "b", KEEP, 129, false), GPUSHARE_E_LIMIT);
	raw_assert_sentence("129 bytes more");
	raw_assert_sentence("gpushare rm");
	assert_int_equal(share(owner, "b", KEEP, UINT64_MAX, false), GPUSHARE_E_LIMIT);
	assert_int_equal(share(owner, "c", READONLY, 4096, false), GPUSHARE_OK); /* is not kept */
	assert_int_equal(share(owner, "b", KEEP, 128, false), GPUSHARE_OK);
	end(owner, fd);
	assert_int_equal(share(fd, "b", KEEP, 129, false), GPUSHARE_E_LIMIT);
	assert_true(raw_seen(fd, "b")->owner_gone); /* refused: what was there stays */
	assert_int_equal(share(fd, "a", KEEP, 128, false), GPUSHARE_OK);
	assert_int_equal(raw_stat(fd).kept_bytes, 256);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, raw_fds_set_up, raw_peers_tear_down)
UNIT_MAIN(TEST(a_dead_owners_name_is_free_at_once), TEST(killed_clients_leave_no_connection),
	  TEST(it_stays_without_its_owner), TEST(a_quota_is_answered))
