/* SPDX-License-Identifier: MIT */
/* Waiting for a name at the real daemon. */
#include "unit.h"

#include "raw.h"

static void await_waiters(int fd, uint64_t count)
{
	long long deadline = raw_now_ms() + RAW_TIMEOUT_MS;

	while (raw_stat(fd).waiters != count) {
		if (raw_now_ms() > deadline)
			fail_msg("%d waiters instead of %d", (int)raw_stat(fd).waiters, (int)count);
		raw_sleep_ms(1);
	}
}

/* The wait that begins later ends first. */
static void waits_end_in_the_order_of_their_deadlines(void **state)
{
	int a = raw_connect(&raw_here), b = raw_connect(&raw_here);
	request slow = raw_lookup("x", 400), quick = raw_lookup("x", 50);

	assert_true(raw_send(a, 1, &slow));
	await_waiters(b, 1);
	assert_true(raw_send(b, 1, &quick));
	assert_true(raw_receive(b, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_TIMED_OUT);
	assert_int_equal(raw_stat(b).waiters, 1);
	assert_true(raw_receive(a, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_TIMED_OUT);
	close(a);
	close(b);
}

/* There are so many rounds that the daemon would run out of contexts if each kept one. */
static void who_goes_waits_no_longer(void **state)
{
	int fd = raw_connect(&raw_here);
	request lookup = raw_lookup("x", 60000);

	for (int i = 0; i < 400; i++) {
		int gone = raw_connect(&raw_here);

		assert_true(raw_send(gone, 1, &lookup));
		await_waiters(fd, 1);
		close(gone);
		await_waiters(fd, 0);
	}
	assert_int_equal(raw_say(fd, raw_share("x")), GPUSHARE_OK);
	close(fd);
}

UNIT_MAIN(RAW_TEST(waits_end_in_the_order_of_their_deadlines), RAW_TEST(who_goes_waits_no_longer))
