/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PLAYED_LINE_H
#define GPUSHARE_TESTS_UNIT_PLAYED_LINE_H
/*
 * For the one file of a program that includes a .c of shim/ behind this: shim_line.h, answering as it
 * was planned. After cmocka.h.
 */
#include <stdio.h>
#include <string.h>

#include "monotonic.h"
#include "shim_line.h"
#include "shim_live.h"

#define TURNS_MAX 32

/* One answer of the line: to a request, a deposit or a fetch. */
struct turn {
	pb_size_t verb; /* that is asked then; DEPOSIT, FETCH */
	int status;
	bool moves; /* it comes over another connection than the one before */
	bool same;  /* ...of the same registry */
	reply answer;
};
enum { DEPOSIT = 1001, FETCH };

static struct {
	struct client client;
	struct turn turns[TURNS_MAX];
	size_t planned, taken;
	bool in_turn, moved, unanswered;
	int to_enter, queued; /* a status; how often others wait */
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
	played.client.connections += turn->moves;
	played.client.server += turn->moves && !turn->same;
	played.moved = turn->moves;
	played.client.reply = turn->answer;
	if (turn->status)
		snprintf(out_why, size, "as played.planned");
	return turn->status;
}

/* The latest, too, comes from another registry than the one before; or over another connection of the same. */
static inline void plan_move(bool same)
{
	played.turns[played.planned - 1].moves = true;
	played.turns[played.planned - 1].same = same;
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

static int played_deposit(int fd, uint8_t (*out_ticket)[GPUSHARE_TICKET_SIZE], char *out_why,
			  size_t size)
{
	assert_int_equal(fd, 55);
	memset(out_ticket, (int)played.taken + 1, GPUSHARE_TICKET_SIZE);
	return take_turn(DEPOSIT, 0, out_why, size);
}

static int played_fetch(const uint8_t ticket[GPUSHARE_TICKET_SIZE], int *out_fd, char *out_why,
			size_t size)
{
	int status = take_turn(FETCH, 0, out_why, size);

	assert_non_null(ticket);
	if (!status)
		*out_fd = 66;
	return status;
}

static bool played_moved(unsigned int connections)
{
	assert_in_range(connections, 0, played.client.connections);
	return played.moved;
}

static inline bool played_unanswered(void)
{
	return played.unanswered;
}

static char sentence[256];

static int played_set_up(void **state)
{
	(void)state;
	memset(&played, 0, sizeof(played));
	played.client.connections = 1;
	played.client.server = 1;
	line.until_ms = monotonic_ms() + 60000;
	line.client = &played.client;
	*sentence = '\0';
	live_missed();
	return 0;
}

static int played_tear_down(void **state)
{
	(void)state;
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
#define line_deposit played_deposit
#define line_fetch played_fetch
#define line_has_moved played_moved
#define line_is_unanswered played_unanswered

#endif
