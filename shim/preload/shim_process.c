/* SPDX-License-Identifier: MIT */
#include "shim_process.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/fork_check.h"

static atomic_bool ending;

static void on_exit_begun(void)
{
	atomic_store_explicit(&ending, true, memory_order_release);
}

void process_claim(void)
{
	static atomic_flag registered = ATOMIC_FLAG_INIT;
	int whose;

	/* exit() calls handlers in reverse order, so this one runs before all older ones. */
	if (fork_check_claim(&whose) && !atomic_flag_test_and_set(&registered))
		atexit(on_exit_begun);
}

bool process_is_mine(void)
{
	return fork_check_is_mine();
}

bool process_is_ending(void)
{
	return atomic_load_explicit(&ending, memory_order_acquire);
}
