/* SPDX-License-Identifier: MIT */
/* What is remembered of where a call goes on to. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "beside.h"
#include "shim_elf.h"
#include "shim_route.h"
#include "shim_unload.h"

static atomic_uint asked;

/* Where a caller goes on to, so that a mixed-up answer shows. */
static void *target_of(const void *caller)
{
	return (void *)((uintptr_t)caller ^ 0x5a5a5a00);
}

static void *find(const void *caller, const char *symbol)
{
	atomic_fetch_add(&asked, 1);
	errno = ENOENT;
	return !symbol || !strcmp(symbol, "present") ? target_of(caller) : NULL;
}

static void *find_none(const void *caller, const char *symbol)
{
	(void)caller;
	(void)symbol;
	return NULL;
}

static const void *caller_of(uintptr_t number)
{
	return (const void *)(0x7f0000001000 + number * 48);
}

static int start(void **state)
{
	(void)state;
	atomic_store(&asked, 0);
	errno = 77;
	return 0;
}

/* A library could leave the process, and stays. */
static void close_only(void)
{
	unsigned int before = unload_count();

	assert_int_equal(dlclose(dlopen(NULL, RTLD_NOW)), 0);
	assert_true(unload_count() != before);
	errno = 77;
}

/* A library leaves the process. */
static void unload(void)
{
	unsigned long long before = elf_unloaded();

	assert_int_equal(dlclose(beside_load("bin/lib_stubs.so")), 0);
	assert_int_equal(elf_unloaded(), before + 1);
	errno = 77;
}

static void found_once_then_remembered(void **state)
{
	struct route route = {.sequence = 0};

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(route_get(&route, caller_of(1), "present", find),
				 target_of(caller_of(1)));
	assert_int_equal(atomic_load(&asked), 1);
	assert_int_equal(errno, 77);
	/* the one slot is for the caller that came last */
	assert_ptr_equal(route_get(&route, caller_of(2), "present", find), target_of(caller_of(2)));
	assert_ptr_equal(route_get(&route, caller_of(1), "present", find), target_of(caller_of(1)));
	assert_int_equal(atomic_load(&asked), 3);
}

static void nothing_found_is_not_remembered(void **state)
{
	struct route route = {.sequence = 0};
	static struct routes routes;

	(void)state;
	for (unsigned int i = 1; i < 4; i++) {
		assert_null(route_get(&route, caller_of(1), "absent", find));
		assert_null(routes_get(&routes, caller_of(1), "absent", find));
		assert_int_equal(atomic_load(&asked), 2 * i);
	}
	assert_int_equal(errno, 77);
	/* nor does it push out what was */
	assert_non_null(route_get(&route, caller_of(1), "present", find));
	assert_null(route_get(&route, caller_of(2), "absent", find));
	atomic_store(&asked, 0);
	assert_non_null(route_get(&route, caller_of(1), "present", find));
	assert_int_equal(atomic_load(&asked), 0);
}

static void found_again_after_an_unload(void **state)
{
	struct route route = {.sequence = 0};
	static struct routes routes;

	(void)state;
	for (unsigned int i = 1; i < 4; i++) {
		for (int again = 0; again < 2; again++) {
			assert_non_null(route_get(&route, caller_of(1), "present", find));
			assert_non_null(routes_get(&routes, caller_of(1), NULL, find));
		}
		assert_int_equal(atomic_load(&asked), 2 * i);
		unload();
	}
}

static void remembered_where_nothing_was_unloaded(void **state)
{
	struct route route = {.sequence = 0};
	static struct routes routes;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uintptr_t i = 1; i < 5; i++)
			assert_ptr_equal(routes_get(&routes, caller_of(i), NULL, find),
					 target_of(caller_of(i)));
		assert_ptr_equal(route_get(&route, caller_of(1), "present", find),
				 target_of(caller_of(1)));
		/* the first look finds it again */
		assert_ptr_equal(route_read(&route, caller_of(1), unload_count()),
				 target_of(caller_of(1)));
		close_only();
		assert_null(route_read(&route, caller_of(1), unload_count()));
		/* nor does it answer another caller */
		assert_null(route_get(&route, caller_of(2), "absent", find_none));
	}
	assert_int_equal(atomic_load(&asked), 5);
	assert_int_equal(errno, 77);
}

/* What is unloaded while it is sought is stale at once. */
static void *find_while_unloading(const void *caller, const char *symbol)
{
	unload();
	return find(caller, symbol);
}

static void unloaded_meanwhile(void **state)
{
	struct route route = {.sequence = 0};
	static struct routes routes;

	(void)state;
	for (unsigned int i = 1; i < 4; i++) {
		assert_non_null(route_get(&route, caller_of(1), "present", find_while_unloading));
		assert_non_null(routes_get(&routes, caller_of(1), NULL, find_while_unloading));
		assert_int_equal(atomic_load(&asked), 2 * i);
	}
}

/* A caller that was the first in its place is found there at the first look; also after an unload, and where
 * another one stands behind. */
static void at_hand_where_it_stands_first(void **state)
{
	static struct routes routes;
	struct route one = {.sequence = 0};

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (uintptr_t i = 1; i < 3; i++) {
			const void *caller = caller_of(i);

			assert_null(routes_get(&routes, caller, NULL, find_none));
			assert_ptr_equal(routes_get(&routes, caller, NULL, find),
					 target_of(caller));
			assert_ptr_equal(route_read(&routes.slot[route_place(caller) % ROUTE_SLOTS],
						    caller, unload_count()),
					 target_of(caller));
			assert_ptr_equal(routes_get(&routes, caller, NULL, find_none),
					 target_of(caller));
		}
		assert_null(route_get(&one, caller_of(1), NULL, find_none));
		assert_ptr_equal(route_get(&one, caller_of(1), NULL, find),
				 target_of(caller_of(1)));
		assert_ptr_equal(route_get(&one, caller_of(1), NULL, find_none),
				 target_of(caller_of(1)));
		unload();
	}
}

/* As many callers as there are slots are nearly all remembered; more take turns, rightly. */
static void many_callers_in_few_slots(void **state)
{
	static struct routes routes;

	(void)state;
	for (int round = 0; round < 50; round++)
		for (uintptr_t i = 0; i < ROUTE_SLOTS / 4; i++)
			assert_ptr_equal(routes_get(&routes, caller_of(i), NULL, find),
					 target_of(caller_of(i)));
	assert_in_range(atomic_load(&asked), ROUTE_SLOTS / 4, ROUTE_SLOTS);
	for (int round = 0; round < 50; round++)
		for (uintptr_t i = 0; i < 10 * ROUTE_SLOTS; i++)
			assert_ptr_equal(routes_get(&routes, caller_of(i), NULL, find),
					 target_of(caller_of(i)));
	assert_int_equal(errno, 77);
	/* stale slots are taken before others are pushed out */
	unload();
	atomic_store(&asked, 0);
	for (int round = 0; round < 3; round++)
		assert_non_null(routes_get(&routes, caller_of(5), NULL, find));
	assert_int_equal(atomic_load(&asked), 1);
}

static struct {
	struct route one;
	struct routes many;
	atomic_bool stop;
} shared;

static void *hammer(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;
	uintptr_t wrong = 0;

	for (int i = 0; i < 200000; i++) {
		const void *caller = caller_of((uintptr_t)rand_r(&random) % 48);

		wrong += route_get(&shared.one, caller, "present", find) != target_of(caller);
		wrong += routes_get(&shared.many, caller, NULL, find) != target_of(caller);
	}
	return (void *)wrong;
}

static void *keep_unloading(void *unused)
{
	(void)unused;
	while (!atomic_load(&shared.stop))
		dlclose(dlopen(NULL, RTLD_NOW));
	return NULL;
}

static void threads_hammer(void **state)
{
	pthread_t threads[3], unloader;
	void *wrong;

	(void)state;
	assert_int_equal(pthread_create(&unloader, NULL, keep_unloading, NULL), 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	atomic_store(&shared.stop, true);
	pthread_join(unloader, NULL);
	/* none is left as if it were being written */
	assert_int_equal(atomic_load(&shared.one.sequence) & 1, 0);
	for (int i = 0; i < ROUTE_SLOTS; i++)
		assert_int_equal(atomic_load(&shared.many.slot[i].sequence) & 1, 0);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup(test, start)
	const struct CMUnitTest tests[] = {
	    STARTED(found_once_then_remembered),  STARTED(nothing_found_is_not_remembered),
	    STARTED(found_again_after_an_unload), STARTED(remembered_where_nothing_was_unloaded),
	    STARTED(unloaded_meanwhile),	  STARTED(at_hand_where_it_stands_first),
	    STARTED(many_callers_in_few_slots),	  STARTED(threads_hammer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
