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

static void a_share_serves_who_waits(void **state)
{
	int a = raw_connect(&raw_here), b = raw_connect(&raw_here);
	int other = raw_connect(&raw_here), owner = raw_connect(&raw_here);
	request lookup = raw_lookup("x", 60000), attach = raw_attach("x", UINT32_MAX);
	request elsewhere = raw_lookup("y", 60000);
	long long begin;

	assert_true(raw_send(a, 1, &lookup));
	assert_true(raw_send(b, 2, &attach));
	assert_true(raw_send(other, 3, &elsewhere));
	await_waiters(owner, 3);
	assert_int_equal(raw_say(owner, raw_share("x")), GPUSHARE_OK);
	begin = raw_now_ms();
	assert_true(raw_receive(a, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_OK);
	assert_string_equal(raw_answer.body.lookup.buffer.name, "x");
	assert_true(raw_receive(b, 2, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_OK);
	assert_int_equal(raw_answer.which_body, gpushare_Reply_attach_tag);
	assert_int_equal(raw_answer.body.attach.handle[0], 0xc3);
	assert_in_range(raw_now_ms() - begin, 0, 100 + raw_slack_ms());
	await_waiters(owner, 1);
	assert_int_equal(raw_stat(owner).attachments, 1);
	/* a connection that waited works as before */
	assert_int_equal(raw_say(a, raw_lookup("x", 60000)), GPUSHARE_OK);
	close(a);
	close(b);
	close(other);
	close(owner);
}

static void a_wait_ends_in_time(void **state)
{
	int fd = raw_connect(&raw_here);
	long long begin = raw_now_ms(), took;

	assert_int_equal(raw_say(fd, raw_lookup("x", 150)), GPUSHARE_E_TIMED_OUT);
	took = raw_now_ms() - begin;
	assert_in_range(took, 149, 150 + 500 + raw_slack_ms());
	assert_string_equal(raw_answer.message, "no buffer is named \"x\"; nothing is shared now");
	assert_int_equal(raw_say(fd, raw_share("weights")), GPUSHARE_OK);
	assert_int_equal(raw_say(fd, raw_attach("wieghts", 10)), GPUSHARE_E_TIMED_OUT);
	raw_assert_sentence("no buffer is named \"wieghts\"");
	assert_int_equal(raw_stat(fd).waiters, 0);
	close(fd);
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

UNIT_MAIN(RAW_TEST(a_share_serves_who_waits), RAW_TEST(a_wait_ends_in_time),
	  RAW_TEST(waits_end_in_the_order_of_their_deadlines), RAW_TEST(who_goes_waits_no_longer))
