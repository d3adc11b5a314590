/* SPDX-License-Identifier: MIT */
/* gpushare top without a registry: rates between two readings. */
#include "unit.h"

#include "../../tools/top/top.h"

static void add(struct top_view *view, uint64_t generation)
{
	view->rows = realloc(view->rows, ++view->count * sizeof(*view->rows));
	view->rows[view->count - 1] = (struct top_row){.rate = -1, .info.generation = generation};
}

static void rates(void **state)
{
	struct top_view now = {.at_ms = 3000}, before = {.at_ms = 1000};

	for (uint64_t i = 1; i <= 4; i++)
		add(&now, i);
	for (uint64_t i = 4; i >= 2; i--) /* in another order; the first is new */
		add(&before, i);
	now.rows[0].info.sequence = 100;
	now.rows[1].info.sequence = 100;
	now.rows[2].info.sequence = 5;
	before.rows[2].info.sequence = 90;
	before.rows[1].info.sequence = 7; /* a lower count is of another counter */
	now.registry.requests = 50;
	before.registry.requests = 10;
	top_view_rates(&now, &before);
	assert_true(now.requests == 20);
	assert_true(now.rows[0].rate < 0);
	assert_true(now.rows[1].rate == 5);
	assert_true(now.rows[2].rate < 0);
	assert_true(now.rows[3].rate < 0); /* it has no counter */
	now.registry.started_unix_ns = 1;  /* another registry counts from 0 */
	now.requests = -1;
	top_view_rates(&now, &before);
	assert_true(now.requests < 0);
	before.status = GPUSHARE_E_NO_REGISTRY;
	now.rows[1].rate = -1;
	top_view_rates(&now, &before);
	assert_true(now.rows[1].rate < 0);
	top_view_finish(&now);
	top_view_finish(&before);
}

UNIT_MAIN(UNIT(rates))
