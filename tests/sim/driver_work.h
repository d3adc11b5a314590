/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_WORK_H
#define GPUSHARE_TESTS_SIM_DRIVER_WORK_H
/* What a stream that is held up does once it goes on, and what a graph does when it is launched. */
#include "driver_stream.h"

enum op_kind {
	OP_WAIT,  /* until the word at `to`, of `width` bytes, is `value` or more */
	OP_WRITE, /* `value` into the word of 8 bytes at `to` */
	OP_COPY,  /* `size` bytes from `from` to `to` */
	OP_CALL,  /* a host function */
};

struct op {
	enum op_kind kind;
	uint64_t to, from, value;
	size_t size;
	unsigned int width;
	void (*function)(void *user);
	void *user;
	void *bytes; /* a copy of what `from` was, which goes with it; NULL: none */
};

struct ops { /* of a capture or a graph, in the order of their capture */
	struct op *list;
	size_t count, room;
};

#pragma GCC visibility push(hidden)
/* driver_work.c. Under the lock. The op's `bytes` are taken over, whatever the answer. */
cu_result work_submit(cu_stream stream, const struct op *op);
/* The stream has something to wait for. */
bool work_is_held(cu_stream stream);
bool ops_add(struct ops *ops, const struct op *op);
cu_result ops_copy(struct ops *to, const struct ops *from);
cu_result ops_launch(const struct ops *ops, cu_stream stream);
void ops_free(struct ops *ops);
/* Now; of a host function nothing is done here. */
void op_run(const struct op *op);

/* driver_capture.c */
bool capture_note(struct capture *capture, const struct op *op);
struct ops *graph_ops(cu_graph graph); /* NULL: there is none such */
#pragma GCC visibility pop

#endif
