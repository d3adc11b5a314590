// SPDX-License-Identifier: MIT
/*
 * `drv_cancel COUNT SIZE [HELD]`: COUNT threads run, one after another. Each allocates and frees
 * SIZE bytes in a loop until it is cancelled, at a moment that differs from thread to thread. Each
 * holds another HELD bytes. When it ends, its cleanup handlers free what it holds.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "app_driver.h"

#define MUST(call) must(call, #call)

static cu_cuMemGetAddressRange_v2_call *range_of;
static size_t size, held_size;
static atomic_uint turns;

static void give_back(void *pointer)
{
	if (*(cu_deviceptr *)pointer)
		MUST(release(*(cu_deviceptr *)pointer));
}

static void *work(void *unused)
{
	cu_deviceptr pointer = 0, held = 0, base;
	size_t room;

	MUST(set_current(context));
	if (held_size)
		MUST(alloc(&held, held_size));
	pthread_cleanup_push(give_back, &held);
	pthread_cleanup_push(give_back, &pointer);
	for (;;) {
		MUST(alloc(&pointer, size));
		MUST(range_of(&base, &room, pointer));
		base = pointer;
		pointer = 0;
		MUST(release(base));
		atomic_fetch_add(&turns, 1);
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

int main(int count, char **argument)
{
	long threads = count > 2 ? strtol(argument[1], NULL, 10) : 0;
	cu_deviceptr pointer;

	must(threads <= 0, "COUNT SIZE");
	size = strtoul(argument[2], NULL, 10);
	held_size = count > 3 ? strtoul(argument[3], NULL, 10) : 0;
	range_of = (cu_cuMemGetAddressRange_v2_call *)find(start(), "cuMemGetAddressRange_v2");
	MUST(set_current(context));
	for (long i = 0; i < threads; i++) {
		struct timespec moment = {0, i * 7919 % 1000 * 2000};
		unsigned int before = turns;
		pthread_t thread;
		void *result;

		MUST(pthread_create(&thread, NULL, work, NULL));
		while (turns == before)
			sched_yield();
		nanosleep(&moment, NULL);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		must(result != PTHREAD_CANCELED, "a thread that was not cancelled");
	}
	MUST(alloc(&pointer, size));
	printf("allocates\n");
	fflush(stdout);
	getchar();
	MUST(release(pointer));
	return 0;
}
