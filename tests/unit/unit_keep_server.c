/* SPDX-License-Identifier: MIT */
/* The real daemon keeps what outlives its owner: over kills, in time, and to its own end. */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

	(void)state;
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

static void a_killed_owners_buffer_is_kept(void **state)
{
	int fd = raw_connect(&raw_here), before = raw_fds_settled();
	pid_t pid = raw_owner_by("x", kept_for_good);

	(void)state;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	do {
		assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_OK);
	} while (!raw_answer.body.lookup.buffer.owner_gone);
	assert_int_equal(raw_answer.body.lookup.buffer.owner_pid, pid);
	raw_fds_await(before + 1);
	assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	raw_fds_await(before);
	close(fd);
}

/* Killed in the middle of whatever it asks: its connection goes, and those after it. */
static void killed_clients_leave_no_connection(void **state)
{
	int before = raw_fds_settled();

	(void)state;
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

static void a_ttl_ends_in_time(void **state)
{
	int fd = raw_connect(&raw_here), own = raw_connect(&raw_here), before = raw_fds_settled();
	long long begin, left;

	(void)state;
	assert_int_equal(kept(own, "x", 1), GPUSHARE_OK);
	assert_int_equal(kept(own, "y", 1), GPUSHARE_OK);
	left = raw_now_ms();
	close(own);
	do {
		assert_int_equal(raw_say(fd, raw_lookup("y", 0)), GPUSHARE_OK);
	} while (!raw_answer.body.lookup.buffer.owner_gone);
	assert_int_equal(raw_answer.body.lookup.buffer.ttl_left_s, 1);
	begin = raw_now_ms();
	while (!raw_say(fd, raw_lookup("x", 0)))
		raw_sleep_ms(5);
	assert_in_range(raw_now_ms() - begin, 0, 1000 + RAW_GONE_MS);
	assert_true(raw_now_ms() - left >= 1000);
	raw_assert_sentence("ttl");
	raw_fds_await(before - 2); /* the connection of its owner went too, and its watch */
	close(fd);
}

static void it_ends_cleanly_with_what_it_keeps(void **state)
{
	int own = raw_connect(&raw_here);

	(void)state;
	assert_int_equal(kept(own, "x", 0), GPUSHARE_OK);
	assert_int_equal(kept(own, "y", 1000), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_withdraw("y", raw_answer.body.share.generation)),
			 GPUSHARE_OK);
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	close(own);
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

static int adopt(int peer, const char *name, uint64_t size)
{
	request what = raw_fds_share(name);
	int status;

	what.verb.share.buffer.flags = KEEP | READONLY;
	what.verb.share.buffer.size = size;
	what.verb.share.adopt = true;
	status = raw_fds_say(peer, what, -1);
	assert_true((raw_fds_came >= 0) == !status);
	if (raw_fds_came >= 0)
		close(raw_fds_came);
	return status;
}

static const record *seen(int peer, const char *name)
{
	assert_int_equal(raw_say(peer, raw_lookup(name, 0)), GPUSHARE_OK);
	return &raw_answer.body.lookup.buffer;
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

	(void)state;
	assert_int_equal(share(owner, "plain", READONLY, 128, false), GPUSHARE_OK);
	assert_int_equal(share(owner, "freed", KEEP | READONLY, 128, false), GPUSHARE_OK);
	freed = raw_answer.body.share.generation;
	assert_int_equal(kept(owner, "x", 0), GPUSHARE_OK);
	assert_false(seen(fd, "x")->owner_gone);
	assert_int_equal(raw_say(owner, raw_withdraw("freed", freed)), GPUSHARE_OK);
	assert_true(seen(owner, "freed")->owner_gone);
	assert_int_equal(raw_fds_get(owner, "freed"), GPUSHARE_OK);
	assert_false(raw_answer.body.attach.own);
	assert_int_equal(raw_say(owner, raw_withdraw("freed", freed)), GPUSHARE_E_DENIED);
	end(owner, fd);
	assert_int_equal(raw_say(fd, raw_lookup("plain", 0)), GPUSHARE_E_NOT_FOUND);
	assert_true(seen(fd, "x")->owner_gone);
	assert_int_equal(seen(fd, "x")->owner_pid, pid);
	assert_int_equal(seen(fd, "x")->ttl_left_s, 0);
	owner = raw_peer(0, 0);
	assert_int_equal(raw_fds_get(owner, "x"), GPUSHARE_OK);
	assert_false(raw_answer.body.attach.own);
	assert_true(raw_answer.body.attach.buffer.address == 0x7f0000000000);
	assert_int_equal(seen(fd, "x")->attachers, 1);
	end(owner, fd);
	assert_int_equal(seen(fd, "x")->attachers, 0);
	assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(fd, raw_withdraw("freed", 0)), GPUSHARE_OK);
	assert_int_equal(raw_stat(fd).kept_bytes, 0);
	close(fd);
}

static void a_new_share_replaces_it(void **state)
{
	int fd = raw_connect(&raw_here), owner = raw_peer(0, 0), next = raw_peer(0, 0);
	request detach = {.which_verb = gpushare_Request_detach_tag};
	uint64_t first;

	(void)state;
	assert_int_equal(share(owner, "x", KEEP, 128, false), GPUSHARE_OK);
	first = raw_answer.body.share.generation;
	assert_int_equal(raw_fds_get(fd, "x"), GPUSHARE_OK);
	end(owner, fd);
	assert_int_equal(share(next, "x", KEEP, 256, false), GPUSHARE_OK);
	assert_true(raw_answer.body.share.generation > first);
	assert_false(raw_answer.body.share.adopted);
	assert_int_equal(seen(fd, "x")->attachers, 0);
	assert_false(seen(fd, "x")->owner_gone);
	assert_int_equal(seen(fd, "x")->owner_pid, raw_peer_pid(next));
	assert_int_equal(raw_stat(fd).kept_bytes, 256);
	/* The old generation's attacher gives it back without harm to the new one. */
	strcpy(detach.verb.detach.name, "x");
	detach.verb.detach.generation = first;
	assert_int_equal(raw_say(fd, detach), GPUSHARE_OK);
	assert_int_equal(seen(fd, "x")->attachers, 0);
	/* An ordinary buffer replaces it as well, and is not kept. */
	end(next, fd);
	next = raw_peer(0, 0);
	assert_int_equal(raw_say(next, raw_share("x")), GPUSHARE_OK);
	assert_int_equal(raw_stat(fd).kept_bytes, 0);
	end(next, fd);
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	close(fd);
}

static void it_is_adopted(void **state)
{
	int fd = raw_connect(&raw_here), owner = raw_peer(0, 0), next = raw_peer(0, 0);
	const record *is = &raw_answer.body.share.buffer;
	uint64_t generation;
	int before;

	(void)state;
	assert_int_equal(share(owner, "x", KEEP | READONLY, 4096, false), GPUSHARE_OK);
	generation = raw_answer.body.share.generation;
	assert_int_equal(adopt(next, "x", 100), GPUSHARE_E_EXISTS);
	assert_int_equal(adopt(next, "nothing", 100), GPUSHARE_E_NOT_FOUND);
	end(owner, fd);
	assert_int_equal(adopt(next, "x", 99), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("100 bytes, not 99");
	assert_int_equal(adopt(next, "x", 100), GPUSHARE_OK);
	assert_true(raw_answer.body.share.adopted && raw_answer.body.share.has_buffer);
	assert_int_equal(raw_answer.body.share.generation, generation);
	assert_int_equal(is->base_offset, 28);
	assert_true(is->address == 0x7f0000000000);
	assert_false(seen(fd, "x")->owner_gone);
	assert_int_equal(seen(fd, "x")->owner_pid, raw_peer_pid(next));
	assert_int_equal(seen(fd, "x")->flags, KEEP | READONLY);
	end(next, fd);
	/* With a descriptor of its own, which is not needed. */
	next = raw_peer(0, 0);
	before = raw_fds_settled();
	assert_int_equal(share(next, "x", KEEP, 4096, true), GPUSHARE_OK);
	assert_true(raw_answer.body.share.adopted);
	close(raw_fds_came);
	raw_fds_await(before);
	end(next, fd);
	/* Which is needed where what stands there is of another size. */
	next = raw_peer(0, 0);
	assert_int_equal(kept(next, "x", 0), GPUSHARE_OK);
	assert_false(raw_answer.body.share.adopted);
	assert_true(raw_answer.body.share.generation > generation);
	raw_peer_end(next);
	close(fd);
}

static void a_quota_is_answered(void **state)
{
	int fd = raw_connect(&raw_here), owner = raw_peer(0, 0);
	const uint64_t all = raw_stat(fd).kept_limit;

	(void)state;
	assert_int_equal(share(owner, "a", KEEP, all - 128, false), GPUSHARE_OK);
	assert_int_equal(share(owner, "b", KEEP, 129, false), GPUSHARE_E_LIMIT);
	raw_assert_sentence("129 bytes more");
	raw_assert_sentence("gpushare rm");
	assert_int_equal(share(owner, "b", KEEP, UINT64_MAX, false), GPUSHARE_E_LIMIT);
	assert_int_equal(share(owner, "c", READONLY, 4096, false), GPUSHARE_OK); /* is not kept */
	assert_int_equal(share(owner, "b", KEEP, 128, false), GPUSHARE_OK);
	end(owner, fd);
	assert_int_equal(share(fd, "b", KEEP, 129, false), GPUSHARE_E_LIMIT);
	assert_true(seen(fd, "b")->owner_gone); /* refused: what was there stays */
	assert_int_equal(share(fd, "a", KEEP, 128, false), GPUSHARE_OK);
	assert_int_equal(raw_stat(fd).kept_bytes, 256);
	close(fd);
}

static void a_bad_wish_is_refused(void **state)
{
	int fd = raw_connect(&raw_here), before = raw_fds_settled();

	(void)state;
	assert_int_equal(share(fd, "x", 8, 4096, false), GPUSHARE_E_NOT_SUPPORTED);
	assert_int_equal(share(fd, "x", READONLY, 4096, true), GPUSHARE_E_INVALID);
	raw_assert_sentence("adopt");
	raw_fds_await(before);
	assert_int_equal(raw_stat(fd).names, 0);
	assert_int_equal(raw_stat(fd).kept_bytes, 0);
	close(fd);
}

static int tear_down(void **state)
{
	raw_peers_end();
	return raw_tear_down(state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, raw_fds_set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_dead_owners_name_is_free_at_once),
	    TEST(a_killed_owners_buffer_is_kept),
	    TEST(killed_clients_leave_no_connection),
	    TEST(a_ttl_ends_in_time),
	    TEST(it_ends_cleanly_with_what_it_keeps),
	    TEST(it_stays_without_its_owner),
	    TEST(a_new_share_replaces_it),
	    TEST(it_is_adopted),
	    TEST(a_quota_is_answered),
	    TEST(a_bad_wish_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
