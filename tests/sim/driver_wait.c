/* SPDX-License-Identifier: MIT */
/*
 * Waits: words in memory that have not reached the value that a stream waits for, and the work
 * queued behind them. Calls that need the state run wait_look(). A thread also runs it while
 * operations are pending. A wait that was once seen as satisfied stays satisfied.
 */

#include <utlist.h>

#include "driver_work.h"

#define WAIT_INTERVAL_US 50

struct wait {
	struct wait *next;		 /* newer */
	struct wait *after[2];		 /* older; must be over first */
	struct op op;			 /* OP_WAIT without an address: waits only for `after` */
	const _Atomic uint64_t *counter; /* waited for instead of a word */
	uint64_t number;		 /* value that `counter` must reach */
	unsigned int references;
	bool called; /* a host function that wait_take_call() has returned */
	bool over;
};

static struct wait *waits; /* the oldest first */

static void wait_free(struct wait *wait)
{
	LL_DELETE(waits, wait);
	free(wait);
}

struct wait *wait_hold(struct wait *wait)
{
	if (wait)
		wait->references++;
	return wait;
}

/* A wait that is not over stays in the list, since cuMemFree waits for the work of all streams. */
void wait_drop(struct wait *wait)
{
	if (wait && !--wait->references && wait->over)
		wait_free(wait);
}

/* Take over the references to `first` and `second`. NULL: out of memory; the caller keeps the
 * references. */
struct wait *wait_new(struct wait *first, struct wait *second, uint64_t address, uint32_t value)
{
	struct wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return NULL;
	*wait = (struct wait){
	    .after = {first, second},
	    .op = {.kind = OP_WAIT, .to = address, .value = value, .width = 4},
	    .references = 1,
	};
	LL_APPEND(waits, wait);
	return wait;
}

struct wait *wait_new_op(struct wait *first, const struct op *op)
{
	struct wait *wait = wait_new(first, NULL, 0, 0);

	if (wait)
		wait->op = *op;
	return wait;
}

struct wait *wait_new_counter(struct wait *first, const _Atomic uint64_t *counter, uint64_t number)
{
	struct wait *wait = wait_new(first, NULL, 0, 0);

	if (wait) {
		wait->counter = counter;
		wait->number = number;
	}
	return wait;
}

bool wait_over(const struct wait *wait)
{
	return !wait || wait->over;
}

static bool wait_reached(const struct op *op)
{
	const void *word = (const void *)(uintptr_t)op->to;

	if (op->width == 8)
		return (int64_t)(__atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE) -
				 op->value) >= 0;
	return (int32_t)(__atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE) -
			 (uint32_t)op->value) >= 0;
}

/* A wait for a word whose memory was freed counts as satisfied. */
static bool wait_satisfied(const struct wait *wait)
{
	if (!wait_over(wait->after[0]) || !wait_over(wait->after[1]))
		return false;
	if (wait->counter)
		return *wait->counter >= wait->number;
	if (wait->op.kind != OP_WAIT)
		return wait->op.kind != OP_CALL; /* wait_done() ends a call */
	return !wait->op.to || !region_covers(wait->op.to, wait->op.width, CU_ACCESS_READ) ||
	       wait_reached(&wait->op);
}

static void wait_end(struct wait *wait)
{
	wait->over = true;
	wait_drop(wait->after[0]);
	wait_drop(wait->after[1]);
	wait->after[0] = wait->after[1] = NULL;
	free(wait->op.bytes);
	wait->op.bytes = NULL;
	if (!wait->references)
		wait_free(wait);
}

/* Start with the oldest wait, so that one pass completes a whole chain. */
void wait_look(void)
{
	struct wait *next;

	for (struct wait *wait = waits; wait; wait = next) {
		next = wait->next;
		if (wait->over || !wait_satisfied(wait))
			continue;
		op_run(&wait->op);
		wait_end(wait);
	}
}

struct wait *wait_take_call(struct op *out_op)
{
	for (struct wait *wait = waits; wait; wait = wait->next) {
		if (wait->over || wait->called || wait->op.kind != OP_CALL ||
		    !wait_over(wait->after[0]) || !wait_over(wait->after[1]))
			continue;
		wait->called = true;
		*out_op = wait->op;
		return wait_hold(wait);
	}
	return NULL;
}

void wait_done(struct wait *wait)
{
	wait->references--;
	wait_end(wait);
}

bool wait_has_work(void)
{
	for (const struct wait *wait = waits; wait; wait = wait->next) {
		if (!wait->over && wait->op.kind != OP_WAIT)
			return true;
	}
	return false;
}

void wait_for(struct wait *wait)
{
	for (;; usleep(WAIT_INTERVAL_US)) {
		STATE_LOCKED;
		wait_look();
		if (!wait_over(wait))
			continue;
		wait_drop(wait);
		return;
	}
}

static bool wait_none_left(void)
{
	STATE_LOCKED;
	wait_look();
	for (const struct wait *wait = waits; wait; wait = wait->next) {
		if (!wait->over)
			return false;
	}
	return true;
}

void wait_for_all(void)
{
	while (!wait_none_left())
		usleep(WAIT_INTERVAL_US);
}
