/* SPDX-License-Identifier: MIT */
/* Withdraws, detaches and questions about deferred frees that the shim sends, over a line that
 * the test plays. */
#include "unit.h"

#include "base/monotonic.h"
#include "played_line.h"
/* after played_line.h, whose macros replace the line */
#include "preload/shim_link.c"

#define DETACH gpushare_Request_detach_tag
#define WITHDRAW gpushare_Request_withdraw_tag
#define DEFERRED gpushare_Request_deferred_tag

static void withdrawn(void **state)
{
	bool deferred = false;
	struct turn *turn;

	turn = plan(WITHDRAW, GPUSHARE_OK);
	turn->answer.which_body = gpushare_Reply_withdraw_tag;
	turn->answer.body.withdraw.deferred = true;
	assert_int_equal(link_withdraw("w", 3, &deferred, sentence, sizeof(sentence)), GPUSHARE_OK);
	assert_true(deferred && played.last.verb.withdraw.deferred &&
		    played.last.verb.withdraw.generation == 3);
	plan(WITHDRAW, GPUSHARE_OK); /* an answer without a body */
	assert_int_equal(link_withdraw("w", 3, &deferred, sentence, sizeof(sentence)), GPUSHARE_OK);
	assert_false(deferred);
	deferred = true;
	plan(WITHDRAW, GPUSHARE_E_NOT_FOUND);
	assert_int_equal(link_withdraw("w", 3, &deferred, sentence, sizeof(sentence)),
			 GPUSHARE_E_NOT_FOUND);
	assert_false(deferred || resync_missed(&live_resync));
	plan(WITHDRAW, GPUSHARE_OK);
	assert_int_equal(link_withdraw("w", 3, NULL, sentence, sizeof(sentence)), GPUSHARE_OK);
	assert_false(played.last.verb.withdraw.deferred);
	played.to_enter = GPUSHARE_E_TIMED_OUT; /* the shim then repeats the resync */
	assert_int_equal(link_withdraw("w", 3, &deferred, sentence, sizeof(sentence)),
			 GPUSHARE_E_TIMED_OUT);
	assert_true(resync_missed(&live_resync));
}

/* If a registry may have heard of the withdraw without answering, others may have the buffer: it
 * is deferred. Without a registry it is not. */
static void withdrawn_without_an_answer(void **state)
{
	static const struct {
		int asked, to_enter;
		bool unanswered, deferred;
	} cases[] = {
	    {GPUSHARE_E_TIMED_OUT, 0, false, true},    {GPUSHARE_E_NO_REGISTRY, 0, false, false},
	    {0, GPUSHARE_E_TIMED_OUT, false, true},    {0, GPUSHARE_E_NO_REGISTRY, true, true},
	    {0, GPUSHARE_E_NO_REGISTRY, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool deferred = !cases[i].deferred;

		if (cases[i].asked)
			plan(WITHDRAW, cases[i].asked);
		played.to_enter = cases[i].to_enter;
		played.unanswered = cases[i].unanswered;
		assert_int_not_equal(link_withdraw("w", 3, &deferred, sentence, sizeof(sentence)),
				     GPUSHARE_OK);
		assert_int_equal(deferred, cases[i].deferred);
	}
}

static void detached(void **state)
{
	plan(DETACH, GPUSHARE_OK);
	assert_int_equal(
	    link_detach("w", 3, resync_readings(&live_resync), sentence, sizeof(sentence)),
	    GPUSHARE_OK);
	assert_string_equal(played.last.verb.detach.name, "w");
	assert_false(resync_missed(&live_resync));
	assert_false(played.client.fresh);
	/* A resync ran meanwhile and left the buffer out: after the detach another resync must
	 * follow. */
	plan(DETACH, GPUSHARE_OK);
	live_resync.readings += 2;
	assert_int_equal(
	    link_detach("w", 3, resync_readings(&live_resync) - 1, sentence, sizeof(sentence)),
	    GPUSHARE_OK);
	assert_true(played.client.fresh);
	played.to_enter = GPUSHARE_E_TIMED_OUT;
	assert_int_equal(
	    link_detach("w", 3, resync_readings(&live_resync), sentence, sizeof(sentence)),
	    GPUSHARE_E_TIMED_OUT);
	assert_true(resync_missed(&live_resync));
	/* There never was a registry, so nothing is lost. */
	played.to_enter = GPUSHARE_OK;
	played.client.connections = 0;
	assert_int_equal(
	    link_detach("w", 3, resync_readings(&live_resync), sentence, sizeof(sentence)),
	    GPUSHARE_OK);
	assert_int_equal(link_withdraw("w", 3, NULL, sentence, sizeof(sentence)), GPUSHARE_OK);
}

static void asked_what_nobody_has(void **state)
{
	uint64_t generations[3] = {4, 5, 6};
	size_t count = 3;
	struct turn *turn = plan(DEFERRED, GPUSHARE_OK);

	turn->answer.which_body = gpushare_Reply_deferred_tag;
	turn->answer.body.deferred.generations_count = 1;
	turn->answer.body.deferred.generations[0] = 6;
	assert_int_equal(link_deferred(generations, &count, sentence, sizeof(sentence)),
			 GPUSHARE_OK);
	assert_true(count == 1 && generations[0] == 6);
	assert_int_equal(played.last.verb.deferred.generations_count, 3);
	plan(DEFERRED, GPUSHARE_OK); /* the body answers another request */
	assert_int_equal(link_deferred(generations, &count, sentence, sizeof(sentence)),
			 GPUSHARE_E_PROTOCOL);
	assert_string_equal(sentence, "the registry answered another question");
	plan(DEFERRED, GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(link_deferred(generations, &count, sentence, sizeof(sentence)),
			 GPUSHARE_E_NO_REGISTRY);
	played.to_enter = GPUSHARE_E_TIMED_OUT;
	assert_int_equal(link_deferred(generations, &count, sentence, sizeof(sentence)),
			 GPUSHARE_E_TIMED_OUT);
	assert_true(count == 1 && generations[0] == 6);
}

#define on_line(test) cmocka_unit_test_setup_teardown(test, played_set_up, played_tear_down)

UNIT_MAIN(on_line(withdrawn), on_line(withdrawn_without_an_answer), on_line(detached),
	  on_line(asked_what_nobody_has))
