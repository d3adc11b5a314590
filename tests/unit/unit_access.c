/* SPDX-License-Identifier: MIT */
/* Who may do what: a registry for several users, without a socket. */
#include "unit.h"

#include "order_page.h"
#include "users.h"

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
	struct session *const who[] = {owner, member, other};

	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		const struct known info = {
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
	peer_assert_sentence("uid 41001");
}

static void who_may_read_attaches_so_and_no_more(void **state)
{
	uint64_t generation = share(owner, "w", 0640, "500");

	(void)state;
	as_vmm("w");
	assert_int_equal(attach(member, "w", false), GPUSHARE_E_DENIED);
	peer_assert_sentence("belongs to uid 41001, its mode is 0640, and uid 41002 may read it "
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
	peer_assert_sentence("uid 41001, who alone, or root, may tag it");
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, users_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(the_first_that_fits_decides),
	    TEST(what_may_not_be_seen_does_not_exist),
	    TEST(a_taken_name_says_no_more),
	    TEST(who_may_read_attaches_so_and_no_more),
	    TEST(of_what_is_read_only_the_right_to_read_suffices),
	    TEST(what_cant_be_protected_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
