/* SPDX-License-Identifier: MIT */
/* What the shim asks the registry, over a line that answers as it is told: registries that end in
 * between, descriptors that do not come, long waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "monotonic.h"
#include "played_line.h"
/* behind it */
#include "shim_link.c"

#define SHARE gpushare_Request_share_tag
#define ATTACH gpushare_Request_attach_tag
#define DETACH gpushare_Request_detach_tag
#define WITHDRAW gpushare_Request_withdraw_tag

#define SUCCESSORS (CLIENT_TRIES + 1) /* more than one registry is asked */

static const record w = {.name = "w", .size = 100, .mode = 0640};
static unsigned int reading;

static int share_fd(uint64_t *out_generation)
{
	return link_share(&(struct link_share){.what = &w, .group = "them", .fd = 55},
			  out_generation, &reading, sentence, sizeof(sentence));
}

static void shared_by_handle(void **state)
{
	static const uint8_t handle[GPUSHARE_HANDLE_SIZE] = {1, 2, 3};
	const struct link_share by_handle = {.what = &w, .group = "", .handle = handle, .fd = -1};
	uint64_t generation = 0;

	(void)state;
	plan(SHARE, GPUSHARE_OK)->answer.body.share.generation = 17;
	assert_int_equal(link_share(&by_handle, &generation, &reading, sentence, sizeof(sentence)),
			 GPUSHARE_OK);
	assert_int_equal(generation, 17);
	assert_memory_equal(played.last.verb.share.handle, handle, sizeof(handle));
	assert_int_equal(played.last.verb.share.mode, 0640);
	assert_string_equal(played.last.verb.share.group, "");
	/* What is refused is not asked again: no ticket was lost. */
	plan(SHARE, GPUSHARE_E_INVALID)->moves = true;
	assert_int_equal(link_share(&by_handle, &generation, &reading, sentence, sizeof(sentence)),
			 GPUSHARE_E_INVALID);
	played.to_enter = GPUSHARE_E_TIMED_OUT;
	assert_int_equal(link_share(&by_handle, &generation, &reading, sentence, sizeof(sentence)),
			 GPUSHARE_E_TIMED_OUT);
	assert_string_equal(sentence, "no turn");
	assert_int_equal(generation, 17);
}

/* It may stand there, or not: nobody knows. */
static void asked_and_not_answered(void **state)
{
	uint64_t generation = 5;

	(void)state;
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_TIMED_OUT);
	assert_int_equal(share_fd(&generation), GPUSHARE_E_TIMED_OUT); /* it was not sent */
	played.client.asked = true;
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_EXISTS);
	assert_int_equal(share_fd(&generation), GPUSHARE_E_EXISTS); /* the registry's own word */
	played.client.fd = -1;
	plan(DEPOSIT, GPUSHARE_E_TIMED_OUT);
	assert_int_equal(share_fd(&generation), GPUSHARE_E_TIMED_OUT);
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_TIMED_OUT);
	assert_int_equal(share_fd(&generation), GPUSHARE_E_NOT_READY);
	assert_int_equal(generation, 5);
	/* later it is asked for anything */
	plan(gpushare_Request_lookup_tag, GPUSHARE_E_NOT_FOUND);
	link_settle("w");
	assert_string_equal(played.last.verb.lookup.name, "w");
	assert_false(live_missed());
	played.to_enter = GPUSHARE_E_NO_REGISTRY;
	link_settle("w");
	assert_true(live_missed());
}

/* A ticket is worth nothing to the registry that comes next. */
static void deposited_again(void **state)
{
	uint64_t generation = 0;

	(void)state;
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_INVALID)->moves = true;
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_OK)->answer.body.share.generation = 18;
	assert_int_equal(share_fd(&generation), GPUSHARE_OK);
	assert_int_equal(generation, 18);
	assert_int_equal(played.last.verb.share.ticket[0], 3); /* of the second deposit */
	assert_string_equal(played.last.verb.share.group, "them");
	plan(DEPOSIT, GPUSHARE_E_LIMIT);
	assert_int_equal(share_fd(&generation), GPUSHARE_E_LIMIT);
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_INVALID); /* by the one that gave it */
	assert_int_equal(share_fd(&generation), GPUSHARE_E_INVALID);
	for (int i = 0; i < CLIENT_TRIES; i++) {
		plan(DEPOSIT, GPUSHARE_OK);
		plan(SHARE, GPUSHARE_E_INVALID);
		plan_move(true);
	}
	assert_int_equal(share_fd(&generation), GPUSHARE_E_INVALID);
	assert_int_equal(generation, 18);
}

/* Each another one; by the end of the turn, one is asked that stays. */
static void deposited_with_one_after_the_other(void **state)
{
	uint64_t generation = 0;

	(void)state;
	for (int i = 0; i < SUCCESSORS; i++) {
		plan(DEPOSIT, GPUSHARE_OK);
		plan(SHARE, GPUSHARE_E_INVALID);
		plan_move(false);
	}
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_OK)->answer.body.share.generation = 19;
	assert_int_equal(share_fd(&generation), GPUSHARE_OK);
	assert_int_equal(generation, 19);
	line.until_ms = monotonic_ms();
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_INVALID);
	plan_move(false);
	assert_int_equal(share_fd(&generation), GPUSHARE_E_INVALID);
}

static void shared_again(void **state)
{
	static const uint8_t handle[GPUSHARE_HANDLE_SIZE] = {9};
	struct link_share again = {
	    .what = &w, .group = "g", .handle = handle, .fd = -1, .again = 5, .orphan = true};
	uint64_t generation = 0;

	(void)state;
	plan(SHARE, GPUSHARE_OK)->answer.body.share.generation = 5;
	assert_int_equal(link_share_again(&again, 4711, &generation, sentence, sizeof(sentence)),
			 GPUSHARE_OK);
	assert_int_equal(generation, 5);
	assert_int_equal(played.last.verb.share.again, 5);
	assert_true(played.last.verb.share.orphan && played.last.verb.share.handle[0] == 9);
	again.fd = 55;
	plan(DEPOSIT, GPUSHARE_OK);
	plan(SHARE, GPUSHARE_E_EXISTS);
	assert_int_equal(link_share_again(&again, 4711, &generation, sentence, sizeof(sentence)),
			 GPUSHARE_E_EXISTS);
	assert_int_equal(played.last.verb.share.handle[0], 0);
	played.to_enter = GPUSHARE_E_NO_REGISTRY;
	assert_int_equal(link_share_again(&again, 4711, &generation, sentence, sizeof(sentence)),
			 GPUSHARE_E_NO_REGISTRY);
}

static int adopt_one(record *out, int *out_fd)
{
	return link_adopt(&w, "", out, out_fd, &reading, sentence, sizeof(sentence));
}

static void adopted(void **state)
{
	record out = {.size = 1};
	struct turn *turn;
	int fd = -1;

	(void)state;
	turn = plan(SHARE, GPUSHARE_OK);
	turn->answer.body.share.buffer.size = 100;
	plan(FETCH, GPUSHARE_E_NO_REGISTRY)->moves = true; /* gone with its ticket: the next one */
	turn = plan(SHARE, GPUSHARE_OK);
	turn->answer.body.share.buffer.size = 200;
	plan(FETCH, GPUSHARE_OK);
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_OK);
	assert_true(out.size == 200 && fd == 66 && played.last.verb.share.adopt);
	plan(SHARE, GPUSHARE_E_NOT_FOUND);
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_E_NOT_FOUND);
	for (int i = 0; i < CLIENT_TRIES; i++) {
		plan(SHARE, GPUSHARE_OK);
		plan(FETCH, GPUSHARE_E_NO_REGISTRY);
		plan_move(true);
	}
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_E_NO_REGISTRY);
	played.to_enter = GPUSHARE_E_TIMED_OUT;
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_E_TIMED_OUT);
}

static void adopted_of_one_after_the_other(void **state)
{
	record out = {.size = 1};
	int fd = -1;

	(void)state;
	for (int i = 0; i < SUCCESSORS; i++) {
		plan(SHARE, GPUSHARE_OK);
		plan(FETCH, GPUSHARE_E_NO_REGISTRY);
		plan_move(false);
	}
	plan(SHARE, GPUSHARE_OK)->answer.body.share.buffer.size = 300;
	plan(FETCH, GPUSHARE_OK);
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_OK);
	assert_true(out.size == 300 && fd == 66);
	line.until_ms = monotonic_ms();
	plan(SHARE, GPUSHARE_OK);
	plan(FETCH, GPUSHARE_E_NO_REGISTRY);
	plan_move(false);
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_E_NO_REGISTRY);
}

/* Without its descriptor it is left to itself again. */
static void adopted_in_vain(void **state)
{
	record out;
	struct turn *turn;
	int fd = -1;

	(void)state;
	turn = plan(SHARE, GPUSHARE_OK);
	turn->answer.body.share.generation = 23;
	strcpy(turn->answer.body.share.buffer.name, "left");
	plan(FETCH, GPUSHARE_E_LIMIT);
	plan(WITHDRAW, GPUSHARE_OK);
	assert_int_equal(adopt_one(&out, &fd), GPUSHARE_E_LIMIT);
	assert_string_equal(sentence, "as played.planned");
	assert_string_equal(played.last.verb.withdraw.name, "left");
	assert_int_equal(played.last.verb.withdraw.generation, 23);
	assert_int_equal(fd, -1);
}

static bool for_reading; /* as the last attach() was answered */
static int attach(unsigned int wait_ms, record *out, int *out_fd, bool *out_own)
{
	static uint8_t handle[GPUSHARE_HANDLE_SIZE];

	for_reading = true;
	return link_attach("w", wait_ms, &for_reading, out, handle, out_fd, out_own, &reading,
			   sentence, sizeof(sentence));
}

static struct turn *plan_attach(uint32_t backing)
{
	struct turn *turn = plan(ATTACH, GPUSHARE_OK);

	turn->answer.body.attach.buffer.backing = backing;
	turn->answer.body.attach.buffer.generation = 31;
	strcpy(turn->answer.body.attach.buffer.name, "w");
	return turn;
}

static void attached(void **state)
{
	bool own = false;
	int fd = 5;
	record out;

	(void)state;
	plan_attach(GPUSHARE_BACKING_IPC)->answer.body.attach.own = true;
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_OK);
	assert_true(own && fd == -1 && played.last.verb.attach.read_only);
	assert_false(for_reading);
	plan_attach(GPUSHARE_BACKING_VMM)->answer.body.attach.read_only = true;
	plan(FETCH, GPUSHARE_E_NOT_FOUND); /* a registry's that ended: the next one is asked anew */
	plan(DETACH, GPUSHARE_E_NOT_FOUND)->moves = true;
	plan_attach(GPUSHARE_BACKING_VMM)->answer.body.attach.read_only = true;
	plan(FETCH, GPUSHARE_OK);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_OK);
	assert_true(!own && fd == 66 && for_reading);
	assert_false(out.flags & GPUSHARE_FLAG_READONLY); /* which is the buffer's, for all */
	plan(ATTACH, GPUSHARE_E_DENIED);
	assert_int_equal(attach(5000, &out, &fd, &own), GPUSHARE_E_DENIED);
	played.to_enter = GPUSHARE_E_NO_MEMORY;
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_E_NO_MEMORY);
}

/* Its ticket is, with the registry that gave it. */
static void plan_lost(bool same)
{
	plan_attach(GPUSHARE_BACKING_HOST);
	plan(FETCH, GPUSHARE_E_NOT_FOUND);
	plan(DETACH, GPUSHARE_OK);
	plan_move(same);
}

/* What the registry has counted is given back. */
static void attached_without_its_descriptor(void **state)
{
	bool own;
	int fd = 5;
	record out;

	(void)state;
	plan_attach(GPUSHARE_BACKING_HOST);
	plan(FETCH, GPUSHARE_E_LIMIT);
	plan(DETACH, GPUSHARE_OK);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_E_LIMIT);
	assert_string_equal(played.last.verb.detach.name, "w");
	assert_int_equal(played.last.verb.detach.generation, 31);
	assert_int_equal(fd, 5);
	for (int i = 0; i < CLIENT_TRIES; i++)
		plan_lost(true);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_E_NOT_FOUND);
}

static void attached_of_one_after_the_other(void **state)
{
	bool own;
	int fd = 5;
	record out;

	(void)state;
	for (int i = 0; i < SUCCESSORS; i++)
		plan_lost(false);
	plan_attach(GPUSHARE_BACKING_HOST);
	plan(FETCH, GPUSHARE_OK);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_OK);
	assert_int_equal(fd, 66);
	line.until_ms = monotonic_ms();
	plan_lost(false);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_E_NOT_FOUND);
}

/* Each turn has its own end; all of them have one, too. */
static void attached_in_time(void **state)
{
	bool own;
	int fd = 5;
	record out;
	long long began = monotonic_ms();

	(void)state;
	setenv("GPUSHARE_TIMEOUT_MS", "40", 1);
	for (int i = 0; i < 4; i++) /* pauses of 5, 10, 20 and 40 ms */
		plan_lost(false);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_E_NOT_FOUND);
	unsetenv("GPUSHARE_TIMEOUT_MS");
	assert_in_range(monotonic_ms() - began, 40, 50000);
	/* A busy machine has slept longer, and asked less often for it; never more than once after it. */
	assert_in_range(played.taken, 1, played.planned);
	played.planned = played.taken;
}

/* In slices, short ones where others wait; a registry that is away is asked again until then. */
static void waited_for(void **state)
{
	bool own;
	int fd;
	record out;
	long long began = monotonic_ms();

	(void)state;
	played.queued = 2; /* before the first slice, and after it */
	plan(ATTACH, GPUSHARE_E_TIMED_OUT);
	plan(ATTACH, GPUSHARE_E_TIMED_OUT);
	plan(ATTACH, GPUSHARE_E_NO_REGISTRY);
	plan_attach(GPUSHARE_BACKING_IPC);
	assert_int_equal(attach(60000, &out, &fd, &own), GPUSHARE_OK);
	assert_int_equal(played.waits_ms[0], SLICE_QUEUED_MS);
	assert_int_equal(played.waits_ms[1], SLICE_MS);
	assert_in_range(monotonic_ms() - began, SLICE_MS, 50000);
	plan(ATTACH, GPUSHARE_E_TIMED_OUT);
	assert_int_equal(attach(0, &out, &fd, &own), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(played.waits_ms[played.taken - 1], 0);
}

#define on_line(test) cmocka_unit_test_setup_teardown(test, played_set_up, played_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    on_line(shared_by_handle),
	    on_line(asked_and_not_answered),
	    on_line(deposited_again),
	    on_line(deposited_with_one_after_the_other),
	    on_line(shared_again),
	    on_line(adopted),
	    on_line(adopted_of_one_after_the_other),
	    on_line(adopted_in_vain),
	    on_line(attached),
	    on_line(attached_without_its_descriptor),
	    on_line(attached_of_one_after_the_other),
	    on_line(attached_in_time),
	    on_line(waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
