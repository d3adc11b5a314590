/* SPDX-License-Identifier: MIT */
#include "shim_lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim_elf.h"
#include "shim_hooks.h"
#include "shim_route.h"
#include "shim_state.h"
#include "shim_unload.h"

#define DRIVER_LIBRARY "libcuda.so"

/* No array of pointers: each would be relocated in every process. */
#define F(since, version, name, params) #name "\0"
static const char driver_names[] = CUDA_ABI_CALLS(F);
#undef F
#define DRIVER_CALLS (sizeof(struct driver) / sizeof(void *))

/*
 * The driver table of one loaded libcuda: the first that the program looked up in, or whose call it
 * made. Never freed: a call may be on its way through it.
 */
struct loaded {
	struct driver driver;
	uintptr_t base;
	atomic_ulong generation; /* shim_unload.h: in which it is known to stand there */
};

static _Atomic(struct loaded *) current;
atomic_bool lookup_has_rival;

static struct loaded *loaded_new(uintptr_t base, const struct driver *driver)
{
	struct loaded *made = malloc(sizeof(*made));

	if (!made)
		return NULL;
	made->driver = *driver;
	made->base = base;
	atomic_init(&made->generation, UNLOAD_UNKNOWN);
	return made;
}

/* One load and a comparison, in every call of the program. */
static inline bool is_known_to_stand(const struct loaded *known)
{
	return atomic_load_explicit(&known->generation, memory_order_relaxed) == unload_now();
}

/* The libcuda at `base`: `known`, if it is the one, else another one that takes its place; or what another thread
 * put there first. NULL: none is there. */
static struct loaded *take_up(struct loaded *known, uintptr_t base)
{
	const struct unload_search search = unload_begin();
	struct driver driver;
	struct loaded *made;

	if (!elf_find_all(DRIVER_LIBRARY, base, driver_names, DRIVER_CALLS, &driver))
		return NULL;
	if (!known || known->base != base || memcmp(&known->driver, &driver, sizeof(driver)) != 0) {
		made = loaded_new(base, &driver);
		if (!made)
			return NULL;
		if (!atomic_compare_exchange_strong(&current, &known, made)) {
			free(made);
			return known;
		}
		known = made;
	}
	if (unload_depend_on(&search, base))
		atomic_store_explicit(&known->generation, search.generation, memory_order_relaxed);
	return known;
}

/* `known`, or another one that stands where it stood; NULL if none does. */
static struct loaded *stand(struct loaded *known)
{
	if (!known ||
	    atomic_load_explicit(&known->generation, memory_order_relaxed) == unload_generation())
		return known;
	return take_up(known, known->base);
}

/* True: calls into the libcuda at `base` are the ones that hooks go on to. */
static bool takes_calls(uintptr_t base)
{
	static atomic_bool told;
	struct loaded *before = atomic_load_explicit(&current, memory_order_acquire);
	struct loaded *known = stand(before);
	uintptr_t first;

	if (!known) {
		/* Our exports go on to the first one. */
		if (!elf_find_in(DRIVER_LIBRARY, "cuInit", &first) || first != base)
			atomic_store_explicit(&lookup_has_rival, true, memory_order_relaxed);
		known = take_up(before, base);
	}
	if (known && known->base != base && state_is_active() && !atomic_exchange(&told, true))
		state_log("another libcuda is loaded beside the one that the program has used: "
			  "allocations through it get no name");
	return known && known->base == base;
}

/* Where the libcuda is loaded that holds `real`; something else if none does. */
static void *find_base(const void *real, const char *unused)
{
	uintptr_t base;

	(void)unused;
	return elf_is_in(real, DRIVER_LIBRARY, &base) ? (void *)base : (void *)&current;
}

bool lookup_is_rival(const void *real)
{
	static struct routes routes;
	const struct loaded *known = atomic_load_explicit(&current, memory_order_acquire);
	const void *base = known ? routes_get(&routes, real, NULL, find_base) : NULL;

	return base && base != (const void *)&current && (uintptr_t)base != known->base;
}

bool lookup_is_drivers(const void *place)
{
	return elf_is_in(place, DRIVER_LIBRARY, NULL);
}

static __attribute__((noinline)) const struct driver *find_driver(struct loaded *before)
{
	struct loaded *known = stand(before);
	uintptr_t base;

	if (!known && elf_find_in(DRIVER_LIBRARY, "cuInit", &base))
		known = take_up(before, base);
	return known ? &known->driver : NULL;
}

const struct driver *lookup_driver(void)
{
	struct loaded *known = atomic_load_explicit(&current, memory_order_acquire);

	return known && is_known_to_stand(known) ? &known->driver : find_driver(known);
}

void *lookup_replace(void *pointer)
{
	const struct loaded *known = atomic_load_explicit(&current, memory_order_acquire);

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

/* The names that we export and a program may look up: cu[A-Z] or cudaM; all else goes on at once. */
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
 * What would have answered without us: a dlsym of somebody's who was preloaded too, or the C
 * library's own. It came with the program and is never unloaded. Nothing but the loader is called: a
 * sanitizer that starts up looks its own string functions up through us, and an interposed
 * dl_iterate_phdr its real one.
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

/* The real look-up as the caller would have made it, our own exports looked through: `masked` says
 * that there was one. */
static void *find_real(look_up *real, void *handle, const char *symbol, const void *caller,
		       bool *out_masked)
{
	void *found = real(handle, symbol);
	struct link_map *object;

	*out_masked = found && is_ours(found);
	if (*out_masked)
		found = real(RTLD_NEXT, symbol);
	/* RTLD_DEFAULT means the caller's scope: an RTLD_LOCAL plug-in sees its own dependencies. */
	object = !found && handle == RTLD_DEFAULT ? object_of(caller) : NULL;
	if (object && !is_ours(caller))
		found = real(object, symbol);
	return found && !is_ours(found) ? found : NULL;
}

/*
 * Nobody but us has it: NULL, and a message in dlerror as the caller would have got it. For the
 * program's own scope, where we are, that takes a name which we don't have: a space is added.
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

/* Is our export what RTLD_NEXT would find, and nothing behind it in the same scope? */
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
	if (!found) /* a miss that is not of our making is the caller's to make again */
		return masked ? miss(real, handle, symbol, caller) : go_on;
	/* The driver's look-ups in itself stay its own. */
	if (elf_is_in(found, DRIVER_LIBRARY, &base) && !elf_is_in(caller, DRIVER_LIBRARY, NULL) &&
	    takes_calls(base))
		found = lookup_replace(found);
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
