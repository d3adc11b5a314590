/* SPDX-License-Identifier: MIT */
#include "shim_lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf.h"
#include "shim_hooks.h"
#include "shim_process.h"
#include "shim_state.h"
#include "shim_unload.h"

#define DRIVER_LIBRARY "libcuda.so"

/* One string: an array of pointers would need a relocation for each name in every process. */
#define F(since, version, name, params) #name "\0"
static const char driver_names[] = CUDA_ABI_CALLS(F);
#undef F
#define DRIVER_CALLS (sizeof(struct driver) / sizeof(void *))

/* Entries are never freed: another thread's call may still use one. */
_Atomic(struct lookup_library *) lookup_library;

/* Log once why allocations through the libcuda that holds `place` get no name. `missing`: a call
 * that it lacks; NULL: it is not the driver. */
static void leave_alone(const void *place, const char *missing)
{
	static atomic_bool told;
	char path[256];

	if (atomic_exchange(&told, true))
		return;
	elf_path(place, path, sizeof(path));
	if (missing)
		state_log(
		    "allocations through \"%s\" get no name: CUDA 11.8 or later is needed, and "
		    "it has no %s",
		    path, missing);
	else
		state_log(
		    "allocations through \"%s\" get no name: it is the second libcuda in this "
		    "process; let the program load one",
		    path);
}

/* Make the libcuda at `base` the driver: `known` if that is the same one, else a new entry. If
 * another thread stores one first, return that. NULL: there is no libcuda at `base`, or there is no
 * memory for the entry. */
static struct lookup_library *take_up(struct lookup_library *known, uintptr_t base)
{
	const struct unload_search search = unload_begin();
	struct lookup_library *made;
	struct driver driver;
	const char *missing;

	if (!elf_find_all(DRIVER_LIBRARY, base, driver_names, DRIVER_CALLS, &driver))
		return NULL;
	missing = driver_missing(&driver);
	if (missing) {
		leave_alone((const void *)base, missing);
		return NULL;
	}
	if (!known || known->base != base || memcmp(&known->driver, &driver, sizeof(driver)) != 0) {
		made = malloc(sizeof(*made));
		if (!made)
			return NULL;
		*made = (struct lookup_library){driver, base, UNLOAD_UNKNOWN};
		if (!atomic_compare_exchange_strong(&lookup_library, &known, made)) {
			free(made);
			return known;
		}
		known = made;
	}
	if (unload_depend(&search, (const void *)driver.cuInit))
		atomic_store_explicit(&known->generation, search.generation, memory_order_relaxed);
	return known;
}

/* The libcuda that is loaded now at the address of the latest driver; NULL: none. */
static struct lookup_library *stand(void)
{
	struct lookup_library *known = atomic_load_explicit(&lookup_library, memory_order_acquire);

	if (!known ||
	    atomic_load_explicit(&known->generation, memory_order_relaxed) == unload_generation())
		return known;
	return take_up(known, known->base);
}

/* Is the libcuda at `base` the driver? It becomes the driver if none is loaded. */
static bool is_driver(uintptr_t base)
{
	const struct lookup_library *driver = stand();

	if (!driver)
		driver = take_up(atomic_load(&lookup_library), base);
	return driver && driver->base == base;
}

bool lookup_meet(const void *real)
{
	uintptr_t base;

	if (!elf_is_in(real, DRIVER_LIBRARY, &base))
		return false;
	if (state_is_active() && !is_driver(base))
		leave_alone(real, NULL);
	return true;
}

bool lookup_is_drivers(const void *place)
{
	return elf_is_in(place, DRIVER_LIBRARY, NULL);
}

/* If the driver was unloaded or is unknown, take the first libcuda: our exported entries would call
 * that one too. */
const struct driver *lookup_find_driver(void)
{
	const struct lookup_library *driver = stand();
	uintptr_t base;

	if (!driver && elf_find_in(DRIVER_LIBRARY, "cuInit", &base))
		driver = take_up(atomic_load(&lookup_library), base);
	return driver ? &driver->driver : NULL;
}

const struct driver *lookup_driver_to_end(void)
{
	return process_is_mine() && !process_is_ending() ? lookup_driver() : NULL;
}

void *lookup_replace(void *pointer)
{
	const struct lookup_library *known =
	    atomic_load_explicit(&lookup_library, memory_order_acquire);

	if (!known || !pointer || !state_is_active())
		return pointer;
#define H(name, params, args) \
	if (pointer == (void *)known->driver.name) \
		return (void *)hook_##name;
	SHIM_HOOKS(H)
	if (state_publishes(PUBLISH_SYNC)) {
		SHIM_SYNC(H)
	}
#undef H
	return pointer;
}

/* Returns the hook for `found`, which lies in the libcuda at `base`. */
static void *replace_found(void *found, uintptr_t base)
{
	if (!state_is_active())
		return found;
	if (is_driver(base))
		return lookup_replace(found);
	leave_alone(found, NULL);
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
	/* RTLD_DEFAULT is the caller's scope: an RTLD_LOCAL plug-in sees its own dependencies. */
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
