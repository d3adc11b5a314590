/* SPDX-License-Identifier: MIT */
#include "api_turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/monotonic.h"

enum { FREE, TAKEN, WAITED_FOR }; /* the first two as in turn_try() */

/* `until` is a point in time, so that a spurious wake-up doesn't extend the wait. False: it is
 * over. */
static bool is_woken(struct turn *turn, const struct timespec *until)
{
	long result = syscall(SYS_futex, &turn->word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
			      WAITED_FOR, until, NULL, FUTEX_BITSET_MATCH_ANY);

	return !result || errno == EAGAIN || errno == EINTR;
}

bool turn_take(struct turn *turn, unsigned int within_ms)
{
	struct timespec until;

	if (turn_try(turn))
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
