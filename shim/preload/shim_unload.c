/* SPDX-License-Identifier: MIT */
#include "shim_unload.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "base/elf.h"
#include "shim_hooks.h"

#define OBJECTS 16 /* dependencies; with more, each unload ends the generation */

atomic_ulong unload_state;

static atomic_ulong closes;		    /* calls of dlclose that have begun */
static atomic_ullong settled;		    /* unloads in elf_loads() that dlclose has handled */
static _Atomic(uintptr_t) objects[OBJECTS]; /* load addresses of dependencies; 0: free */
static atomic_bool crowded;		    /* there are more than OBJECTS dependencies */

unsigned long unload_generation(void)
{
	unsigned long now = unload_now();

	if (!(now & UNLOAD_CLOSING))
		return now;
	if (elf_loads(NULL, 0).unloaded != atomic_load(&settled))
		return UNLOAD_UNKNOWN;
	return unload_now() & ~UNLOAD_CLOSING;
}

struct unload_search unload_begin(void)
{
	struct unload_search search = {.closes = atomic_load(&closes)};

	search.generation = unload_now();
	return search;
}

static void add_object(uintptr_t base)
{
	for (size_t i = 0; i < OBJECTS; i++) {
		uintptr_t is = 0;

		if (atomic_compare_exchange_strong(&objects[i], &is, base) || is == base)
			return;
	}
	atomic_store(&crowded, true);
}

bool unload_depend(const struct unload_search *search, const void *address)
{
	uintptr_t base = 0;

	if (search->generation & UNLOAD_CLOSING)
		return false;
	elf_is_in(address, NULL, &base);
	if (base) /* base 0 is the program itself, which is never unloaded */
		add_object(base);
	return atomic_load(&closes) == search->closes;
}

/* The next dlclose behind ours: another preloaded library's, or the C library's. */
static int (*find_dlclose(void))(void *)
{
	void *(*look_up)(void *, const char *) = driver_real_dlsym();
	void *behind = look_up ? look_up(RTLD_NEXT, "dlclose") : NULL;

	return (int (*)(void *))(behind ? behind : driver_libc("dlclose"));
}

/*
 * Are all objects that cached addresses depend on still loaded? False also if anything was loaded
 * meanwhile: it may have the load address of one that was unloaded.
 */
static bool all_stand(const struct elf_loads *before)
{
	uintptr_t bases[OBJECTS];
	struct elf_loads now;
	size_t count = 0;

	if (atomic_load(&crowded))
		return false;
	for (size_t i = 0; i < OBJECTS; i++) {
		bases[count] = atomic_load(&objects[i]);
		count += bases[count] != 0;
	}
	now = elf_loads(bases, count);
	for (size_t i = 0; i < count; i++)
		if (bases[i])
			return false;
	return now.loaded == before->loaded;
}

/* A search that overlaps this doesn't cache its result, so the objects that it adds may be lost. */
static void begin_generation(void)
{
	atomic_fetch_add(&unload_state, UNLOAD_CLOSING + 1);
	for (size_t i = 0; i < OBJECTS; i++)
		atomic_store(&objects[i], 0);
	atomic_store(&crowded, false);
}

static void look_behind(const struct elf_loads *before)
{
	unsigned long long unloaded = elf_loads(NULL, 0).unloaded;

	if (unloaded == before->unloaded)
		return;
	if (!all_stand(before))
		begin_generation();
	atomic_store(&settled, unloaded);
}

SHIM_EXPORT int dlclose(void *handle)
{
	static _Atomic(int (*)(void *)) known;
	int (*real)(void *) = atomic_load_explicit(&known, memory_order_acquire);
	struct elf_loads before;
	bool first;
	int result;

	if (!real) {
		real = find_dlclose();
		if (!real)
			return -1;
		atomic_store_explicit(&known, real, memory_order_release);
	}
	before = elf_loads(NULL, 0);
	/* In this order, because unload_begin() reads them in the opposite order. */
	first = !(atomic_fetch_add(&unload_state, 1) & UNLOAD_CLOSING);
	atomic_fetch_add(&closes, 1);
	if (first) /* no other dlclose() runs, so all earlier unloads are handled */
		atomic_store(&settled, before.unloaded);
	result = real(handle);
	look_behind(&before);
	atomic_fetch_sub(&unload_state, 1);
	return result;
}
