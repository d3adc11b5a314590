/* SPDX-License-Identifier: MIT */
#include "shim_lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/shim_quiet.h"
#include "base/elf.h"
#include "shim_hooks.h"
#include "shim_process.h"
#include "shim_route.h"
#include "shim_state.h"
#include "shim_unload.h"

#define DRIVER_LIBRARY "libcuda.so"

/* One string: an array of pointers would need a relocation for each name in every process. */
#define F(since, version, name, params) #name "\0"
static const char driver_names[] = CUDA_ABI_CALLS(F);
#undef F
#define DRIVER_CALLS (sizeof(struct driver) / sizeof(void *))

/* Entries are never freed: another thread's call may still use one. */
_Atomic(struct lookup_library *) lookup_libraries[LOOKUP_HOOKED];
atomic_uint lookup_current;

#define NONE LOOKUP_HOOKED /* not an index */

static struct lookup_library *library_at(unsigned int which)
{
	return atomic_load_explicit(&lookup_libraries[which], memory_order_acquire);
}

/* Log once why allocations through the libcuda that holds `place` get no name. */
static void leave_alone(const void *place, const char *why, const char *more)
{
	static atomic_bool told;
	char path[256];

	if (atomic_exchange(&told, true))
		return;
	elf_path(place, path, sizeof(path));
	state_log("allocations through \"%s\" get no name: %s%s", path, why, more);
}

/* Find the libcuda at `base`, and store it as number `which`. Return `known` if that entry still
 * describes it, else a new entry. If another thread stores an entry first, return that one. NULL:
 * there is no usable libcuda at `base`, or no memory for the entry. */
static struct lookup_library *take_up(unsigned int which, struct lookup_library *known,
				      uintptr_t base)
{
	const struct unload_search search = unload_begin();
	struct lookup_library *made;
	struct driver driver;
	const char *missing;

	if (!elf_find_all(DRIVER_LIBRARY, base, driver_names, DRIVER_CALLS, &driver))
		return NULL;
	missing = driver_missing(&driver);
	if (missing) {
		leave_alone((const void *)base, "CUDA 11.8 or later is needed, and it has no ",
			    missing);
		return NULL;
	}
	if (!known || known->base != base || memcmp(&known->driver, &driver, sizeof(driver)) != 0) {
		made = malloc(sizeof(*made));
		if (!made)
			return NULL;
		*made = (struct lookup_library){driver, base, UNLOAD_UNKNOWN, false};
		if (!atomic_compare_exchange_strong(&lookup_libraries[which], &known, made)) {
			free(made);
			return known;
		}
		known = made;
	}
	if (unload_depend(&search, (const void *)driver.cuInit))
		atomic_store_explicit(&known->generation, search.generation, memory_order_relaxed);
	return known;
}

/* Check that library `which` is still loaded. If another libcuda is loaded at its address now,
 * return that one; NULL: there is none. */
static struct lookup_library *stand(unsigned int which)
{
	struct lookup_library *known = library_at(which);

	if (!known ||
	    atomic_load_explicit(&known->generation, memory_order_relaxed) == unload_generation())
		return known;
	return take_up(which, known, known->base);
}

static unsigned int find_hooked(uintptr_t base)
{
	unsigned int which = 0;
	const struct lookup_library *known;

	while (which < LOOKUP_HOOKED && (!(known = library_at(which)) || known->base != base))
		which++;
	return which;
}

/* Store the libcuda at `base`, if it is new, and return its index. NONE: two others are loaded, or
 * this one can't be used (take_up()). */
static unsigned int hook(uintptr_t base)
{
	unsigned int which = find_hooked(base);
	const struct lookup_library *taken;

	if (which != NONE && stand(which))
		return which;
	for (which = 0; which < LOOKUP_HOOKED; which++) {
		struct lookup_library *known = library_at(which);

		taken = known && stand(which) ? NULL : take_up(which, known, base);
		if (taken && taken->base == base)
			return which;
	}
	return NONE;
}

const struct driver *lookup_find_hooked(unsigned int which)
{
	const struct lookup_library *library = stand(which);

	return library ? &library->driver : NULL;
}

bool lookup_meet(const void *real)
{
	uintptr_t base;

	if (!elf_is_in(real, DRIVER_LIBRARY, &base))
		return false;
	if (state_is_active())
		hook(base);
	return true;
}

/* Has cuInit run in this libcuda? Once true, this stays true. */
static bool has_started(struct lookup_library *library)
{
	_quiet_ struct quiet quiet = quiet_enter();
	cu_context context;

	if (!atomic_load_explicit(&library->started, memory_order_relaxed) &&
	    library->driver.cuCtxGetCurrent(&context) == CU_OK)
		atomic_store_explicit(&library->started, true, memory_order_relaxed);
	return atomic_load_explicit(&library->started, memory_order_relaxed);
}

bool lookup_is_driver(unsigned int which)
{
	unsigned int before = atomic_load_explicit(&lookup_current, memory_order_relaxed);
	struct lookup_library *driver, *other;

	if (which == NONE || which == before)
		return which != NONE;
	other = stand(which);
	driver = stand(before);
	if (!other || (driver && (has_started(driver) || !has_started(other))))
		return false;
	atomic_compare_exchange_strong(&lookup_current, &before, which);
	return true;
}

static char library_numbers[LOOKUP_HOOKED + 1], not_in_one;

/* Returns which libcuda holds `real`, as a pointer into library_numbers; &not_in_one: none. */
static void *find_number(const void *real, const char *unused)
{
	uintptr_t base;

	(void)unused;
	return elf_is_in(real, DRIVER_LIBRARY, &base) ? &library_numbers[find_hooked(base)]
						      : &not_in_one;
}

bool lookup_is_in_other(const void *real)
{
	static struct route routes[ROUTE_SLOTS];
	const char *number = route_get(routes, ROUTE_SLOTS, real, NULL, find_number);
	unsigned int which = (unsigned int)(number - library_numbers);

	return number != &not_in_one && lookup_passes_by(which);
}

bool lookup_is_drivers(const void *place)
{
	return elf_is_in(place, DRIVER_LIBRARY, NULL);
}

/* Slow path of lookup_driver(). If the driver was unloaded or is unknown, take the first libcuda:
 * our exported entries would call that one too. */
static __attribute__((noinline)) const struct driver *find_driver(void)
{
	unsigned int before = atomic_load_explicit(&lookup_current, memory_order_relaxed), which;
	const struct lookup_library *known = stand(before);
	uintptr_t base;

	if (!known && elf_find_in(DRIVER_LIBRARY, "cuInit", &base)) {
		which = hook(base);
		known = which == NONE ? NULL : stand(which);
		if (known)
			atomic_compare_exchange_strong(&lookup_current, &before, which);
	}
	return known ? &known->driver : NULL;
}

const struct driver *lookup_driver(void)
{
	const struct lookup_library *known =
	    library_at(atomic_load_explicit(&lookup_current, memory_order_relaxed));

	return known && atomic_load_explicit(&known->generation, memory_order_relaxed) ==
			    unload_now()
		   ? &known->driver
		   : find_driver();
}

const struct driver *lookup_driver_to_end(void)
{
	return process_is_mine() && !process_is_ending() ? lookup_driver() : NULL;
}

static void *replace(void *pointer, unsigned int which)
{
	const struct lookup_library *known = library_at(which);

	if (!known)
		return pointer;
#define H(name, params, args) \
	if (pointer == (void *)known->driver.name) \
		return which ? (void *)second_##name : (void *)hook_##name;
	SHIM_HOOKS(H)
	if (state_publishes(PUBLISH_SYNC)) {
		SHIM_SYNC(H)
	}
#undef H
	return pointer;
}

void *lookup_replace(void *pointer)
{
	void *replaced = pointer;

	for (unsigned int which = 0; which < LOOKUP_HOOKED; which++)
		if (replaced == pointer && pointer && state_is_active())
			replaced = replace(pointer, which);
	return replaced;
}

/* Returns the hook for `found`, which lies in the libcuda at `base`. */
static void *replace_found(void *found, uintptr_t base)
{
	if (!state_is_active())
		return found;
	if (hook(base) != NONE)
		return lookup_replace(found);
	leave_alone(found, "it is the third libcuda in this process; let the program load fewer",
		    "");
	return found;
}

/* Is `symbol` one of our exports? All of them begin with cu[A-Z] or cudaM; other names are left to
 * the real dlsym at once. */
static bool is_ours_to_answer(const char *symbol)
{
	if (symbol[0] != 'c' || symbol[1] != 'u')
		return false;
#define H(name, ...) \
	if (!strcmp(symbol, #name)) \
		return true;
	if (symbol[2] >= 'A' && symbol[2] <= 'Z') {
		SHIM_HOOKS(H)
		SHIM_SYNC(H)
	} else if (!strncmp(symbol, "cudaM", 5)) {
		SHIM_RUNTIME(H)
	}
#undef H
	return false;
}

static bool is_ours(const void *pointer)
{
	Dl_info theirs, ours;

	return dladdr(pointer, &theirs) && dladdr((void *)(uintptr_t)is_ours, &ours) &&
	       theirs.dli_fbase == ours.dli_fbase;
}

typedef void *look_up(void *handle, const char *symbol);

/*
 * Find the next dlsym behind ours: that of another preloaded library, or the C library's. That
 * library was loaded with the program and is never unloaded. This function calls nothing but the
 * loader: a starting sanitizer looks up its own string functions through our dlsym, and an
 * interposed dl_iterate_phdr looks up the real one.
 */
static look_up *find_dlsym(void)
{
	static _Atomic(look_up *) known;
	look_up *found = atomic_load_explicit(&known, memory_order_acquire), *behind;

	if (found)
		return found;
	found = driver_real_dlsym();
	behind = found ? (look_up *)found(RTLD_NEXT, "dlsym") : NULL;
	if (behind)
		found = behind;
	atomic_store_explicit(&known, found, memory_order_release);
	return found;
}

static struct link_map *object_of(const void *caller)
{
	struct link_map *object = NULL;
	Dl_info info;

	return dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP) ? object : NULL;
}

/* Look `symbol` up for the caller, skipping our own exports. *out_masked: one was skipped. */
static void *find_real(look_up *real, void *handle, const char *symbol, const void *caller,
		       bool *out_masked)
{
	void *found = real(handle, symbol);
	struct link_map *object;

	*out_masked = found && is_ours(found);
	if (*out_masked)
		found = real(RTLD_NEXT, symbol);
	/* RTLD_DEFAULT means the caller's scope. For an RTLD_LOCAL plug-in, this scope includes its
	 * own dependencies: search those too. */
	object = !found && handle == RTLD_DEFAULT ? object_of(caller) : NULL;
	if (object && !is_ours(caller))
		found = real(object, symbol);
	return found && !is_ours(found) ? found : NULL;
}

/*
 * Only the shim defines `symbol`: return NULL, and leave the message in dlerror that the caller
 * would get without us. The scope may include the shim, so look up `symbol` with a space added: no
 * object defines that.
 */
static struct lookup_answer miss(look_up *real, void *handle, const char *symbol,
				 const void *caller)
{
	char absent[64];

	snprintf(absent, sizeof(absent), "%s ", symbol);
	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT)
		handle = object_of(caller);
	if (handle)
		real(handle, absent);
	return (struct lookup_answer){.value = NULL};
}

/* Would RTLD_NEXT find our export, and no other definition behind it? */
static bool is_only_ours(look_up *real, const char *symbol, const void *caller)
{
	const void *next = elf_find_after(caller, symbol);

	return next && is_ours(next) && !is_ours(caller) && !real(RTLD_NEXT, symbol);
}

static struct lookup_answer find(look_up *real, void *handle, const char *symbol,
				 const void *caller)
{
	const struct lookup_answer go_on = {.next = (void *)real};
	uintptr_t base;
	bool masked;
	void *found;

	if (handle == RTLD_NEXT)
		return is_only_ours(real, symbol, caller) ? miss(real, handle, symbol, caller)
							  : go_on;
	found = find_real(real, handle, symbol, caller, &masked);
	if (!found) /* if we skipped no export, the caller's own look-up fails too */
		return masked ? miss(real, handle, symbol, caller) : go_on;
	/* The driver's look-ups in itself are left alone. */
	if (elf_is_in(found, DRIVER_LIBRARY, &base) && !elf_is_in(caller, DRIVER_LIBRARY, NULL))
		found = replace_found(found, base);
	return (struct lookup_answer){.value = found};
}

struct lookup_answer lookup_dlsym(void *handle, const char *symbol, void *caller)
{
	look_up *real = find_dlsym();
	struct lookup_answer answer = {.next = (void *)real};
	int error;

	if (!symbol || !real || !is_ours_to_answer(symbol))
		return answer;
	error = errno;
	answer = find(real, handle, symbol, caller);
	errno = error;
	return answer;
}
