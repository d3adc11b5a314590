/* SPDX-License-Identifier: MIT */
/* The cache of where the program's calls continue. */
#include "unit.h"

#include <link.h>

#include "beside.h"
#include "cuda/driver.h"
#include "base/elf.h"
#include "preload/shim_route.h"
#include "preload/shim_unload.h"

static atomic_uint asked;

/* Return where a caller's calls continue. Each caller has another target, so that a mixed-up
 * answer shows. */
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

static const void *caller_of(uintptr_t number)
{
	return (const void *)(0x7f0000001000 + number * 48);
}

/* caller_inside() returns addresses in this library; unload() unloads it. */
static void *library;

static const void *caller_inside(uintptr_t number)
{
	return (const char *)dlsym(library, "cudaMalloc") + number;
}

static int start(void **state)
{
	if (!library)
		library = beside_load("bin/lib_stubs.so");
	atomic_store(&asked, 0);
	errno = 77;
	return 0;
}

/* Unload the library of caller_inside() and load it anew. */
static void unload(void)
{
	unsigned long long before = elf_loads(NULL, 0).unloaded;

	assert_int_equal(dlclose(library), 0);
	assert_int_equal(elf_loads(NULL, 0).unloaded, before + 1);
	library = beside_load("bin/lib_stubs.so");
	errno = 77;
}

static void nothing_found_is_not_remembered(void **state)
{
	struct route route = {.sequence = 0};
	static struct route routes[ROUTE_SLOTS];

	for (unsigned int i = 1; i < 4; i++) {
		assert_null(route_get(&route, 1, caller_of(1), "absent", find));
		assert_null(route_get(routes, ROUTE_SLOTS, caller_of(1), "absent", find));
		assert_int_equal(atomic_load(&asked), 2 * i);
	}
	assert_int_equal(errno, 77);
	/* nor does it replace what is cached */
	assert_non_null(route_get(&route, 1, caller_of(1), "present", find));
	assert_null(route_get(&route, 1, caller_of(2), "absent", find));
	atomic_store(&asked, 0);
	assert_non_null(route_get(&route, 1, caller_of(1), "present", find));
	assert_int_equal(atomic_load(&asked), 0);
}

#define COPIES 20 /* more libraries than a generation can depend on */

struct copy {
	void *library;
	int fd; /* open while it is loaded: the loader tells libraries apart by path */
};

static struct copy load_copy(void)
{
	struct copy copy = {.fd = memfd_create("lib_copy.so", MFD_CLOEXEC)};
	char path[64], part[4096];
	struct link_map *map;
	ssize_t size;
	int from;

	assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	from = open(map->l_name, O_RDONLY | O_CLOEXEC);
	assert_true(from >= 0 && copy.fd >= 0);
	while ((size = read(from, part, sizeof(part))) > 0)
		assert_int_equal(write(copy.fd, part, (size_t)size), size);
	close(from);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", copy.fd);
	copy.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(copy.library);
	return copy;
}

static void close_copy(struct copy copy)
{
	dlclose(copy.library);
	close(copy.fd);
}

static void stale_after_any_unload_where_many_are_remembered(void **state)
{
	struct route route[COPIES] = {0};
	const void *callers[COPIES];
	struct copy copies[COPIES];

	for (int i = 0; i < COPIES; i++) {
		copies[i] = load_copy();
		callers[i] = dlsym(copies[i].library, "cudaMalloc");
		assert_non_null(route_get(&route[i], 1, callers[i], "present", find));
	}
	assert_int_equal(dlclose(beside_load("bin/lib_stubs.so")), 0); /* it stays loaded */
	for (int i = 0; i < COPIES; i++)
		assert_non_null(route_read(&route[i], callers[i], unload_now()));
	close_copy(load_copy());
	for (int i = 0; i < COPIES; i++)
		assert_null(route_read(&route[i], callers[i], unload_now()));
	assert_non_null(route_get(&route[0], 1, callers[0], "present", find));
	for (int i = 1; i < COPIES; i++)
		close_copy(copies[i]);
	assert_non_null(route_read(&route[0], callers[0], unload_now()));
	close_copy(copies[0]);
	assert_null(route_read(&route[0], callers[0], unload_now()));
}

/* If a library is unloaded during the search, the answer is stale at once. */
static void *find_while_unloading(const void *caller, const char *symbol)
{
	unload();
	return find(caller, symbol);
}

static void unloaded_meanwhile(void **state)
{
	struct route route = {.sequence = 0};
	static struct route routes[ROUTE_SLOTS];

	for (unsigned int i = 1; i < 4; i++) {
		assert_non_null(
		    route_get(&route, 1, caller_of(1), "present", find_while_unloading));
		assert_non_null(
		    route_get(routes, ROUTE_SLOTS, caller_of(1), NULL, find_while_unloading));
		assert_int_equal(atomic_load(&asked), 2 * i);
	}
}

/* If the callers are fewer than the slots, nearly all stay cached. More callers evict one
 * another, and still get right answers. */
static void many_callers_in_few_slots(void **state)
{
	static struct route routes[ROUTE_SLOTS];

	for (int round = 0; round < 50; round++)
		for (uintptr_t i = 0; i < ROUTE_SLOTS / 4; i++)
			assert_ptr_equal(route_get(routes, ROUTE_SLOTS, caller_of(i), NULL, find),
					 target_of(caller_of(i)));
	assert_in_range(atomic_load(&asked), ROUTE_SLOTS / 4, ROUTE_SLOTS);
	for (int round = 0; round < 50; round++)
		for (uintptr_t i = 0; i < 10 * ROUTE_SLOTS; i++)
			assert_ptr_equal(route_get(routes, ROUTE_SLOTS, caller_of(i), NULL, find),
					 target_of(caller_of(i)));
	assert_int_equal(errno, 77);
	/* stale slots are used before valid ones are replaced */
	assert_non_null(route_get(routes, ROUTE_SLOTS, caller_inside(1), NULL, find));
	unload();
	atomic_store(&asked, 0);
	for (int round = 0; round < 3; round++)
		assert_non_null(route_get(routes, ROUTE_SLOTS, caller_of(5), NULL, find));
	assert_int_equal(atomic_load(&asked), 1);
}

static struct {
	struct route one;
	struct route many[ROUTE_SLOTS];
	atomic_bool stop;
} shared;

static void *hammer(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;
	uintptr_t wrong = 0;

	for (int i = 0; i < 200000; i++) {
		const void *caller = caller_of((uintptr_t)rand_r(&random) % 48);

		wrong += route_get(&shared.one, 1, caller, "present", find) != target_of(caller);
		wrong +=
		    route_get(shared.many, ROUTE_SLOTS, caller, NULL, find) != target_of(caller);
	}
	return (void *)wrong;
}

static void *keep_unloading(void *unused)
{
	while (!atomic_load(&shared.stop)) {
		dlclose(dlopen(NULL, RTLD_NOW));
		dlclose(beside_load("bin/lib_sysv.so"));
	}
	return NULL;
}

static void threads_hammer(void **state)
{
	pthread_t threads[3], unloader;
	void *wrong;

	assert_int_equal(pthread_create(&unloader, NULL, keep_unloading, NULL), 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	atomic_store(&shared.stop, true);
	pthread_join(unloader, NULL);
	/* no slot is left marked as being written */
	assert_int_equal(atomic_load(&shared.one.sequence) & 1, 0);
	for (int i = 0; i < ROUTE_SLOTS; i++)
		assert_int_equal(atomic_load(&shared.many[i].sequence) & 1, 0);
}

/* The C library unloads without a call of dlclose(), as after a dlopen() that fails. */
static void unloaded_by_the_c_library_alone(void **state)
{
	int (*real)(void *) = (int (*)(void *))driver_libc("dlclose");
	void *twice;
	unsigned long during;

	assert_int_equal(real(beside_load("bin/lib_sysv.so")), 0);
	twice = beside_load("bin/lib_sysv.so");
	assert_ptr_equal(beside_load("bin/lib_sysv.so"), twice);
	assert_int_equal(dlclose(twice), 0); /* unloads nothing */
	atomic_fetch_add(&unload_state, 1);  /* as the next dlclose() does */
	during = unload_generation();
	atomic_fetch_sub(&unload_state, 1);
	assert_int_equal(dlclose(twice), 0);
	assert_int_equal(during, unload_now());
}

#define STARTED(test) cmocka_unit_test_setup(test, start)
UNIT_MAIN(STARTED(nothing_found_is_not_remembered),
	  STARTED(stale_after_any_unload_where_many_are_remembered), STARTED(unloaded_meanwhile),
	  STARTED(many_callers_in_few_slots), STARTED(unloaded_by_the_c_library_alone),
	  STARTED(threads_hammer))
