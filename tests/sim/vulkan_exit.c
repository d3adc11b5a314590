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
static int made_by;

void vulkan_await_threads(void)
{
	while (stopped && atomic_load(stopped))
		pause();
}

static void at_exit(void)
{
	if (getpid() == made_by) {
		vulkan_await_threads();
		return;
	}
	atomic_store(stopped, true);
	for (;;)
		raise(SIGSEGV);
}

static void start(void)
{
	stopped =
	    mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	made_by = getpid();
	if (stopped == MAP_FAILED || atexit(at_exit))
		vulkan_misused("its exit handler can't be registered");
}

void vulkan_start_threads(void)
{
	pthread_once(&once, start);
}
