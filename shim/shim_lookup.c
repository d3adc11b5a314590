/* SPDX-License-Identifier: MIT */
#include "shim_lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim_elf.h"
#include "shim_hooks.h"
#include "shim_state.h"
#include "shim_unload.h"

#define DRIVER_LIBRARY "libcuda.so"

/* The driver table of one loaded libcuda. Never freed: a call may be on its way through it. */
struct loaded {
	struct driver driver;
	uintptr_t base;
	atomic_uint unloads; /* when it was last known to stand there */
};

static _Atomic(struct loaded *) current;

static struct loaded *loaded_new(uintptr_t base)
{
	struct loaded *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->base = base;
#define F(since, version, name, params) \
	made->driver.name = (cu_##name##_call *)elf_find_in(DRIVER_LIBRARY, #name, NULL);
	CUDA_ABI_CALLS(F)
#undef F
	return made;
}

/* libcuda stands at `base` now: the table for it. It may have been closed and opened elsewhere. */
static const struct loaded *loaded_at(uintptr_t base, unsigned int unloads)
{
	struct loaded *known = atomic_load_explicit(&current, memory_order_acquire);
	struct loaded *made;

	if (known && known->base == base) {
		atomic_store_explicit(&known->unloads, unloads, memory_order_relaxed);
		return known;
	}
	made = loaded_new(base);
	if (!made)
		return NULL;
	atomic_init(&made->unloads, unloads);
	if (atomic_compare_exchange_strong(&current, &known, made))
		return made;
	free(made); /* another thread was first */
	return known;
}

const struct driver *lookup_driver(void)
{
	struct loaded *known = atomic_load_explicit(&current, memory_order_acquire);
	unsigned int unloads = unload_count();
	uintptr_t base;

	if (known && atomic_load_explicit(&known->unloads, memory_order_relaxed) == unloads)
		return &known->driver;
	if (!elf_find_in(DRIVER_LIBRARY, "cuInit", &base))
		return NULL;
	return (const struct driver *)loaded_at(base, unloads);
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

/* The real look-up as the caller would have made it, our own exports looked through: `masked` says
 * that there was one. */
static void *find_real(void *(*real)(void *, const char *), void *handle, const char *symbol,
		       const void *caller, bool *out_masked)
{
	void *found = real(handle, symbol);
	struct link_map *object;
	Dl_info info;

	*out_masked = found && is_ours(found);
	if (*out_masked)
		found = real(RTLD_NEXT, symbol);
	/* RTLD_DEFAULT means the caller's scope: an RTLD_LOCAL plug-in sees its own dependencies. */
	if (!found && handle == RTLD_DEFAULT &&
	    dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP) && object && !is_ours(caller))
		found = real(object, symbol);
	return found && !is_ours(found) ? found : NULL;
}

struct lookup_answer lookup_dlsym(void *handle, const char *symbol, void *caller)
{
	void *(*real)(void *, const char *) = driver_real_dlsym();
	const struct lookup_answer go_on = {.next = (void *)real};
	struct lookup_answer answer = {.value = NULL};
	uintptr_t base;
	bool masked;
	void *found;
	int error;

	if (!symbol || handle == RTLD_NEXT || !real || !is_ours_to_answer(symbol))
		return go_on;
	error = errno;
	found = find_real(real, handle, symbol, caller, &masked);
	if (!found) {
		errno = error;
		/* Our export would answer where no driver is loaded: the miss stands, and dlerror has
		 * it. Other misses are the caller's to make again. */
		return masked ? answer : go_on;
	}
	answer.value = found;
	/* The driver's look-ups in itself stay its own. */
	if (elf_is_in(found, DRIVER_LIBRARY, &base) && loaded_at(base, unload_count()) &&
	    !elf_is_in(caller, DRIVER_LIBRARY, NULL))
		answer.value = lookup_replace(found);
	errno = error;
	return answer;
}
