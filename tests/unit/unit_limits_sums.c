/* SPDX-License-Identifier: MIT */
/* Descriptors by user, and sums: whoever is neither root nor the registry's user is told of his own. */
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/clock.h"
#include "order/order.h"
#include "users.h"

/* With the flags, of memory that travels as a descriptor. */
static void share_fd(struct session *session, const char *name, uint32_t flags, uint32_t mode)
{
	request what = peer_share_fd(name);

	what.verb.share.buffer.flags = flags;
	what.verb.share.mode = mode;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
}

/* So many more come, one a request, as far as they are taken. */
static int bring(struct session *session, size_t count, struct held **out_held)
{
	int status = GPUSHARE_OK;

	for (size_t i = 0; !status && i < count; i++) {
		status = fdtable_check(peer_registry, session->user, &peer_answer);
		if (!status)
			out_held[i] = fdtable_keep(&peer_registry->fdtable, session->user, dup(0));
	}
	return status;
}

static uint64_t held_by(uint32_t uid)
{
	return user_of(&peer_registry->users, uid)->held[LIMIT_descriptors];
}

static uint64_t named(const gpushare_Count *counts, pb_size_t count, const char *what)
{
	for (pb_size_t i = 0; i < count; i++)
		if (!strcmp(counts[i].what, what))
			return counts[i].count;
	return 0;
}

static uint64_t reached(struct session *session, const char *key)
{
	const gpushare_StatReply stat = stat_of(session);

	return named(stat.by_limit, stat.by_limit_count, key);
}

/* What one has used up is not another's, but what all may have is. */
static void descriptors(void **state)
{
	struct held *owners[3], *members[2], *refused[1];

	(void)state;
	peer_registry->limits.of_user[LIMIT_descriptors] = 3;
	peer_registry->limits.descriptors = 5;
	assert_int_equal(bring(owner, 3, owners), GPUSHARE_OK);
	assert_int_equal(bring(owner, 1, refused), GPUSHARE_E_LIMIT);
	peer_assert_sentence("user_descriptors");
	assert_int_equal(reached(owner, "user_descriptors"), 1);
	assert_int_equal(reached(member, "user_descriptors"), 0);
	assert_int_equal(bring(member, 2, members), GPUSHARE_OK);
	assert_int_equal(bring(member, 1, refused), GPUSHARE_E_LIMIT);
	assert_int_equal(reached(root, "user_descriptors"), 1);
	assert_int_equal(reached(root, "descriptors"), 1);
	assert_int_equal(held_by(OWNER), 3);
	for (int i = 0; i < 3; i++)
		fdtable_release(&peer_registry->fdtable, owners[i]);
	assert_int_equal(held_by(OWNER), 0);
	assert_int_equal(held_by(MEMBER), 2);
	assert_int_equal(peer_registry->users.held[LIMIT_descriptors], 2);
	assert_int_equal(bring(owner, 1, owners), GPUSHARE_OK);
	fdtable_release(&peer_registry->fdtable, owners[0]);
	for (int i = 0; i < 2; i++)
		fdtable_release(&peer_registry->fdtable, members[i]);
}

/* With connections they are no more together than the kernel lets the registry have. */
static void descriptors_and_connections(void **state)
{
	struct held *held[2];

	(void)state;
	peer_registry->limits.together = peer_registry->users.held[LIMIT_connections] + 1;
	assert_int_equal(bring(owner, 1, held), GPUSHARE_OK);
	assert_int_equal(bring(member, 1, held + 1), GPUSHARE_E_LIMIT);
	peer_assert_sentence("ulimit -n");
	fdtable_release(&peer_registry->fdtable, held[0]);
}

/* Whoever attaches it, it counts as its owner's, kept or not. */
static void whose_a_records_is(void **state)
{
	(void)state;
	share_fd(owner, "k", GPUSHARE_FLAG_KEEP, 0666);
	assert_int_equal(attach(other, "k", false), GPUSHARE_OK);
	assert_int_equal(held_by(OWNER), 1);
	assert_int_equal(held_by(OTHER), 0);
	registry_disconnect(peer_registry, owner);
	assert_int_equal(held_by(OWNER), 1);
	assert_int_equal(peer_withdraw(root, "k", 0), GPUSHARE_OK);
	assert_int_equal(held_by(OWNER), 0);
	assert_int_equal(peer_registry->fdtable.count, 0);
}

/* The page by which a buffer is published is the registry's file, for the owner. */
static void an_order_is_one_more(void **state)
{
	uint64_t generation = share(owner, "w", 0, "");

	(void)state;
	peer_registry->limits.of_user[LIMIT_descriptors] = 0;
	assert_int_equal(order(owner, "w", generation, ORDER_PUBLISHES), GPUSHARE_E_LIMIT);
	peer_assert_sentence("user_descriptors");
	assert_int_equal(reached(root, "user_descriptors"), 1);
	peer_registry->limits.of_user[LIMIT_descriptors] = 1;
	assert_int_equal(order(owner, "w", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(held_by(OWNER), 1);
	registry_disconnect(peer_registry, owner);
	while (peer_registry->orders)
		order_finish(peer_registry);
	assert_int_equal(held_by(OWNER), 0);
}

static void each_is_told_of_his_own(void **state)
{
	gpushare_StatReply all, his, others;

	(void)state;
	peer_registry->limits.of_user[LIMIT_kept_bytes] = 1000;
	share_fd(owner, "k", GPUSHARE_FLAG_KEEP, 0604);
	assert_int_equal(attach(other, "k", true), GPUSHARE_OK);
	assert_int_equal(peer_lookup(owner, "none", 0), GPUSHARE_E_NOT_FOUND);
	all = stat_of(root);
	his = stat_of(owner);
	others = stat_of(member);
	assert_int_equal(all.kept_bytes, 128);
	assert_int_equal(his.kept_bytes, 128);
	assert_int_equal(others.kept_bytes, 0);
	assert_int_equal(his.kept_limit, 1000);
	assert_int_equal(all.kept_limit, peer_registry->limits.kept_bytes);
	assert_int_equal(all.descriptors, 1);
	assert_int_equal(his.descriptors, 1);
	assert_int_equal(others.descriptors, 0);
	assert_int_equal(all.attachments, 1);
	assert_int_equal(his.attachments, 0);
	assert_int_equal(stat_of(other).attachments, 1);
	assert_int_equal(all.connections, 4);
	assert_int_equal(his.connections, 1);
	assert_int_equal(others.requests, 1);
	assert_int_equal(his.requests, 3);
	assert_int_equal(all.requests, 4); /* before the other three */
	assert_int_equal(named(all.by_verb, all.by_verb_count, "share"), 1);
	assert_int_equal(named(others.by_verb, others.by_verb_count, "share"), 0);
	assert_int_equal(others.by_verb_count, all.by_verb_count); /* they are there, and 0 */
	assert_int_equal(named(all.by_status, all.by_status_count, "E_NOT_FOUND"), 1);
	assert_int_equal(named(others.by_status, others.by_status_count, "E_NOT_FOUND"), 0);
}

/* Of a registry for one user there is nobody else; and a service user is told what root is. */
static void whose_registry_it_is(void **state)
{
	struct session *self = user(geteuid(), NULL);

	(void)state;
	share_fd(owner, "k", GPUSHARE_FLAG_KEEP, 0);
	assert_int_equal(stat_of(self).kept_bytes, 128);
	assert_int_equal(stat_of(other).kept_bytes, 0);
	peer_registry->is_system = false;
	assert_int_equal(stat_of(other).kept_bytes, 128);
}

static bool waits_unseen(struct session *session, const char *name)
{
	request what = {.which_verb = gpushare_Request_attach_tag};

	strcpy(what.verb.attach.name, name);
	what.verb.attach.wait_ms = 1000;
	return audit_wait(&peer_registry->audit, session, &what);
}

/* That something is there only root is told: who is refused so can't tell it from nothing. */
static void what_was_hidden_is_counted(void **state)
{
	(void)state;
	share(owner, "secret", 0, "");
	assert_int_equal(peer_attach(other, "secret"), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_attach(other, "none"), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(stat_of(root).hidden, 1);
	assert_true(waits_unseen(other, "secret"));
	assert_false(waits_unseen(owner, "secret"));
	assert_false(waits_unseen(other, "none"));
	assert_int_equal(stat_of(root).hidden, 2);
	assert_int_equal(stat_of(other).hidden, 0);
	assert_int_equal(stat_of(owner).hidden, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, users_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(descriptors),
	    TEST(descriptors_and_connections),
	    TEST(whose_a_records_is),
	    TEST(an_order_is_one_more),
	    TEST(each_is_told_of_his_own),
	    TEST(whose_registry_it_is),
	    TEST(what_was_hidden_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
