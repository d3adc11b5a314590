/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_TURN_H
#define GPUSHARE_SHIM_API_TURN_H
/*
 * A lock for threads that ask the registry or the driver while they hold it: waiters sleep, with a
 * time limit. All zero: nobody holds it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct turn {
	_Atomic uint32_t word;
};

/* False: another thread has it. */
static inline bool turn_try(struct turn *turn)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong(&turn->word, &free, 1);
}

/* False: the holder did not give it back within `within_ms`. */
bool turn_take(struct turn *turn, unsigned int within_ms);
void turn_give(struct turn *turn);

#endif
