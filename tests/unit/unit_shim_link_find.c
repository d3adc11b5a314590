/* SPDX-License-Identifier: MIT */
/* The shim finds the present name of a buffer by its generation, page by page, in answers that
 * the test plans. */
#include "unit.h"

#include "base/monotonic.h"
#include "played_line.h"

#include "preload/shim_link.c"

#define LIST gpushare_Request_list_tag

static struct turn *plan_page(const char *one, uint64_t generation, bool more)
{
	struct turn *turn = plan(LIST, GPUSHARE_OK);

	turn->answer.body.list.buffers_count = 1;
	turn->answer.body.list.more = more;
	strcpy(turn->answer.body.list.buffers[0].name, one);
	turn->answer.body.list.buffers[0].generation = generation;
	return turn;
}

static void found_by_generation(void **state)
{
	char name[GPUSHARE_NAME_MAX + 1] = "-";
	struct turn *turn;

	plan_page("a", 1, true);
	plan_page("b", 2, true);
	assert_int_equal(link_find("*", 2, name, sentence, sizeof(sentence)), GPUSHARE_OK);
	assert_string_equal(name, "b");
	assert_string_equal(played.last.verb.list.after, "a");
	strcpy(name, "-");
	plan_page("a", 1, false);
	assert_int_equal(link_find("*", 2, name, sentence, sizeof(sentence)), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(sentence, "it is shared no more");
	/* After a page without a match the search continues at the registry's `after`. A page
	 * that doesn't advance is a protocol error. */
	strcpy(plan_page("a", 1, true)->answer.body.list.after, "ab");
	turn = plan(LIST, GPUSHARE_OK);
	turn->answer.body.list.more = true;
	strcpy(turn->answer.body.list.after, "b");
	plan_page("c", 2, false);
	assert_int_equal(link_find("*", 2, name, sentence, sizeof(sentence)), GPUSHARE_OK);
	assert_string_equal(played.last.verb.list.after, "b");
	strcpy(name, "-");
	turn = plan(LIST, GPUSHARE_OK);
	turn->answer.body.list.more = true;
	assert_int_equal(link_find("*", 2, name, sentence, sizeof(sentence)), GPUSHARE_E_PROTOCOL);
	plan_page("a", 1, true);
	plan(LIST, GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(link_find("*", 2, name, sentence, sizeof(sentence)),
			 GPUSHARE_E_NO_REGISTRY);
	played.to_enter = GPUSHARE_E_TIMED_OUT;
	assert_int_equal(link_find("*", 2, name, sentence, sizeof(sentence)), GPUSHARE_E_TIMED_OUT);
	assert_string_equal(name, "-");
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(found_by_generation, played_set_up, played_tear_down))
