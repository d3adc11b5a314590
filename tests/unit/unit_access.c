/* SPDX-License-Identifier: MIT */
/* Who may do what: a registry for several users, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <unistd.h>

#include "access.h"
#include "index.h"
#include "order.h"
#include "peer.h"

#define OWNER 1000
#define MEMBER 2000
#define OTHER 3000
#define TEAM 500

static struct lease *owner, *member, *other, *root;
static uint32_t next_id;

static struct lease *user(uint32_t uid, const uint32_t *group)
{
	uint32_t id = ++next_id;
	struct lease *lease = peer_new(id, (int32_t)id * 10, "app");

	lease->peer.uid = lease->who.uid = uid;
	lease->who.gid = uid;
	if (group) {
		lease->who.groups = malloc(sizeof(*group));
		assert_non_null(lease->who.groups);
		*lease->who.groups = *group;
		lease->who.count = 1;
	}
	return lease;
}

static int set_up(void **state)
{
	static const uint32_t team = TEAM;

	if (peer_set_up(state))
		return -1;
	next_id = 0;
	peer_registry->is_system = true;
	owner = user(OWNER, &team);
	member = user(MEMBER, &team);
	other = user(OTHER, NULL);
	root = user(0, NULL);
	return 0;
}

static request share_of(const char *name, uint32_t mode, const char *group)
{
	request what = peer_share_of(name);

	what.verb.share.mode = mode;
	strcpy(what.verb.share.group, group);
	identity_find_group(group, &peer_registry->group);
	return what;
}

static uint64_t share(struct lease *lease, const char *name, uint32_t mode, const char *group)
{
	request what = share_of(name, mode, group);

	assert_int_equal(peer_ask(lease, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.share.mode, mode ? mode : 0600);
	return peer_answer.body.share.generation;
}

/* As memory that travels as a descriptor, which only vault.c would have to know of. */
static void as_vmm(const char *name)
{
	store_find(&peer_registry->store, name)->info.backing = GPUSHARE_BACKING_VMM;
}

static int attach(struct lease *lease, const char *name, bool read_only)
{
	request what = {.which_verb = gpushare_Request_attach_tag};

	strcpy(what.verb.attach.name, name);
	what.verb.attach.read_only = read_only;
	return peer_ask(lease, &what);
}

static unsigned int listed(struct lease *lease)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	assert_int_equal(peer_ask(lease, &what), GPUSHARE_OK);
	return peer_answer.body.list.buffers_count;
}

static int tag(struct lease *lease, const char *name)
{
	request what = {.which_verb = gpushare_Request_tag_tag};

	strcpy(what.verb.tag.name, name);
	what.verb.tag.tags_count = 1;
	strcpy(what.verb.tag.tags[0].key, "k");
	strcpy(what.verb.tag.tags[0].value, "v");
	return peer_ask(lease, &what);
}

static int holders(struct lease *lease, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_holders_tag};

	strcpy(what.verb.holders.name, name);
	what.verb.holders.generation = generation;
	return peer_ask(lease, &what);
}

static int lookup_of(struct lease *lease, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_lookup_tag};

	strcpy(what.verb.lookup.name, name);
	what.verb.lookup.generation = generation;
	return peer_ask(lease, &what);
}

static int order(struct lease *lease, const char *name, uint64_t generation, uint32_t roles)
{
	request what = {.which_verb = gpushare_Request_order_tag};

	strcpy(what.verb.order.name, name);
	what.verb.order.generation = generation;
	what.verb.order.roles = roles;
	return peer_ask(lease, &what);
}

static gpushare_StatReply stat_of(struct lease *lease)
{
	request what = {.which_verb = gpushare_Request_stat_tag};

	assert_int_equal(peer_ask(lease, &what), GPUSHARE_OK);
	return peer_answer.body.stat;
}

/* The bits of each of the three, against who is the owner, in the group, neither, or root. */
static void the_first_that_fits_decides(void **state)
{
	static const struct {
		uint32_t mode;
		unsigned int owner, member, other;
	} is[] = {
	    {0600, 6, 0, 0}, {0400, 4, 0, 0}, {0640, 6, 4, 0}, {0660, 6, 6, 0}, {0644, 6, 4, 4},
	    {0666, 6, 6, 6}, {0604, 6, 0, 4}, {0066, 0, 6, 6}, {0620, 6, 2, 0}, {0006, 0, 0, 6},
	};
	struct lease *const who[] = {owner, member, other};

	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		const record info = {
		    .mode = is[i].mode, .owner_uid = OWNER, .owner_gid = TEAM, .backing = 1};
		const unsigned int bits[] = {is[i].owner, is[i].member, is[i].other};

		for (int j = 0; j < 3; j++) {
			unsigned int rights = access_rights(&info, &who[j]->who);

			assert_int_equal(!!(rights & ACCESS_READ), bits[j] >> 2);
			assert_int_equal(!!(rights & ACCESS_WRITE), bits[j] >> 1 & 1);
			assert_int_equal(!!(rights & ACCESS_SEE), bits[j] || j == 0);
			assert_int_equal(!!(rights & ACCESS_OWN), j == 0);
		}
		assert_int_equal(access_rights(&info, &root->who),
				 ACCESS_SEE | ACCESS_READ | ACCESS_WRITE | ACCESS_OWN);
	}
}

static void what_may_not_be_seen_does_not_exist(void **state)
{
	uint64_t generation = share(owner, "secret", 0, "");

	(void)state;
	assert_int_equal(peer_attach(member, "secret"), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("no buffer is named \"secret\"");
	assert_int_equal(peer_lookup(member, "secret", 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(lookup_of(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_lookup(member, "secrets", 0), GPUSHARE_E_NOT_FOUND);
	assert_null(strstr(peer_answer.message, "did you mean"));
	assert_int_equal(peer_lookup(owner, "secrets", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("did you mean \"secret\"");
	assert_int_equal(tag(member, "secret"), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(holders(member, "secret", 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(holders(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_withdraw(member, "secret", 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_withdraw(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(order(member, "secret", generation, 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(listed(member), 0);
	assert_int_equal(stat_of(member).names, 0);
	assert_int_equal(listed(owner), 1);
	assert_int_equal(listed(root), 1);
	assert_int_equal(stat_of(root).names, 1);
	/* nor that it was there */
	assert_int_equal(peer_withdraw(owner, "secret", generation), GPUSHARE_OK);
	assert_int_equal(peer_lookup(member, "secret", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("no buffer is named");
	assert_int_equal(lookup_of(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("no buffer is named");
	assert_int_equal(peer_lookup(owner, "secret", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("withdrew it");
}

static void a_taken_name_says_no_more(void **state)
{
	request what = share_of("secret", 0, "");

	(void)state;
	share(owner, "secret", 0, "");
	assert_int_equal(peer_ask(other, &what), GPUSHARE_E_EXISTS);
	assert_string_equal(peer_answer.message,
			    "\"secret\" is taken by another user; choose another name");
	assert_int_equal(peer_ask(root, &what), GPUSHARE_E_EXISTS);
	peer_assert_sentence("uid 1000");
}

static void who_may_read_attaches_so_and_no_more(void **state)
{
	uint64_t generation = share(owner, "w", 0640, "500");

	(void)state;
	as_vmm("w");
	assert_int_equal(attach(member, "w", false), GPUSHARE_E_DENIED);
	peer_assert_sentence("belongs to uid 1000, its mode is 0640, and uid 2000 may read it "
			     "alone; attach it read-only");
	assert_int_equal(attach(other, "w", true), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(attach(member, "w", true), GPUSHARE_OK);
	assert_true(peer_answer.body.attach.read_only);
	assert_int_equal(peer_answer.body.attach.buffer.mode, 0640);
	assert_int_equal(peer_answer.body.attach.buffer.owner_gid, TEAM);
	assert_int_equal(attach(root, "w", false), GPUSHARE_OK);
	assert_false(peer_answer.body.attach.read_only);
	assert_int_equal(attach(root, "w", true), GPUSHARE_OK);
	assert_true(peer_answer.body.attach.read_only);
	assert_int_equal(tag(member, "w"), GPUSHARE_E_DENIED);
	peer_assert_sentence("uid 1000, who alone, or root, may tag it");
	assert_int_equal(peer_withdraw(member, "w", 0), GPUSHARE_E_DENIED);
	peer_assert_sentence("may unlink it");
	assert_int_equal(holders(member, "w", 0), GPUSHARE_OK);
	assert_int_equal(order(member, "w", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	peer_assert_sentence("who may write it publishes it");
	assert_int_equal(tag(root, "w"), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(root, "w", 0), GPUSHARE_OK);
}

/* All that all are to read is read-only for everybody: then nobody has to say so. */
static void of_what_is_read_only_the_right_to_read_suffices(void **state)
{
	(void)state;
	share(owner, "w", 0644, "");
	as_vmm("w");
	store_find(&peer_registry->store, "w")->info.flags = GPUSHARE_FLAG_READONLY;
	assert_int_equal(attach(other, "w", false), GPUSHARE_OK);
	assert_true(peer_answer.body.attach.read_only);
}

static void what_cant_be_protected_is_refused(void **state)
{
	(void)state;
	share(owner, "w", 0644, "");
	assert_int_equal(attach(other, "w", true), GPUSHARE_E_DENIED);
	peer_assert_sentence("cudaMalloc memory");
	peer_assert_sentence("share it as vmm memory");
	share(owner, "x", 0606, "");
	assert_int_equal(attach(other, "x", true), GPUSHARE_OK);
	assert_int_equal(attach(other, "x", false), GPUSHARE_OK);
	share(owner, "v", 0602, "");
	assert_int_equal(attach(other, "v", false), GPUSHARE_E_DENIED);
	peer_assert_sentence("may not read it");
}

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
	struct lease *again;
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
	entry->held = vault_keep(&peer_registry->vault, dup(0));
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
	request what = {.which_verb = gpushare_Request_retell_tag};
	gpushare_Retell *retell = &what.verb.retell;

	(void)state;
	retell->attached_count = 2;
	strcpy(retell->attached[0].name, "w");
	retell->attached[0].generation = generation;
	retell->attached[0].count = 1;
	strcpy(retell->attached[1].name, "none");
	retell->attached[1].generation = generation + 1;
	retell->attached[1].count = 1;
	retell->last = true;
	assert_int_equal(peer_ask(other, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.retell.wanted_count, 0);
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
	what.verb.share.again = generation + 1; /* of before the journal, and nobody's */
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
	const struct index_page *page = peer_registry->store.index.page;

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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(the_first_that_fits_decides),
	    TEST(what_may_not_be_seen_does_not_exist),
	    TEST(a_taken_name_says_no_more),
	    TEST(who_may_read_attaches_so_and_no_more),
	    TEST(of_what_is_read_only_the_right_to_read_suffices),
	    TEST(what_cant_be_protected_is_refused),
	    TEST(a_mode_or_group_that_cant_be_is_refused),
	    TEST(only_an_adoption_that_says_so_changes_them),
	    TEST(nobody_tells_himself_into_what_is_not_his),
	    TEST(nobody_brings_back_what_was_anothers),
	    TEST(the_index_has_what_all_may_read),
	    TEST(groups_are_those_of_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
