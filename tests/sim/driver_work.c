/* SPDX-License-Identifier: MIT */
/*
 * Work behind a wait. If a stream has nothing to wait for, its work is done in the call. Otherwise
 * the first wait_look() that finds it due runs it. A thread keeps looking while any work is
 * pending. Host functions run only in that thread.
 */
#include "driver_work.h"

#define WORK_INTERVAL_US 20

static bool working;

/* Skip an operation whose memory was freed. A real device would end the context. */
static bool op_good(const struct op *op)
{
	if (op->kind == OP_WRITE)
		return region_covers(op->to, sizeof(uint64_t), CU_ACCESS_READ_WRITE);
	if (!address_is_ours(op->to) && !address_is_ours(op->from))
		return true;
	return (!address_is_ours(op->to) ||
		region_covers(op->to, op->size, CU_ACCESS_READ_WRITE)) &&
	       (op->bytes || !address_is_ours(op->from) ||
		region_covers(op->from, op->size, CU_ACCESS_READ));
}

/* This copy stands for the GPU. A sanitizer would take memcpy() for the program's own access. The
 * two ranges must not overlap. */
static void copy(uint64_t to, const void *from, size_t size)
{
	volatile unsigned char *out = (volatile unsigned char *)(uintptr_t)to;
	const volatile unsigned char *in = from;

	for (; size >= 8 && !((uintptr_t)out % 8) && !((uintptr_t)in % 8);
	     size -= 8, out += 8, in += 8)
		*(volatile uint64_t *)out = *(const volatile uint64_t *)in;
	while (size--)
		*out++ = *in++;
}

void op_run(const struct op *op)
{
	const void *from = op->bytes ? op->bytes : (const void *)(uintptr_t)op->from;

	if (op->kind == OP_CALL || !op_good(op))
		return;
	if (op->kind == OP_WRITE)
		__atomic_store_n((uint64_t *)(uintptr_t)op->to, op->value, __ATOMIC_SEQ_CST);
	else if (op->kind == OP_COPY)
		copy(op->to, from, op->size);
}

/* Call one host function that is due. Return false if there is none. */
static bool work_call(void)
{
	struct wait *due;
	struct op call;

	int cancelling = state_lock();
	wait_look();
	due = wait_take_call(&call);
	state_unlock(&cancelling);
	if (!due)
		return false;
	call.function(call.user);
	cancelling = state_lock();
	wait_done(due);
	state_unlock(&cancelling);
	return true;
}

static void *work(void *unused)
{
	for (;;) {
		while (work_call())
			;
		int cancelling = state_lock();
		wait_look();
		working = wait_has_work();
		state_unlock(&cancelling);
		if (!working)
			return NULL;
		usleep(WORK_INTERVAL_US);
	}
}

bool work_start(void *(*run)(void *), bool *runs)
{
	sigset_t all, before;
	pthread_t thread;

	if (*runs)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	*runs = !pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (*runs)
		pthread_detach(thread);
	return *runs;
}

bool work_is_held(cu_stream stream)
{
	wait_look();
	struct wait *tail = stream_tail(stream);
	bool held = !wait_over(tail);
	wait_drop(tail);
	return held;
}

static cu_result work_queue(cu_stream stream, const struct op *op)
{
	struct wait *tail = stream_tail(stream);
	struct wait *made = wait_new_op(tail, op);

	if (!made) {
		wait_drop(tail);
		free(op->bytes);
		return CU_OUT_OF_MEMORY;
	}
	wait_drop(stream->last);
	stream->last = made;
	return op->kind == OP_WAIT || work_start(work, &working) ? CU_OK : CU_OUT_OF_MEMORY;
}

cu_result work_submit(cu_stream stream, const struct op *op)
{
	if (stream->capture)
		return capture_note(stream->capture, op) ? CU_OK : CU_OUT_OF_MEMORY;
	wait_look();
	if (op->kind == OP_WAIT || op->kind == OP_CALL || work_is_held(stream))
		return work_queue(stream, op);
	op_run(op);
	free(op->bytes);
	return CU_OK;
}

bool ops_add(struct ops *ops, const struct op *op)
{
	if (ops->count == ops->room) {
		size_t room = ops->room ? 2 * ops->room : 8;
		struct op *grown = realloc(ops->list, room * sizeof(*grown));

		if (!grown)
			return false;
		ops->list = grown;
		ops->room = room;
	}
	ops->list[ops->count++] = *op;
	return true;
}

cu_result ops_copy(struct ops *to, const struct ops *from)
{
	*to = (struct ops){.list = NULL};
	for (size_t i = 0; i < from->count; i++) {
		if (!ops_add(to, &from->list[i])) {
			ops_free(to);
			return CU_OUT_OF_MEMORY;
		}
	}
	return CU_OK;
}

cu_result ops_launch(const struct ops *ops, cu_stream stream)
{
	for (size_t i = 0; i < ops->count; i++) {
		cu_result result = work_submit(stream, &ops->list[i]);
		if (result != CU_OK)
			return result;
	}
	return CU_OK;
}

void ops_free(struct ops *ops)
{
	free(ops->list);
	*ops = (struct ops){.list = NULL};
}
