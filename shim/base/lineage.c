/* SPDX-License-Identifier: MIT */
#include "lineage.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int claimed; /* pid; 0: nobody has */

/* 1 where it was claimed: the kernel empties it in a forked child, however it was forked. NULL: the
 * kernel can't (before 4.14). */
static _Atomic(atomic_int *) mark;

static void make_mark(void)
{
	atomic_int *made, *none = NULL;

	made =
	    mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return;
	atomic_init(made, 1);
	if (madvise(made, sizeof(*made), MADV_WIPEONFORK) ||
	    !atomic_compare_exchange_strong(&mark, &none, made))
		munmap(made, sizeof(*made));
}

bool lineage_claim(int *out_pid)
{
	int mine = getpid(), whose = 0;

	if (atomic_compare_exchange_strong(&claimed, &whose, mine)) {
		make_mark();
		return true;
	}
	*out_pid = whose;
	/* In a pid namespace of its own a child may have that pid, too. */
	return whose == mine && lineage_is_mine();
}

bool lineage_is_mine(void)
{
	const atomic_int *made = atomic_load_explicit(&mark, memory_order_acquire);

	if (made)
		return atomic_load_explicit(made, memory_order_relaxed);
	return atomic_load(&claimed) == 0 || atomic_load(&claimed) == getpid();
}
