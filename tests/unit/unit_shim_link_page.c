/* SPDX-License-Identifier: MIT */
/* How the shim comes by an order page, over a line that answers as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "played_line.h"
/* behind it */
#include "shim_link_page.c"

#define ORDER gpushare_Request_order_tag
#define SUCCESSORS (CLIENT_TRIES + 1) /* more than one registry is asked */

static struct link_page_answer answered;

static int ask_for(uint64_t id, int fd)
{
	const struct link_page page = {.name = "w", .generation = 7, .id = id, .fd = fd};

	answered = (struct link_page_answer){.fd = 5};
	return link_page(&page, 4711, &answered, sentence, sizeof(sentence));
}

static void plan_page(uint64_t id)
{
	struct turn *turn = plan(ORDER, GPUSHARE_OK);

	turn->answer.which_body = gpushare_Reply_order_tag;
	turn->answer.body.order.id = id;
}

static void plan_lost(bool same)
{
	plan_page(9);
	plan(FETCH, GPUSHARE_E_NOT_FOUND);
	plan_move(same);
}

static void fetched(void **state)
{
	(void)state;
	plan_page(9);
	plan(FETCH, GPUSHARE_OK);
	assert_int_equal(ask_for(0, -1), GPUSHARE_OK);
	assert_true(answered.id == 9 && answered.fd == 66 && answered.connection == 1);
	assert_string_equal(played.last.verb.order.name, "w");
	assert_true(played.last.verb.order.generation == 7 && !played.last.verb.order.again);
	plan(ORDER, GPUSHARE_E_DENIED);
	assert_int_equal(ask_for(0, -1), GPUSHARE_E_DENIED);
	plan_page(9);
	plan(FETCH, GPUSHARE_E_LIMIT);
	assert_int_equal(ask_for(0, -1), GPUSHARE_E_LIMIT);
	plan(ORDER, GPUSHARE_OK);
	assert_int_equal(ask_for(0, -1), GPUSHARE_E_PROTOCOL);
	assert_string_equal(sentence, "the registry answered another question");
	played.to_enter = GPUSHARE_E_TIMED_OUT;
	assert_int_equal(ask_for(0, -1), GPUSHARE_E_TIMED_OUT);
}

/* Nothing is fetched; what the registry lost it is given. */
static void told_again(void **state)
{
	(void)state;
	plan_page(9);
	assert_int_equal(ask_for(9, 55), GPUSHARE_OK);
	assert_true(answered.id == 9 && answered.fd == -1);
	assert_int_equal(played.last.verb.order.again, 9);
	plan_page(0);
	plan(DEPOSIT, GPUSHARE_OK);
	plan_page(9);
	assert_int_equal(ask_for(9, 55), GPUSHARE_OK);
	assert_true(answered.id == 9 && played.last.verb.order.ticket[0]);
	plan_page(0);
	plan(DEPOSIT, GPUSHARE_E_LIMIT);
	assert_int_equal(ask_for(9, 55), GPUSHARE_E_LIMIT);
}

static void fetched_of_one_after_the_other(void **state)
{
	(void)state;
	for (int i = 0; i < SUCCESSORS; i++)
		plan_lost(false);
	plan_page(10);
	plan(FETCH, GPUSHARE_OK);
	assert_int_equal(ask_for(0, -1), GPUSHARE_OK);
	assert_true(answered.id == 10 && answered.fd == 66 &&
		    answered.connection == 1 + SUCCESSORS);
	for (int i = 0; i < CLIENT_TRIES; i++)
		plan_lost(true);
	assert_int_equal(ask_for(0, -1), GPUSHARE_E_NOT_FOUND);
	line.until_ms = monotonic_ms();
	plan_lost(false);
	assert_int_equal(ask_for(0, -1), GPUSHARE_E_NOT_FOUND);
}

#define on_line(test) cmocka_unit_test_setup_teardown(test, played_set_up, played_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    on_line(fetched),
	    on_line(told_again),
	    on_line(fetched_of_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
