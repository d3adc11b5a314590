/* SPDX-License-Identifier: MIT */
/* Publishing without waiting, as the preload does. */
#include "unit.h"

#include "core/order/client_order.h"
#include "gpushare.h"

static struct order_page *page_begin(void)
{
	struct order_page *page;
	int fd = order_page_make(7, 9);

	assert_true(fd >= 0);
	assert_int_equal(order_page_map(fd, 7, &page), GPUSHARE_OK);
	close(fd);
	order_begin(page, 1);
	return page;
}

/* A new publisher's sequences start after the published ones. Repeating the same publisher
 * changes nothing. */
static void begins_anew(void **state)
{
	struct order_page *page = page_begin();

	atomic_store(&page->next, 5);
	order_begin(page, 1);
	assert_true(atomic_load(&page->next) == 5);
	order_begin(page, 2);
	assert_true(!atomic_load(&page->next));
	order_page_unmap(page);
}

static void publishes_now(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 0;

	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
		assert_int_equal(sequence, i);
		assert_int_equal(order_published(page), i);
	}
	assert_int_equal(order_publish(page, 0, NULL, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 4);
	order_page_unmap(page);
}

/* It waits neither for a pending stream publication nor for a thread in the turn, and loses no
 * sequence. */
static void waits_for_nobody(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 0;

	atomic_store(&page->next, 1);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_NOT_READY);
	order_raise(&page->published, 1);
	assert_true(order_take_turn(page, 0));
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_NOT_READY);
	order_give_turn(page);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 2);
	order_page_unmap(page);
}

static void publishes_late_numbers(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 0;

	atomic_store(&page->late, 1);
	assert_int_equal(order_publish_late(page), 1);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 2);
	order_page_unmap(page);
}

static void ends_with_the_page(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 77;

	order_mark_gone(page);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_OWNER_GONE);
	assert_int_equal(sequence, 77);
	assert_int_equal(order_published(page), 0);
	order_page_unmap(page);
}

UNIT_MAIN(UNIT(begins_anew), UNIT(publishes_now), UNIT(waits_for_nobody),
	  UNIT(publishes_late_numbers), UNIT(ends_with_the_page))
