/* SPDX-License-Identifier: MIT */
/* A context takes its memory along: what was named or attached in it ends with it. */
#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_lookup.h"
#include "shim_process.h"
#include "shim_scope.h"
#include "shim_share.h"

static bool is_concerned(void)
{
	return (live_any() || async_any()) && process_is_mine();
}

/* Mapped memory is no context's own: it would stay. */
static void forget(const struct driver *driver, cu_context context)
{
	struct live entry;

	async_forget(context);
	while (live_take_of(context, &entry)) {
		if (entry.kind == LIVE_VMM) {
			_scope_ struct scope scope = scope_enter(driver);

			(void)scope;
			attach_close(driver, &entry);
		}
		for (unsigned int i = 0; i < entry.count; i++)
			share_end(entry.name, entry.generation, entry.kind != LIVE_OWN);
	}
}

cu_result buffers_context_destroy(cu_cuCtxDestroy_v2_call *real, cu_context context)
{
	const struct driver *driver = is_concerned() ? lookup_driver() : NULL;

	if (driver && context)
		forget(driver, context);
	return real(context);
}

static bool is_active(const struct driver *driver, cu_device device)
{
	unsigned int flags;
	int active = 0;

	return driver->cuDevicePrimaryCtxGetState &&
	       driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == CU_OK && active;
}

/* The device's primary context, if there is one; its count is as it was. */
static cu_context primary_of(const struct driver *driver, cu_device device)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_context context = NULL;

	(void)scope;
	if (!is_active(driver, device) || !driver->cuDevicePrimaryCtxRetain ||
	    !driver->cuDevicePrimaryCtxRelease_v2 ||
	    driver->cuDevicePrimaryCtxRetain(&context, device) != CU_OK)
		return NULL;
	driver->cuDevicePrimaryCtxRelease_v2(device);
	return context;
}

cu_result buffers_primary_reset(cu_cuDevicePrimaryCtxReset_v2_call *real, cu_device device)
{
	const struct driver *driver = is_concerned() ? lookup_driver() : NULL;
	cu_context context = driver ? primary_of(driver, device) : NULL;

	if (context)
		forget(driver, context);
	return real(device);
}

/* Only the last release ends it, and which that is shows afterwards. */
cu_result buffers_primary_release(cu_cuDevicePrimaryCtxRelease_v2_call *real, cu_device device)
{
	const struct driver *driver = is_concerned() ? lookup_driver() : NULL;
	cu_context context = driver ? primary_of(driver, device) : NULL;
	cu_result result = real(device);

	if (context && result == CU_OK && !is_active(driver, device))
		forget(driver, context);
	return result;
}
