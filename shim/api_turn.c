/* SPDX-License-Identifier: MIT */
#include "api_turn.h"

#include <errno.h>
#include <linux/futex.h>

#include "monotonic.h"

enum { FREE, TAKEN, WAITED_FOR };

/* The time, and not the length, so that being woken in vain makes it no longer. */
static bool is_woken(struct turn *turn, const struct timespec *until)
{
	long result = syscall(SYS_futex, &turn->word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
			      WAITED_FOR, until, NULL, FUTEX_BITSET_MATCH_ANY);

	return !result || errno == EAGAIN || errno == EINTR;
}

bool turn_take(struct turn *turn, unsigned int within_ms)
{
	uint32_t free = FREE;
	struct timespec until;

	if (atomic_compare_exchange_strong(&turn->word, &free, TAKEN))
		return true;
	until = monotonic_in_ms(within_ms);
	while (atomic_exchange(&turn->word, WAITED_FOR) != FREE)
		if (!is_woken(turn, &until))
			return false;
	return true;
}

void turn_give(struct turn *turn)
{
	if (atomic_exchange(&turn->word, FREE) == WAITED_FOR)
		syscall(SYS_futex, &turn->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}
