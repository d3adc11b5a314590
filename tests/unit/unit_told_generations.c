/* SPDX-License-Identifier: MIT */
/* Generations that clients tell of: none of them is given to another buffer, or counted for one. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "save.h"
#include "peer.h"
#include "load.h"

static int resync(struct session *session, bool attached, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_resync_tag};
	gpushare_Resync *resync = &what.verb.resync;
	gpushare_Hold *hold = attached ? resync->attached : resync->shared;

	*(attached ? &resync->attached_count : &resync->shared_count) = 1;
	strcpy(hold->name, name);
	hold->generation = generation;
	hold->count = 1;
	resync->last = true;
	return peer_ask(session, &what);
}

static void what_is_told_of_is_given_to_nobody_else(void **state)
{
	struct session *a = peer_new(1, 10, "a"), *b = peer_new(2, 20, "b");
	uint64_t ahead = peer_registry->generation.next + 1;

	(void)state;
	/* as after a clock that was set back, in a directory that was made anew */
	assert_int_equal(resync(a, true, "x", ahead), GPUSHARE_OK);
	assert_true(peer_share(b, "x") > ahead);
	assert_int_equal(peer_attachers(b, "x"), 0);
	ahead = peer_registry->generation.next + 1;
	assert_int_equal(resync(a, false, "y", ahead), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.resync.wanted_count, 1);
	assert_true(peer_share(b, "z") > ahead);
}

static void a_generation_has_one_name(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a"),
		       *b = peer_new(3, 30, "b");
	uint64_t x = peer_share(owner, "x");

	(void)state;
	assert_int_equal(resync(a, true, "y", x), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(b, "x", 0), GPUSHARE_OK); /* no name, not freed yet */
	assert_int_equal(store_find_deferred(&peer_registry->store, x)->info.attachers, 1);
	assert_int_equal(peer_detach(a, "y", x), GPUSHARE_OK);
	assert_int_equal(store_find_deferred(&peer_registry->store, x)->info.attachers, 1);
	assert_int_equal(resync(a, true, "y", x), GPUSHARE_OK);
	assert_int_equal(store_find_deferred(&peer_registry->store, x)->info.attachers, 1);
	/* nor does one who has it attach it by another */
	assert_int_equal(resync(b, true, "y", x), GPUSHARE_E_INVALID);
	peer_assert_sentence("\"x\", not \"y\"");
	assert_int_equal(peer_registry->sessions.attachments, 2);
}

/* Who told of it by another name hears that when it attaches it, not that memory is short. */
static void who_told_another_name_hears_it(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t x = peer_share(owner, "x");

	(void)state;
	assert_int_equal(resync(a, true, "y", x), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_E_INVALID);
	peer_assert_sentence("\"y\", not \"x\"");
	assert_int_equal(peer_attachers(owner, "x"), 0);
	assert_int_equal(peer_detach(a, "y", x), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
}

static void none_is_told_that_leaves_no_room(void **state)
{
	struct session *a = peer_new(1, 10, "a");
	request again = peer_share_of("x");

	(void)state;
	again.verb.share.again = GENERATION_TOLD + 1;
	assert_int_equal(peer_ask(a, &again), GPUSHARE_E_INVALID);
	peer_assert_sentence("can't have had generation");
	assert_int_equal(resync(a, true, "x", GENERATION_TOLD + 1), GPUSHARE_E_INVALID);
	peer_assert_sentence("can't have had generation");
	assert_int_equal(resync(a, false, "x", GENERATION_TOLD + 1), GPUSHARE_E_INVALID);
	assert_int_equal(peer_registry->sessions.attachments, 0);
	assert_true(peer_share(a, "y") < GENERATION_TOLD);
}

/* So after a restart what is attached, and was here before the records began, counts as given. */
static void what_is_attached_is_not_given_after_a_restart(void **state)
{
	char folder[] = "/tmp/gpushare-unit-XXXXXX";
	uint64_t ahead;

	(void)state;
	assert_non_null(mkdtemp(folder));
	records_open(&peer_registry->records, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	ahead = peer_registry->generation.next + (UINT64_C(1) << 40); /* two weeks of a clock */
	save_all(peer_registry);
	assert_int_equal(resync(peer_new(1, 10, "a"), true, "x", ahead), GPUSHARE_OK);
	registry_free(peer_registry);
	peer_registry = registry_new();
	records_open(&peer_registry->records, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	assert_true(load_records(peer_registry));
	assert_int_equal(peer_registry->sessions.attachments, 1);
	assert_true(peer_share(peer_new(2, 20, "b"), "x") > ahead);
	records_close(&peer_registry->records, false);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(what_is_told_of_is_given_to_nobody_else),
	    TEST(a_generation_has_one_name),
	    TEST(who_told_another_name_hears_it),
	    TEST(none_is_told_that_leaves_no_room),
	    TEST(what_is_attached_is_not_given_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
