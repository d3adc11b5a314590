/* SPDX-License-Identifier: MIT */
/* When a context ends, its memory ends too, and so do the names and attachments of that memory. */
#include <stdlib.h>
#include <utlist.h>

#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_linger.h"
#include "shim_lookup.h"
#include "shim_process.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"
#include "shim_site.h"

/* Return NULL if the end of a context can't concern the shim. Otherwise return the driver, and
 * disable cancellation of this thread until the hook returns. */
static const struct driver *concerned_driver(void)
{
	if (!(live_any() || async_any() || deferred_any(&linger_list)) || !process_is_mine())
		return NULL;
	site_guard();
	return lookup_driver();
}

/* Before the context ends, take the program's own memory out of the live table and withdraw its
 * names. */
static struct live_ended *end_names(cu_context context)
{
	_quiet_ struct quiet quiet = quiet_enter();
	struct live_ended *own = live_take_of(context, true), *each;

	LL_FOREACH (own, each) {
		share_end(each->entry.name, each->entry.generation);
	}
	return own;
}

/* The context stays: share the memory of the list again. Free the list. */
static void share_all(const struct driver *driver, cu_context context, struct live_ended *own)
{
	_scope_ struct scope scope = scope_enter(driver);
	struct live_ended *each, *next;

	scope_push(&scope, context);
	LL_FOREACH_SAFE (own, each, next) {
		share_again(driver, &each->entry);
		free(each);
	}
}

/* The context has ended, and GPU work on its memory with it. Unmap the mapped memory of the list,
 * which belongs to no context, and end the list's attachments. Free the list. */
static void end_all(const struct driver *driver, struct live_ended *list)
{
	_quiet_ struct quiet quiet = quiet_enter();
	struct live_ended *each, *next;

	LL_FOREACH_SAFE (list, each, next) {
		struct live *entry = &each->entry;

		entry->context = NULL; /* CUDA crashes if it is given a destroyed context */
		if (live_is_mapped(entry))
			attach_close(driver, entry);
		if (entry->kind == LIVE_OPENED)
			entry->count = 1; /* one attachment, even if opened more often */
		for (unsigned int i = 0; !live_is_own(entry) && i < entry->count; i++)
			share_left(entry);
		free(each);
	}
}

struct ending {
	const struct driver *driver; /* NULL: the shim is not concerned */
	cu_context context;
	struct live_ended *own;
	struct pending *waiting;	  /* frees in stream order */
	struct deferred_entry *lingering; /* deferred frees */
};

static struct ending begin(const struct driver *driver, cu_context context)
{
	struct ending ending = {.driver = context ? driver : NULL, .context = context};

	if (!ending.driver)
		return ending;
	ending.waiting = async_take_of(context);
	ending.lingering = deferred_take_of(&linger_list, context);
	ending.own = end_names(context);
	return ending;
}

static cu_result conclude(const struct ending *ending, cu_result result)
{
	if (!ending->driver)
		return result;
	if (result != CU_OK) {
		if (ending->own)
			share_all(ending->driver, ending->context, ending->own);
		async_return(ending->waiting);
		deferred_return(&linger_list, ending->lingering);
		return result;
	}
	async_end(ending->driver, ending->context, ending->waiting);
	linger_end(ending->lingering);
	end_all(ending->driver, ending->own);
	end_all(ending->driver, live_take_of(ending->context, false));
	return result;
}

cu_result buffers_context_destroy(cu_cuCtxDestroy_v2_call *real, cu_context context)
{
	const struct ending ending = begin(concerned_driver(), context);

	return conclude(&ending, real(context));
}

static bool is_active(const struct driver *driver, cu_device device)
{
	unsigned int flags;
	int active = 0;

	return driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == CU_OK && active;
}

/* Return the device's primary context; NULL: there is none. Its reference count stays unchanged. */
static cu_context primary_of(const struct driver *driver, cu_device device)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_context context = NULL;

	if (!is_active(driver, device) ||
	    driver->cuDevicePrimaryCtxRetain(&context, device) != CU_OK)
		return NULL;
	driver->cuDevicePrimaryCtxRelease_v2(device);
	return context;
}

cu_result buffers_primary_reset(cu_cuDevicePrimaryCtxReset_v2_call *real, cu_device device)
{
	const struct driver *driver = concerned_driver();
	const struct ending ending = begin(driver, driver ? primary_of(driver, device) : NULL);

	return conclude(&ending, real(device));
}

/* Only the last release ends the context. Whether this release was the last shows only after the
 * call. */
cu_result buffers_primary_release(cu_cuDevicePrimaryCtxRelease_v2_call *real, cu_device device)
{
	const struct driver *driver = concerned_driver();
	cu_context context = driver ? primary_of(driver, device) : NULL;
	cu_result result = real(device);
	struct ending ending;

	if (!context || result != CU_OK || is_active(driver, device))
		return result;
	ending = begin(driver, context);
	return conclude(&ending, result);
}
