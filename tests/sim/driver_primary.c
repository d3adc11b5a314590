/* SPDX-License-Identifier: MIT */
/* Primary contexts, one per device. A context is active while it is retained and was not reset. */
#include "driver_sim.h"

static struct cu_context_opaque primaries[SIM_DEVICES_MAX];

cu_context primary_of(cu_device device)
{
	return &primaries[device];
}

bool primary_is(cu_context context)
{
	for (int i = 0; i < state.device_count; i++) {
		if (context == &primaries[i])
			return true;
	}
	return false;
}

CALL(cuDevicePrimaryCtxRetain, NEED_INIT, (cu_context * context, cu_device device),
     (context, device))
{
	if (!context)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	primaries[device].device = device;
	primaries[device].references++;
	primaries[device].active = true;
	*context = &primaries[device];
	return CU_OK;
}

/* Threads that have the context current keep it. The next retain makes the same context usable
 * again. */
static void primary_end(cu_device device)
{
	context_end(&primaries[device]);
	block_empty_cache(device);
	address_again();
}

CALL_LOGGED(cuDevicePrimaryCtxRelease_v2, NEED_INIT, (cu_device device), (device), 0, 0)
{
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	if (!primaries[device].references)
		return CU_INVALID_CONTEXT;
	if (!--primaries[device].references)
		primary_end(device);
	return CU_OK;
}

cu_result cuDevicePrimaryCtxRelease(cu_device device)
{
	ANSWER_LOGGED(cuDevicePrimaryCtxRelease, NEED_INIT,
		      cuDevicePrimaryCtxRelease_v2_answer(device), 0, 0);
}

/* Release everything in the context, but keep its reference count: each retain still needs its
 * release. */
CALL_LOGGED(cuDevicePrimaryCtxReset_v2, NEED_INIT, (cu_device device), (device), 0, 0)
{
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	primary_end(device);
	return CU_OK;
}

cu_result cuDevicePrimaryCtxReset(cu_device device)
{
	ANSWER_LOGGED(cuDevicePrimaryCtxReset, NEED_INIT, cuDevicePrimaryCtxReset_v2_answer(device),
		      0, 0);
}

CALL(cuDevicePrimaryCtxGetState, NEED_INIT, (cu_device device, unsigned int *flags, int *active),
     (device, flags, active))
{
	if (!flags || !active)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	*flags = 0;
	*active = primaries[device].active;
	return CU_OK;
}
