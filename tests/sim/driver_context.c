/* SPDX-License-Identifier: MIT */
/* Primary contexts, one a device, and each thread's stack of current ones. */
#include "driver_sim.h"

#define CONTEXT_DEPTH 64

struct cu_context_opaque {
	unsigned int references;
};

static struct cu_context_opaque contexts[SIM_DEVICES_MAX];
static _Thread_local struct {
	cu_context stack[CONTEXT_DEPTH];
	unsigned int depth;
} current;

static cu_context context_top(void)
{
	return current.depth ? current.stack[current.depth - 1] : NULL;
}

cu_result context_check(void)
{
	cu_context context = context_top();

	if (!context)
		return CU_INVALID_CONTEXT;
	return context->references ? CU_OK : CU_CONTEXT_IS_DESTROYED;
}

cu_device context_device(void)
{
	return (cu_device)(context_top() - contexts);
}

cu_context context_of(cu_device device)
{
	return &contexts[device];
}

static bool context_known(cu_context context)
{
	for (int i = 0; i < state.device_count; i++) {
		if (context == &contexts[i])
			return true;
	}
	return false;
}

static cu_result context_retain(cu_context *context, cu_device device)
{
	if (!context)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	contexts[device].references++;
	*context = &contexts[device];
	return CU_OK;
}

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
	ANSWER(cuDevicePrimaryCtxRetain, NEED_INIT, context_retain(context, device));
}

static cu_result context_release(cu_device device)
{
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	if (!contexts[device].references)
		return CU_INVALID_CONTEXT;
	if (!--contexts[device].references)
		memory_drop(device);
	return CU_OK;
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
	ANSWER(cuDevicePrimaryCtxRelease_v2, NEED_INIT, context_release(device));
}

cu_result cuDevicePrimaryCtxRelease(cu_device device)
{
	ANSWER(cuDevicePrimaryCtxRelease, NEED_INIT, context_release(device));
}

static cu_result context_state(cu_device device, unsigned int *flags, int *active)
{
	if (!flags || !active)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	STATE_LOCKED;
	*flags = 0;
	*active = contexts[device].references > 0;
	return CU_OK;
}

cu_result cuDevicePrimaryCtxGetState(cu_device device, unsigned int *flags, int *active)
{
	ANSWER(cuDevicePrimaryCtxGetState, NEED_INIT, context_state(device, flags, active));
}

static cu_result context_push(cu_context context)
{
	if (!context || !context_known(context))
		return CU_INVALID_CONTEXT;
	if (current.depth == CONTEXT_DEPTH)
		return CU_OUT_OF_MEMORY;
	current.stack[current.depth++] = context;
	return CU_OK;
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
	ANSWER(cuCtxPushCurrent_v2, NEED_INIT, context_push(context));
}

cu_result cuCtxPushCurrent(cu_context context)
{
	ANSWER(cuCtxPushCurrent, NEED_INIT, context_push(context));
}

static cu_result context_pop(cu_context *context)
{
	if (!current.depth)
		return CU_INVALID_CONTEXT;
	current.depth--;
	if (context)
		*context = current.stack[current.depth];
	return CU_OK;
}

cu_result cuCtxPopCurrent_v2(cu_context *context)
{
	ANSWER(cuCtxPopCurrent_v2, NEED_INIT, context_pop(context));
}

cu_result cuCtxPopCurrent(cu_context *context)
{
	ANSWER(cuCtxPopCurrent, NEED_INIT, context_pop(context));
}

static cu_result context_set(cu_context context)
{
	if (context && !context_known(context))
		return CU_INVALID_CONTEXT;
	if (current.depth)
		current.depth--;
	return context ? context_push(context) : CU_OK;
}

cu_result cuCtxSetCurrent(cu_context context)
{
	ANSWER(cuCtxSetCurrent, NEED_INIT, context_set(context));
}

static cu_result context_get(cu_context *context)
{
	if (!context)
		return CU_INVALID_VALUE;
	*context = context_top();
	return CU_OK;
}

cu_result cuCtxGetCurrent(cu_context *context)
{
	ANSWER(cuCtxGetCurrent, NEED_INIT, context_get(context));
}

static cu_result context_get_device(cu_device *device)
{
	if (!device)
		return CU_INVALID_VALUE;
	*device = context_device();
	return CU_OK;
}

cu_result cuCtxGetDevice(cu_device *device)
{
	ANSWER(cuCtxGetDevice, NEED_CONTEXT, context_get_device(device));
}

cu_result cuCtxSynchronize(void)
{
	ANSWER(cuCtxSynchronize, NEED_CONTEXT, CU_OK);
}
