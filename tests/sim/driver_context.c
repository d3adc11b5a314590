/* SPDX-License-Identifier: MIT */
/* Contexts, and each thread's stack of current ones. */

#include "driver_stream.h"

#define CONTEXT_DEPTH 64
#define CONTEXT_FLAGS 0xffu

/* Contexts that programs created. A destroyed context stays in the list: no other context may get
 * its address while a thread still has it current. */
static cu_context contexts;
static _Thread_local struct {
	cu_context stack[CONTEXT_DEPTH];
	unsigned int depth;
} current;

cu_context context_current(void)
{
	return current.depth ? current.stack[current.depth - 1] : NULL;
}

cu_result context_check(void)
{
	cu_context context = context_current();

	if (!context)
		return CU_INVALID_CONTEXT;
	return context->active ? CU_OK : CU_CONTEXT_IS_DESTROYED;
}

cu_device context_device(void)
{
	return context_current()->device;
}

/* Destroyed ones included. */
static cu_context context_find(cu_context context)
{
	cu_context made = contexts;

	while (made && made != context)
		made = made->next;
	return made;
}

static bool context_made(cu_context context)
{
	cu_context made = context_find(context);

	return made && made->active;
}

/* A real driver crashes if it is given a destroyed context. */
static bool context_known(cu_context context)
{
	STATE_LOCKED;
	if (primary_is(context) || context_made(context))
		return true;
	if (context_find(context))
		raise(SIGSEGV);
	return false;
}

static void context_drop(struct region *region)
{
	switch (region->kind) {
	case REGION_DEVICE:
	case REGION_ASYNC:
		memory_release(region);
		return;
	case REGION_MANAGED:
	case REGION_HOST:
		host_free(region);
		return;
	case REGION_IMPORT:
		ipc_release(region);
		return;
	case REGION_REGISTERED:
	case REGION_MAPPED:
		region_remove(region);
	}
}

/* Release everything that was made in the context. Under the lock. */
void context_end(cu_context context)
{
	struct region *region;

	context->active = false;
	stream_end(context);
	event_end(context);
	while ((region = region_first_of(context)))
		context_drop(region);
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

CALL(cuCtxCreate_v2, NEED_INIT, (cu_context * context, unsigned int flags, cu_device device),
     (context, flags, device))
{
	if (!context || (flags & ~CONTEXT_FLAGS))
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	cu_context made = calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	made->device = device;
	made->active = true;
	int cancelling = state_lock();
	made->next = contexts;
	contexts = made;
	state_unlock(&cancelling);
	*context = made;
	return context_push(made);
}

/* A primary context is refused. The context is popped if it is current in the calling thread; other
 * threads keep it on their stack. */
CALL_LOGGED(cuCtxDestroy_v2, NEED_INIT, (cu_context context), (context), (uintptr_t)context, 0)
{
	STATE_LOCKED;
	if (!context_made(context))
		return CU_INVALID_CONTEXT;
	context_end(context);
	if (context_current() == context)
		current.depth--;
	return CU_OK;
}

cu_result cuCtxDestroy(cu_context context)
{
	ANSWER_LOGGED(cuCtxDestroy, NEED_INIT, cuCtxDestroy_v2_answer(context), (uintptr_t)context,
		      0);
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
	ANSWER(cuCtxPushCurrent_v2, NEED_INIT, context_push(context));
}

CALL(cuCtxPopCurrent_v2, NEED_INIT, (cu_context * context), (context))
{
	if (!current.depth)
		return CU_INVALID_CONTEXT;
	current.depth--;
	if (context)
		*context = current.stack[current.depth];
	return CU_OK;
}

CALL(cuCtxSetCurrent, NEED_INIT, (cu_context context), (context))
{
	if (context && !context_known(context))
		return CU_INVALID_CONTEXT;
	if (current.depth)
		current.depth--;
	return context ? context_push(context) : CU_OK;
}

CALL(cuCtxGetCurrent, NEED_INIT, (cu_context * context), (context))
{
	if (!context)
		return CU_INVALID_VALUE;
	*context = context_current();
	return CU_OK;
}

CALL(cuCtxGetDevice, NEED_CONTEXT, (cu_device * device), (device))
{
	if (!device)
		return CU_INVALID_VALUE;
	*device = context_device();
	return CU_OK;
}

CALL(cuCtxSynchronize, NEED_CONTEXT, (void), ())
{
	cu_result result = capture_conflict(context_current());

	if (result == CU_OK) {
		wait_for_all();
		pool_synchronize(NULL);
	}
	return result;
}

/* The call waits for the work of all contexts, whatever `context` is. */
cu_result cuCtxSynchronize_v2(cu_context context)
{
	ANSWER(cuCtxSynchronize_v2, NEED_CONTEXT, cuCtxSynchronize_answer());
}
