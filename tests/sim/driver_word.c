/* SPDX-License-Identifier: MIT */
/* Stream memory operations and host functions, and graphs made of these and of copies. */

#include <utlist.h>

#include "driver_work.h"

/* `width` is 4 or 8 bytes. CU_WAIT_GEQ compares by the sign of the difference. */
static cu_result word_wait(cu_stream stream, uint64_t address, uint64_t value, unsigned int width,
			   unsigned int flags)
{
	struct op op = {.kind = OP_WAIT, .to = address, .value = value, .width = width};

	if (address % width)
		return CU_INVALID_VALUE;
	if (flags != CU_WAIT_GEQ || (width == 8 && !state.stream_words))
		return CU_NOT_SUPPORTED;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	if (!region_covers(address, width, CU_ACCESS_READ))
		return CU_INVALID_VALUE;
	return work_submit(found, &op);
}

cu_result cuStreamWaitValue32_v2(cu_stream stream, cu_deviceptr address, uint32_t value,
				 unsigned int flags)
{
	ANSWER(cuStreamWaitValue32_v2, NEED_CONTEXT, word_wait(stream, address, value, 4, flags));
}

cu_result cuStreamWaitValue64_v2(cu_stream stream, cu_deviceptr address, cu_uint64 value,
				 unsigned int flags)
{
	ANSWER(cuStreamWaitValue64_v2, NEED_CONTEXT, word_wait(stream, address, value, 8, flags));
}

CALL(cuStreamWriteValue64_v2, NEED_CONTEXT,
     (cu_stream stream, cu_deviceptr address, cu_uint64 value, unsigned int flags),
     (stream, address, value, flags))
{
	struct op op = {.kind = OP_WRITE, .to = address, .value = value};

	if (address % sizeof(value))
		return CU_INVALID_VALUE;
	if (flags || !state.stream_words)
		return CU_NOT_SUPPORTED;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	if (!region_covers(address, sizeof(value), CU_ACCESS_READ_WRITE))
		return CU_INVALID_VALUE;
	return work_submit(found, &op);
}

CALL(cuLaunchHostFunc, NEED_CONTEXT, (cu_stream stream, void (*function)(void *user), void *user),
     (stream, function, user))
{
	struct op op = {.kind = OP_CALL, .function = function, .user = user};

	if (!function)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	return found ? work_submit(found, &op) : CU_INVALID_HANDLE;
}

struct cu_graph_exec_opaque {
	struct cu_graph_exec_opaque *next;
	struct ops ops;
};

static cu_graph_exec execs;

CALL(cuGraphInstantiateWithFlags, NEED_CONTEXT,
     (cu_graph_exec * exec, cu_graph graph, unsigned long long flags), (exec, graph, flags))
{
	if (!exec || flags)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct ops *ops = graph_ops(graph);
	if (!ops)
		return CU_INVALID_VALUE;
	cu_graph_exec made = calloc(1, sizeof(*made));
	if (!made || ops_copy(&made->ops, ops) != CU_OK) {
		free(made);
		return CU_OUT_OF_MEMORY;
	}
	made->next = execs;
	execs = made;
	*exec = made;
	return CU_OK;
}

static cu_graph_exec exec_find(cu_graph_exec exec)
{
	cu_graph_exec found = execs;

	while (found && found != exec)
		found = found->next;
	return found;
}

CALL(cuGraphLaunch, NEED_CONTEXT, (cu_graph_exec exec, cu_stream stream), (exec, stream))
{
	STATE_LOCKED;
	const struct cu_graph_exec_opaque *found = exec_find(exec);
	cu_stream its = found ? stream_find(stream) : NULL;
	if (!found)
		return CU_INVALID_VALUE;
	return its ? ops_launch(&found->ops, its) : CU_INVALID_HANDLE;
}

CALL(cuGraphExecDestroy, NEED_INIT, (cu_graph_exec exec), (exec))
{
	STATE_LOCKED;
	cu_graph_exec found = exec_find(exec);
	if (!found)
		return CU_INVALID_VALUE;
	LL_DELETE(execs, found);
	ops_free(&found->ops);
	free(found);
	return CU_OK;
}

CALL(cuStreamGetId, NEED_CONTEXT, (cu_stream stream, unsigned long long *id), (stream, id))
{
	if (!id)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct cu_stream_opaque *found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	*id = found->id;
	return CU_OK;
}
