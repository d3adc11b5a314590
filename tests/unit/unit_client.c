/* SPDX-License-Identifier: MIT */
/* The registry client when registries end: it resumes the session, resyncs and repeats requests. */
#include "unit.h"

#include "client/client.h"
#include "base/monotonic.h"
#include "raw.h"
#include "scripted.h"

#define TIMEOUT_MS raw_limit_ms(400)

static struct client *client;
static unsigned int resynced; /* calls of tell() that succeeded */
static int tell_answers;

static int set_up(void **state)
{
	struct client_options options = {.who = "unit", .timeout_ms = TIMEOUT_MS};

	if (scripted_set_up(state))
		return -1;
	options.directory = scripted.directory;
	scripted_start();
	client = client_new(&options);
	resynced = 0;
	tell_answers = GPUSHARE_OK;
	return client ? 0 : -1;
}

static int tear_down(void **state)
{
	client = client_free(client);
	return scripted_tear_down(state);
}

static void restart(void)
{
	scripted_end();
	scripted_start();
}

/* A resync of one empty part. */
static int tell(struct client *its, void *owner, int64_t deadline_ms)
{
	int status;

	assert_ptr_equal(owner, &resynced);
	its->aside = (request){.which_verb = gpushare_Request_resync_tag};
	its->aside.verb.resync.last = true;
	status = client_ask_aside(its, deadline_ms);
	if (status)
		return status;
	resynced++;
	its->fresh = false;
	return tell_answers;
}

static int stat_it(void)
{
	client->request = (request){.which_verb = gpushare_Request_stat_tag};
	return client_call(client, 0);
}

static void the_session_is_resumed(void **state)
{
	static const uint8_t none[16], first[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

	client_resync_by(client, tell, &resynced);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_memory_equal(scripted.resumed_by, none, 16);
	assert_true(!client->fresh);
	restart();
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_memory_equal(scripted.resumed_by, first, 16);
	assert_int_equal(client->session_key[0], 2);
	assert_int_equal(resynced, 1);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(resynced, 1);
	assert_int_equal(client->connections, 2);
}

/* If the registry ends before its answer, the request is repeated after the resync. */
static void what_got_no_answer_is_asked_again(void **state)
{
	client_resync_by(client, tell, &resynced);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	scripted.drop_at = gpushare_Request_stat_tag;
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(scripted.asked[gpushare_Request_stat_tag], 3);
	assert_int_equal(resynced, 1);
	scripted.half_at = gpushare_Request_stat_tag;
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(scripted.asked[gpushare_Request_stat_tag], 5);
	assert_int_equal(resynced, 2);
	/* no request is repeated if no registry can be reached */
	scripted.drop_at = gpushare_Request_stat_tag;
	scripted.end_at = gpushare_Request_resync_tag;
	assert_int_equal(stat_it(), GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(scripted.asked[gpushare_Request_stat_tag], 6);
}

/* A buffer whose deferred free has not reached the registry is still told as shared. */
static void what_goes_into_deferred_is_told_of(void **state)
{
	const gpushare_Hold *hold = &client->aside.verb.resync.shared[0];
	gpushare_Withdraw *withdraw = &client->request.verb.withdraw;

	client->aside = (request){.which_verb = gpushare_Request_resync_tag};
	client->request = (request){.which_verb = gpushare_Request_withdraw_tag};
	strcpy(withdraw->name, "w");
	withdraw->generation = 7;
	client_tell_rest(client, &client->aside.verb.resync);
	assert_int_equal(client->aside.verb.resync.shared_count, 0);
	withdraw->deferred = true;
	client_tell_rest(client, &client->aside.verb.resync);
	assert_int_equal(client->aside.verb.resync.shared_count, 1);
	assert_string_equal(hold->name, "w");
	assert_true(hold->generation == 7 && hold->count == 1);
}

static void what_the_owner_says_stands(void **state)
{
	client_resync_by(client, tell, &resynced);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	restart();
	tell_answers = GPUSHARE_E_NO_MEMORY;
	assert_int_equal(stat_it(), GPUSHARE_E_NO_MEMORY);
	assert_int_equal(scripted.asked[gpushare_Request_stat_tag], 1);
}

static void a_registry_that_never_takes_it_in(void **state)
{
	long long begin;

	client_resync_by(client, tell, &resynced);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	restart();
	scripted.mute_at = gpushare_Request_resync_tag;
	begin = raw_now_ms();
	assert_int_equal(stat_it(), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - begin, TIMEOUT_MS - 1, TIMEOUT_MS + 200 + raw_slack_ms());
	assert_true(client_is_silent(client) && client->fresh);
	scripted.mute_at = 0;
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(resynced, 1);
}

/* A resync of PARTS parts, one per call. */
#define PARTS 3

static int tell_in_parts(struct client *its, void *owner, int64_t deadline_ms)
{
	assert_ptr_equal(owner, &resynced);
	if (resynced % PARTS == 0)
		client_begin_resyncing(its);
	its->aside = (request){.which_verb = gpushare_Request_resync_tag};
	its->aside.verb.resync.last = ++resynced % PARTS == 0;
	assert_int_equal(client_ask_aside(its, deadline_ms), GPUSHARE_OK);
	if (its->aside.verb.resync.last)
		client_end_resyncing(its);
	return GPUSHARE_OK;
}

static int detach_it(void)
{
	client->request = (request){.which_verb = gpushare_Request_detach_tag};
	return client_call(client, 0);
}

/* If a buffer told in the first part is detached during the second, the whole resync is
 * repeated. */
static void what_is_detached_meanwhile_is_told_once_more(void **state)
{
	client_resync_by(client, tell_in_parts, &resynced);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	restart();
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(detach_it(), GPUSHARE_OK);
	assert_int_equal(resynced, 2);
	assert_int_equal(scripted.asked[gpushare_Request_detach_tag], 0);
	for (int i = PARTS; i <= 2 * PARTS; i++) {
		assert_true(client->fresh);
		assert_int_equal(stat_it(), GPUSHARE_OK);
		assert_int_equal(resynced, i);
	}
	assert_false(client->fresh);
	/* A detach that starts the resync needs no repetition. */
	restart();
	assert_int_equal(detach_it(), GPUSHARE_OK);
	while (client->fresh)
		assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(resynced, 3 * PARTS);
	assert_int_equal(scripted.asked[gpushare_Request_detach_tag], 0);
}

static void while_there_is_none(void **state)
{
	client_resync_by(client, tell, &resynced);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	scripted_end();
	for (int i = 0; i < 3; i++)
		assert_int_equal(stat_it(), GPUSHARE_E_NO_REGISTRY);
	scripted_start();
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(resynced, 1);
	assert_int_equal(scripted.resumed_by[0], 1);
}

#define scripted_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(scripted_test(the_session_is_resumed), scripted_test(what_got_no_answer_is_asked_again),
	  scripted_test(what_goes_into_deferred_is_told_of),
	  scripted_test(what_the_owner_says_stands),
	  scripted_test(a_registry_that_never_takes_it_in),
	  scripted_test(what_is_detached_meanwhile_is_told_once_more),
	  scripted_test(while_there_is_none))
