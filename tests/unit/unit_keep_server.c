/* SPDX-License-Identifier: MIT */
/* The daemon keeps buffers that outlive their owner: after kills, without delay, and until they
 * are removed. */
#include "unit.h"

#include "raw_peer.h"

#define ROUNDS 200
#define KEEP GPUSHARE_FLAG_KEEP
#define READONLY GPUSHARE_FLAG_READONLY

static int kept(int own, const char *name)
{
	return raw_fds_put(own, name, KEEP);
}

static void a_dead_owners_name_is_free_at_once(void **state)
{
	int fd = raw_connect(&raw_here), before = raw_fds_settled();

	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid = round % 2 ? raw_owner_by("x", kept) : raw_owner("x", raw_share);

		assert_int_equal(kept(fd, "x"), GPUSHARE_E_EXISTS);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_int_equal(kept(fd, "x"), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	}
	raw_fds_await(before);
	close(fd);
}

static void end(int peer, int fd)
{
	uint64_t connections = raw_stat(fd).connections;

	raw_peer_end(peer);
	raw_await_connections(fd, connections - 1);
}

/* The owner ends, or frees the buffer. An owner that freed it is then a reader like any other. */
static void it_stays_without_its_owner(void **state)
{
	int fd = raw_connect(&raw_here), owner = raw_peer(0, 0);
	pid_t pid = raw_peer_pid(owner);
	uint64_t freed;

	assert_int_equal(raw_fds_put(owner, "plain", READONLY), GPUSHARE_OK);
	assert_int_equal(raw_fds_put(owner, "freed", KEEP | READONLY), GPUSHARE_OK);
	freed = raw_answer.body.share.generation;
	assert_int_equal(kept(owner, "x"), GPUSHARE_OK);
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
	/* An ordinary buffer replaces a kept one and is not kept itself. */
	assert_int_equal(raw_say(fd, raw_share("freed")), GPUSHARE_OK);
	assert_int_equal(raw_stat(fd).kept_bytes, 0);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, raw_fds_set_up, raw_peers_tear_down)
UNIT_MAIN(TEST(a_dead_owners_name_is_free_at_once), TEST(it_stays_without_its_owner))
