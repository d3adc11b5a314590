/* SPDX-License-Identifier: MIT */
/*
 * The exit handler that NVIDIA's driver has once there is a device (measured, driver 580): in a forked
 * child it tells the parent's threads to stop, by what the two share, and crashes; in the parent the
 * end of the device, and of the process, waits for them for ever.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vulkan_sim.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool *stopped; /* a child's too */
static atomic_bool *here;    /* not a child's; NULL: the kernel can't, and emulators don't */
static int made_by;

void vulkan_await_threads(void)
{
	while (stopped && atomic_load(stopped))
		pause();
}

static bool is_forked(void)
{
	return (here && !atomic_load(here)) || getpid() != made_by;
}

static void at_exit(void)
{
	if (!is_forked()) {
		vulkan_await_threads();
		return;
	}
	atomic_store(stopped, true);
	for (;;)
		raise(SIGSEGV);
}

static void *page(int sharing)
{
	void *made =
	    mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		vulkan_misused("no memory");
	return made;
}

static void start(void)
{
	stopped = page(MAP_SHARED);
	here = page(MAP_PRIVATE);
	atomic_store(here, true);
	if (madvise(here, sizeof(*here), MADV_WIPEONFORK))
		here = NULL;
	made_by = getpid();
}

/* Whether the second device brings a handler of its own is not measured: the worse is taken. */
void vulkan_start_threads(void)
{
	pthread_once(&once, start);
	if (atexit(at_exit))
		vulkan_misused("its exit handler can't be registered");
}
