/* SPDX-License-Identifier: MIT */
/* What is told to a registry for several users is not believed beyond one's rights. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "index.h"
#include "order_page.h"
#include "users.h"

static void a_mode_or_group_that_cant_be_is_refused(void **state)
{
	static const struct {
		uint32_t mode;
		const char *group;
		int status;
		const char *words;
	} is[] = {
	    {0700, "", GPUSHARE_E_INVALID, "mode 0700 is none"},
	    {010000, "", GPUSHARE_E_INVALID, "made of read and write bits"},
	    {0660, "no-such-group-here", GPUSHARE_E_NOT_FOUND, "no group 'no-such-group-here'"},
	    {0660, "12x", GPUSHARE_E_NOT_FOUND, "no group '12x'"},
	    {0660, "4294967295", GPUSHARE_E_NOT_FOUND, "no group"},
	    {0660, "501", GPUSHARE_E_DENIED, "not in the group '501'"},
	    {0660, "0", GPUSHARE_E_DENIED, "not in the group '0'"},
	    {0660, "root", GPUSHARE_E_DENIED, "not in the group 'root'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		request what = share_of("w", is[i].mode, is[i].group);

		assert_int_equal(peer_ask(owner, &what), is[i].status);
		peer_assert_sentence(is[i].words);
	}
	assert_int_equal(peer_registry->store.count, 0);
	share(root, "w", 0660, "501"); /* root is in all of them */
	/* what was looked up for another one counts for nobody */
	request what = share_of("x", 0660, "500");
	strcpy(what.verb.share.group, "501");
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_IO);
}

static void only_an_adoption_that_says_so_changes_them(void **state)
{
	request what = share_of("w", 0660, "500");
	struct session *again;
	struct entry *entry;

	(void)state;
	share(owner, "w", 0640, "500");
	entry = store_find(&peer_registry->store, "w");
	entry->info.flags = GPUSHARE_FLAG_KEEP;
	entry->owner.pid = 1; /* another process */
	assert_null(registry_disconnect(peer_registry, owner));
	again = user(OWNER, NULL);
	assert_int_equal(peer_ask(member, &what), GPUSHARE_E_EXISTS); /* not his */
	again->who.gid = TEAM;
	what = share_of("w", 0, "");
	what.verb.share.adopt = true;
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	what.verb.share.buffer.backing = entry->info.backing = GPUSHARE_BACKING_VMM;
	memset(what.verb.share.handle, 0, sizeof(what.verb.share.handle));
	entry->held = fdtable_keep(&peer_registry->fdtable, entry->user, dup(0));
	assert_int_equal(peer_ask(again, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.share.buffer.mode, 0640);
	assert_null(registry_disconnect(peer_registry, again));
	again = user(OWNER, NULL);
	what.verb.share.mode = 0600;
	assert_int_equal(peer_ask(again, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.share.buffer.mode, 0600);
	assert_int_equal(peer_lookup(member, "w", 0), GPUSHARE_E_NOT_FOUND);
}

/* After a restart everybody tells what he has; nobody comes by anything so. */
static void nobody_tells_himself_into_what_is_not_his(void **state)
{
	uint64_t generation = share(owner, "w", 0, "");
	request what = {.which_verb = gpushare_Request_resync_tag};
	gpushare_Resync *resync = &what.verb.resync;

	(void)state;
	resync->attached_count = 2;
	strcpy(resync->attached[0].name, "w");
	resync->attached[0].generation = generation;
	resync->attached[0].count = 1;
	strcpy(resync->attached[1].name, "none");
	resync->attached[1].generation = generation + 1;
	resync->attached[1].count = 1;
	resync->last = true;
	assert_int_equal(peer_ask(other, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.resync.wanted_count, 0);
	assert_int_equal(peer_attachers(owner, "w"), 0);
	assert_null(other->attachments);
	assert_int_equal(order(other, "w", generation, ORDER_CONSUMES), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_ask(root, &what), GPUSHARE_OK);
	assert_int_equal(peer_attachers(owner, "w"), 1);
}

static void nobody_brings_back_what_was_anothers(void **state)
{
	uint64_t generation = share(owner, "w", 0644, "");
	request what = share_of("w", 0, "");

	(void)state;
	what.verb.share.again = generation;
	assert_int_equal(peer_ask(other, &what), GPUSHARE_E_EXISTS);
	assert_int_equal(peer_withdraw(owner, "w", generation), GPUSHARE_OK);
	assert_int_equal(peer_ask(other, &what), GPUSHARE_E_NOT_FOUND);
	what.verb.share.again = generation + 1; /* of before the records, and nobody's */
	peer_registry->since = generation + 10;
	what.verb.share.orphan = true;
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	assert_int_equal(peer_ask(other, &what), GPUSHARE_E_INVALID); /* no ticket */
	assert_int_equal(peer_registry->store.count, 0);
}

static void the_index_has_what_all_may_read(void **state)
{
	struct index_record found;
	const struct index_page *page = peer_registry->index.page;

	(void)state;
	if (!page)
		skip();
	share(owner, "mine", 0660, "500");
	share(owner, "odd", 0604, "500");
	share(owner, "open", 0644, "500");
	assert_false(index_find(page, "mine", &found));
	assert_false(index_find(page, "odd", &found));
	assert_true(index_find(page, "open", &found));
	assert_int_equal(found.mode, 0644);
	assert_int_equal(found.owner_gid, TEAM);
}

static void groups_are_those_of_the_process(void **state)
{
	struct process self;
	struct identity who;
	gid_t groups[256];
	int count = getgroups(256, groups);

	(void)state;
	process_read(getpid(), geteuid(), &self);
	identity_read(&who, &self, getegid());
	assert_true(identity_is_in(&who, getegid()));
	assert_false(identity_is_in(&who, IDENTITY_NO_GROUP));
	assert_false(identity_is_in(&who, 4000000));
	assert_int_equal(who.count, count);
	for (int i = 0; i < count; i++)
		assert_true(identity_is_in(&who, groups[i]));
	identity_finish(&who);
	/* one that has come in its place, by its start or its user */
	self.started++;
	identity_read(&who, &self, getegid());
	assert_int_equal(who.count, 0);
	self.started--;
	self.uid++;
	identity_read(&who, &self, getegid());
	assert_int_equal(who.count, 0);
	self.uid--;
	identity_read(&who, &self, getegid() + 1);
	assert_int_equal(who.count, 0);
	self.pid = 0;
	identity_read(&who, &self, getegid());
	assert_int_equal(who.count, 0);
}

static void whether_others_share_is_not_told(void **state)
{
	(void)state;
	assert_int_equal(peer_lookup(other, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_null(strstr(peer_answer.message, "nothing is shared"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, users_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_mode_or_group_that_cant_be_is_refused),
	    TEST(only_an_adoption_that_says_so_changes_them),
	    TEST(nobody_tells_himself_into_what_is_not_his),
	    TEST(nobody_brings_back_what_was_anothers),
	    TEST(the_index_has_what_all_may_read),
	    TEST(groups_are_those_of_the_process),
	    TEST(whether_others_share_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
