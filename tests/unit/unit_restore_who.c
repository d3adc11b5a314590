/* SPDX-License-Identifier: MIT */
/* Who counts as living after a restart, besides by pid and start time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <unistd.h>

#include "clock.h"
#include "fake_fdstore.h"
#include "restore.h"
#include "successor.h"

#define KEEP GPUSHARE_FLAG_KEEP

/* A process of another pid namespace. */
static struct lease *connect_unseen(int32_t own_pid, const uint8_t *key)
{
	static uint32_t last_id = 1000;
	request what = {.which_verb = gpushare_Request_hello_tag};
	struct process process = {.uid = getuid()};
	struct lease *lease = registry_connect(peer_registry, ++last_id, &process);

	assert_non_null(lease);
	what.verb.hello.protocol = GPUSHARE_PROTOCOL;
	what.verb.hello.has_self = true;
	what.verb.hello.self.pid_namespace = 4026532000u;
	what.verb.hello.self.pid = own_pid;
	what.verb.hello.self.started = 77;
	if (key)
		memcpy(what.verb.hello.resume, key, GPUSHARE_LEASE_SIZE);
	assert_int_equal(peer_ask(lease, &what), GPUSHARE_OK);
	return lease;
}

static void who_is_not_visible_has_a_moment(void **state)
{
	struct lease *stays = connect_unseen(2, NULL), *goes = connect_unseen(3, NULL);
	uint8_t key[GPUSHARE_LEASE_SIZE];
	uint64_t generation = peer_share(stays, "stays");
	request kept = successor_share(goes, "kept", KEEP);
	uint32_t id;

	(void)state;
	memcpy(key, stays->key, sizeof(key));
	peer_share(goes, "goes");
	assert_int_equal(peer_ask(goes, &kept), GPUSHARE_OK);
	assert_int_equal(peer_attach(goes, "stays"), GPUSHARE_OK);
	successor_start();
	assert_int_equal(peer_registry->leases.ghosts, 2);
	assert_int_equal(restore_next_dead(peer_registry), 0);
	assert_in_range(peer_registry->unseen_until_ns, clock_ns() + LIMIT_UNSEEN_S * NS_PER_S / 2,
			clock_ns() + LIMIT_UNSEEN_S * NS_PER_S);
	stays = connect_unseen(3, key); /* another one, that has read the key */
	assert_false(peer_answer.body.hello.resumed);
	assert_null(registry_disconnect(peer_registry, stays));
	stays = connect_unseen(2, key);
	assert_true(peer_answer.body.hello.resumed);
	assert_int_equal(successor_seen(stays, "stays")->attachers, 1);
	peer_registry->unseen_until_ns = clock_ns();
	while ((id = restore_next_dead(peer_registry)))
		assert_null(
		    registry_disconnect(peer_registry, lease_find(&peer_registry->leases, id)));
	assert_int_equal(peer_registry->leases.ghosts, 0);
	assert_int_equal(peer_lookup(stays, "goes", 0), GPUSHARE_E_NOT_FOUND);
	assert_true(successor_seen(stays, "kept")->owner_gone);
	assert_int_equal(successor_seen(stays, "stays")->attachers, 0);
	assert_int_equal(peer_answer.body.lookup.buffer.generation, generation);
}

/* The same process, another program: what it had went with the first. */
static void who_has_become_another_program_is_gone(void **state)
{
	pid_t other = successor_process(), same = successor_process();
	struct lease *owner = successor_connect(other), *a;

	(void)state;
	assert_int_not_equal(owner->peer.stack, 0);
	owner->peer.stack++;
	peer_share(owner, "x");
	a = successor_connect(same);
	a->peer.stack = 0; /* it could not be told */
	peer_share(a, "y");
	peer_share(successor_connect(getpid()), "z");
	successor_start();
	assert_int_equal(peer_registry->leases.ghosts, 2);
	assert_int_equal(peer_registry->store.count, 2);
	assert_int_equal(peer_lookup(successor_connect(other), "x", 0), GPUSHARE_E_NOT_FOUND);
	successor_end(other);
	successor_end(same);
}

#define with_registry(test) \
	cmocka_unit_test_setup_teardown(test, successor_set_up, successor_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(who_is_not_visible_has_a_moment),
	    with_registry(who_has_become_another_program_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
