/* SPDX-License-Identifier: MIT */
#include "shim_process.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The kernel empties it in a forked child, however it was forked. */
struct mark {
	atomic_int alive;
	int pid; /* where the kernel can't do that (before 4.14): whose it is; else 0 */
};

static _Atomic(struct mark *) claimed;
static atomic_bool ending;
static _Atomic(void (*)(void)) last_call;

void process_on_exit(void (*call)(void))
{
	atomic_store_explicit(&last_call, call, memory_order_release);
}

static void on_exit_begun(void)
{
	void (*call)(void) = atomic_load_explicit(&last_call, memory_order_acquire);

	if (call && process_is_mine())
		call();
	atomic_store_explicit(&ending, true, memory_order_release);
}

void process_claim(void)
{
	struct mark *made, *none = NULL;

	if (atomic_load_explicit(&claimed, memory_order_acquire))
		return;
	made =
	    mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return;
	if (madvise(made, sizeof(*made), MADV_WIPEONFORK))
		made->pid = getpid();
	atomic_init(&made->alive, 1);
	if (!atomic_compare_exchange_strong(&claimed, &none, made)) {
		munmap(made, sizeof(*made));
		return;
	}
	/* Late, so that it runs before the handlers and destructors of what was there before. */
	atexit(on_exit_begun);
}

bool process_is_mine(void)
{
	const struct mark *mark = atomic_load_explicit(&claimed, memory_order_acquire);

	if (!mark)
		return true;
	return atomic_load_explicit(&mark->alive, memory_order_relaxed) &&
	       (!mark->pid || mark->pid == getpid());
}

bool process_is_ending(void)
{
	return atomic_load_explicit(&ending, memory_order_acquire);
}
