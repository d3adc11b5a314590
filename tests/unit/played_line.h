/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PLAYED_LINE_H
#define GPUSHARE_TESTS_UNIT_PLAYED_LINE_H
/*
 * Replaces the functions of shim_line.h by ones that give planned answers. Include it in one file
 * of a program, after cmocka.h and before the .c file of shim/ that the file tests.
 */
#include <stdio.h>
#include <string.h>

#include "base/monotonic.h"
#include "preload/shim_line.h"
#include "preload/shim_live.h"

#define TURNS_MAX 32

/* One planned answer. */
struct turn {
	pb_size_t verb; /* the request that must be sent */
	int status;
	reply answer;
};

static struct {
	struct client client;
	struct turn turns[TURNS_MAX];
	size_t planned, taken;
	bool in_turn, unanswered;
	int to_enter, queued; /* line_enter()'s status; how often line_is_queued() is still true */
	request last;
	unsigned int waits_ms[TURNS_MAX];
} played;

static struct turn *plan(pb_size_t verb, int status)
{
	assert_in_range(played.planned, 0, TURNS_MAX - 1);
	played.turns[played.planned] = (struct turn){.verb = verb, .status = status};
	return &played.turns[played.planned++];
}

static int take_turn(pb_size_t verb, unsigned int wait_ms, char *out_why, size_t size)
{
	const struct turn *turn = &played.turns[played.taken];

	assert_true(played.in_turn);
	if (played.taken == played.planned || turn->verb != verb)
		fail_msg("%d is asked, not %d", (int)verb, (int)turn->verb);
	played.waits_ms[played.taken++] = wait_ms;
	played.client.reply = turn->answer;
	if (turn->status)
		snprintf(out_why, size, "as played.planned");
	return turn->status;
}

static int played_enter(char *out_why, size_t size)
{
	assert_false(played.in_turn);
	if (played.to_enter)
		snprintf(out_why, size, "no turn");
	played.in_turn = !played.to_enter;
	return played.to_enter;
}

static int played_enter_by(int64_t until_ms, char *out_why, size_t size)
{
	assert_int_equal(until_ms, 4711);
	return played_enter(out_why, size);
}

static void played_leave(void)
{
	assert_true(played.in_turn);
	played.in_turn = false;
}

static inline bool played_queued(void)
{
	return played.queued > 0 && played.queued--;
}

static request *played_ask(pb_size_t verb)
{
	assert_true(played.in_turn);
	memset(&played.client.request, 0, sizeof(played.client.request));
	played.client.request.which_verb = verb;
	return &played.client.request;
}

static int played_call(unsigned int extra_ms, char *out_why, size_t size)
{
	played.last = played.client.request;
	return take_turn(played.client.request.which_verb, extra_ms, out_why, size);
}

static inline int played_give_back(char *out_why, size_t size)
{
	return played_call(0, out_why, size);
}

static inline bool played_unanswered(void)
{
	return played.unanswered;
}

static char sentence[256];

static int played_set_up(void **state)
{
	memset(&played, 0, sizeof(played));
	played.client.connections = 1;
	played.client.server = 1;
	line.until_ms = monotonic_ms() + 60000;
	line.client = &played.client;
	*sentence = '\0';
	resync_missed(&live_resync);
	return 0;
}

static int played_tear_down(void **state)
{
	assert_false(played.in_turn);
	assert_int_equal(played.taken, played.planned);
	line.client = NULL;
	return 0;
}

#define line_enter played_enter
#define line_enter_by played_enter_by
#define line_leave played_leave
#define line_is_queued played_queued
#define line_ask played_ask
#define line_call played_call
#define line_give_back played_give_back
#define line_is_unanswered played_unanswered

#endif
