/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_TURN_H
#define GPUSHARE_SHIM_API_TURN_H
/*
 * One thread at a time, for what asks the registry or the driver meanwhile: who waits sleeps, and not for
 * ever. All zero: nobody's.
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

/* False: whoever has it did not give it back within so many milliseconds. */
bool turn_take(struct turn *turn, unsigned int within_ms);
void turn_give(struct turn *turn);

#endif
