/* SPDX-License-Identifier: MIT */
#include "fork_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_uint given;   /* numbers assigned, in this process and its ancestors */
static atomic_uint claimed; /* number of the process that fork_check_claim() recorded; 0: none */
static atomic_int claimed_pid;

/* This process's number, in memory that the kernel zeroes in each forked child, however it was
 * forked. If the kernel can't do that (before Linux 4.14, in emulators), empty_in_child() zeroes
 * the number, but only in a child of fork(). */
static _Atomic(atomic_uint *) number;
static atomic_uint number_not_wiped;

static void empty_in_child(void)
{
	atomic_store(atomic_load(&number), 0);
}

static atomic_uint *make_number(void)
{
	atomic_uint *none = NULL, *made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made != MAP_FAILED && madvise(made, sizeof(*made), MADV_WIPEONFORK)) {
		munmap(made, sizeof(*made));
		made = MAP_FAILED;
	}
	if (made == MAP_FAILED)
		made = &number_not_wiped;
	if (atomic_compare_exchange_strong(&number, &none, made)) {
		pthread_atfork(NULL, NULL, empty_in_child);
		return made;
	}
	if (made != &number_not_wiped)
		munmap(made, sizeof(*made));
	return none;
}

unsigned int fork_check_number(void)
{
	atomic_uint *stands = atomic_load_explicit(&number, memory_order_acquire);
	unsigned int mine, fresh;

	if (!stands)
		stands = make_number();
	mine = atomic_load_explicit(stands, memory_order_relaxed);
	if (mine)
		return mine;
	fresh = atomic_fetch_add(&given, 1) + 1;
	return atomic_compare_exchange_strong(stands, &mine, fresh) ? fresh : mine;
}

bool fork_check_claim(int *out_pid)
{
	unsigned int mine = fork_check_number(), whose = atomic_load(&claimed);

	if (!whose) {
		atomic_store(&claimed_pid, getpid());
		if (atomic_compare_exchange_strong(&claimed, &whose, mine))
			return true;
	}
	*out_pid = atomic_load(&claimed_pid);
	return whose == mine;
}

bool fork_check_is_mine(void)
{
	unsigned int whose = atomic_load_explicit(&claimed, memory_order_acquire);

	return !whose || whose == fork_check_number();
}
