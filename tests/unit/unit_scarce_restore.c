/* SPDX-License-Identifier: MIT */
/* A successor reads what a killed registry left, and each call fails in turn: what it knows then is
 * right, and it numbers on from there. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "descriptors.h"
#include "fake_fdstore.h"
#include "order/order.h"
#include "restore.h"
#include "scarce.h"
#include "successor.h"

static uint64_t x, y, k;

/* What it left, put aside and back. */
static void copy(const char *from_suffix, const char *to_suffix)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s%s && cp -a %s%s %s%s", successor_folder,
		 to_suffix, successor_folder, from_suffix, successor_folder, to_suffix);
	assert_int_equal(system(command), 0);
}

/* Two names, one kept, one attached, one in limbo, an order: all that records tell of. */
static void leave_much(pid_t other)
{
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other);
	request what;

	x = peer_share(owner, "x");
	y = peer_share(owner, "y");
	what = successor_share("k", GPUSHARE_FLAG_KEEP);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	k = peer_answer.body.share.generation;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "y"), GPUSHARE_OK);
	what = (request){.which_verb = gpushare_Request_order_tag};
	strcpy(what.verb.order.name, "x");
	what.verb.order.generation = x;
	what.verb.order.roles = ORDER_CONSUMES;
	assert_int_equal(peer_ask(a, &what), GPUSHARE_OK);
	what = (request){.which_verb = gpushare_Request_withdraw_tag};
	strcpy(what.verb.withdraw.name, "y");
	what.verb.withdraw.generation = y;
	what.verb.withdraw.limbo = true;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
}

static uint64_t generation_of(const char *name)
{
	const struct entry *entry = store_find(&peer_registry->store, name);

	return entry ? entry->info.generation : 0;
}

/* Nothing else than there was; `all`: all of it. */
static void assert_known(bool all)
{
	uint64_t is_x = generation_of("x"), is_k = generation_of("k"), is_y = generation_of("y");

	assert_true(is_x == x || (!is_x && !all));
	assert_true(is_k == k || (!is_k && !all));
	/* never both */
	assert_true(!is_y || is_y == y);
	assert_true(!is_y + !peer_registry->store.nameless >= 1);
	assert_int_equal(peer_registry->store.count, !!is_x + !!is_k + !!is_y);
	assert_true(peer_registry->store.nameless <= 1);
	assert_true(peer_registry->sessions.attachments <= 2);
	if (all) {
		assert_int_equal(is_y, 0);
		assert_int_equal(peer_registry->store.nameless, 1);
		assert_non_null(store_find_deferred(&peer_registry->store, y));
		assert_int_equal(peer_registry->sessions.attachments, 2);
	}
}

static void what_is_restored_is_right(void **state)
{
	pid_t other = successor_process();
	char command[128];

	(void)state;
	leave_much(other);
	registry_free(peer_registry); /* as by a kill: the records stay */
	copy("", ".left");
	SCARCE_EACH(nth)
	{
		bool opened = false;

		copy(".left", "");
		scarce_begin(nth);
		peer_registry = registry_new();
		if (peer_registry)
			opened = restore_open(peer_registry, successor_folder);
		if (!scarce_end())
			assert_true(opened);
		if (opened) {
			assert_known(!scarce_what());
			assert_true(generation_take(&peer_registry->generation) > k);
		}
		if (peer_registry)
			peer_registry = registry_free(peer_registry);
	}
	successor_end(other);
	snprintf(command, sizeof(command), "rm -rf %s.left", successor_folder);
	assert_int_equal(system(command), 0);
	peer_registry = registry_new(); /* the tear-down's */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_restored_is_right, successor_set_up,
					    successor_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
