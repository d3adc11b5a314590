/* SPDX-License-Identifier: MIT */
/*
 * What keeps a stream behind: words in memory that still lack the value it waits for, one after
 * another. Nobody watches them: they are looked at when somebody asks, and what was seen once
 * stays.
 */
#include <stdlib.h>
#include <unistd.h>

#include "driver_stream.h"

#define WAIT_INTERVAL_US 50

struct wait {
	struct wait *next;     /* newer */
	struct wait *after[2]; /* older */
	uint64_t address;      /* 0: nothing but `after` */
	uint32_t value;
	const _Atomic uint64_t *counter; /* instead of a word: what must be at least... */
	uint64_t number;		 /* ... this */
	unsigned int references;
	bool over;
};

static struct wait *waits; /* the oldest first */

static void wait_free(struct wait *wait)
{
	struct wait **link = &waits;

	while (*link != wait)
		link = &(*link)->next;
	*link = wait->next;
	free(wait);
}

struct wait *wait_hold(struct wait *wait)
{
	if (wait)
		wait->references++;
	return wait;
}

/* What is not over stays: cuMemFree waits for it, whoever made it. */
void wait_drop(struct wait *wait)
{
	if (wait && !--wait->references && wait->over)
		wait_free(wait);
}

/* Takes over the references to those before it. NULL: out of memory. */
struct wait *wait_new(struct wait *first, struct wait *second, uint64_t address, uint32_t value)
{
	struct wait *wait = calloc(1, sizeof(*wait));
	struct wait **link = &waits;

	if (!wait)
		return NULL;
	*wait = (struct wait){
	    .after = {first, second},
	    .address = address,
	    .value = value,
	    .references = 1,
	};
	while (*link)
		link = &(*link)->next;
	*link = wait;
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

/* A word that is no longer there can't be waited for. */
static bool wait_satisfied(const struct wait *wait)
{
	if (!wait_over(wait->after[0]) || !wait_over(wait->after[1]))
		return false;
	if (wait->counter)
		return *wait->counter >= wait->number;
	if (!wait->address || !region_covers(wait->address, sizeof(uint32_t), CU_ACCESS_READ))
		return true;
	uint32_t now =
	    __atomic_load_n((const uint32_t *)(uintptr_t)wait->address, __ATOMIC_ACQUIRE);
	return (int32_t)(now - wait->value) >= 0;
}

/* From the oldest on, so that one look is enough for a whole row. */
void wait_look(void)
{
	struct wait *next;

	for (struct wait *wait = waits; wait; wait = next) {
		next = wait->next;
		if (wait->over || !wait_satisfied(wait))
			continue;
		wait->over = true;
		wait_drop(wait->after[0]);
		wait_drop(wait->after[1]);
		wait->after[0] = wait->after[1] = NULL;
		if (!wait->references)
			wait_free(wait);
	}
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
