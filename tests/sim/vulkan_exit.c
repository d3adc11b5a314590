/* SPDX-License-Identifier: MIT */
/*
 * The exit handler that NVIDIA's driver registers once a device exists (measured, driver 580). In a
 * forked child it stops the parent's threads through shared memory, and crashes. After that, the
 * parent waits forever for these threads when it destroys the device or exits.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vulkan_sim.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool *stopped; /* shared with forked children */
static atomic_bool *here;    /* cleared in a forked child, except by emulators; NULL: unsupported */
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

/* Not measured: does a second device register a handler of its own? Assume the worse, that it
 * does. */
void vulkan_start_threads(void)
{
	pthread_once(&once, start);
	if (atexit(at_exit))
		vulkan_misused("its exit handler can't be registered");
}
