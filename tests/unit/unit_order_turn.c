/* SPDX-License-Identifier: MIT */
/* The turn on an order page, in which sequences are assigned. One thread has it at a time, through
 * whatever mapping. Waiters are woken or give up in time, and no sequence is lost. */
#include "unit.h"

#include "core/order/client_order.h"
#include "gpushare.h"
#include "base/monotonic.h"

#define THREADS 4
#define ROUNDS 5000
#define LONG_MS 60000
#define SOME_MS 50

static int fd;
/* Two mappings, as two copies of this code in a process have. */
static struct order_page *page, *again;
/* Changed only in the turn. Atomic, because race detectors take the two mappings for different
 * words. */
static atomic_uint inside, done;

static int begin(void **state)
{
	fd = order_page_make(7, 9);
	assert_true(fd >= 0);
	assert_int_equal(order_page_map(fd, 7, &page), GPUSHARE_OK);
	assert_int_equal(order_page_map(fd, 7, &again), GPUSHARE_OK);
	order_begin(page, 1);
	return 0;
}

static int end(void **state)
{
	order_page_unmap(page);
	order_page_unmap(again);
	return close(fd);
}

static void enter(void)
{
	if (inside++)
		abort();
	done++;
	if (done % 64 == 0)
		usleep(100); /* lets other threads sleep */
	inside--;
}

static void *take_each(void *its)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (!order_take_turn(its, LONG_MS))
			abort();
		enter();
		order_give_turn(its);
	}
	return NULL;
}

static void one_at_a_time(void **state)
{
	pthread_t threads[THREADS];

	done = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_each, i / 2 ? again : page),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(done, THREADS * ROUNDS);
	assert_int_equal(page->turn, ORDER_TURN_FREE);
}

static void who_has_it_too_long_is_given_up(void **state)
{
	uint64_t sequence = 77;
	int64_t began_ms;

	assert_true(order_take_turn(again, 0));
	began_ms = monotonic_ms();
	assert_false(order_take_turn(page, 0));
	assert_false(order_take_turn(page, SOME_MS));
	assert_true(monotonic_ms() - began_ms >= SOME_MS);
	assert_int_equal(order_publish(page, SOME_MS, NULL, &sequence), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_NOT_READY);
	assert_int_equal(sequence, 77);
	order_give_turn(again);
	assert_int_equal(order_publish(page, 0, NULL, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 1);
}

static void *take_late(void *out_waited_ms)
{
	int64_t began_ms = monotonic_ms();

	if (!order_take_turn(page, LONG_MS))
		abort();
	*(int64_t *)out_waited_ms = monotonic_ms() - began_ms;
	order_give_turn(page);
	return NULL;
}

static void who_waits_gets_it(void **state)
{
	int64_t waited_ms = LONG_MS;
	pthread_t thread;

	assert_true(order_take_turn(again, 0));
	assert_int_equal(pthread_create(&thread, NULL, take_late, &waited_ms), 0);
	while (atomic_load(&page->turn) != ORDER_TURN_WAITED_FOR)
		usleep(100);
	order_give_turn(again);
	pthread_join(thread, NULL);
	assert_in_range(waited_ms, 0, LONG_MS / 2);
	assert_int_equal(page->turn, ORDER_TURN_FREE);
}

/* The last publisher was killed in its turn. The next one need not wait for it. */
static void a_dead_publishers_turn_is_nobodys(void **state)
{
	uint64_t sequence;

	assert_true(order_take_turn(page, 0));
	order_begin(page, 2);
	assert_int_equal(order_publish(page, 0, NULL, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 1);
}

static void *publish(void *out_status)
{
	*(int *)out_status = order_publish(page, LONG_MS, NULL, NULL);
	return NULL;
}

/* A CPU publication waits for a stream's and fails, because the order is marked as ended. The
 * next publication must not wait for the failed one. */
static void a_number_that_is_not_published_is_given_again(void **state)
{
	uint64_t sequence = 0;
	pthread_t thread;
	int status = 77;

	atomic_store(&page->next, 1); /* pending on a stream */
	assert_int_equal(pthread_create(&thread, NULL, publish, &status), 0);
	while (atomic_load(&page->next) != 2)
		usleep(100);
	order_mark_gone(page);
	pthread_join(thread, NULL);
	assert_int_equal(status, GPUSHARE_E_OWNER_GONE);
	order_begin(page, 1);
	order_raise(&page->published, 1);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
UNIT_MAIN(T(one_at_a_time), T(who_has_it_too_long_is_given_up), T(who_waits_gets_it),
	  T(a_dead_publishers_turn_is_nobodys), T(a_number_that_is_not_published_is_given_again))
