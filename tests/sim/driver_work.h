/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_WORK_H
#define GPUSHARE_TESTS_SIM_DRIVER_WORK_H
/* Operations that a blocked stream runs once it can continue, and that a graph runs when it is
 * launched. */
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
	void *bytes; /* copy of the source, freed with the operation; NULL: read `from` */
};

struct ops { /* operations of a capture or a graph, in the order of their capture */
	struct op *list;
	size_t count, room;
};

#pragma GCC visibility push(hidden)
/* driver_work.c. Under the lock. The op's `bytes` are taken over, even on failure. */
cu_result work_submit(cu_stream stream, const struct op *op);
/* Return true if new work on the stream must wait. */
bool work_is_held(cu_stream stream);
/* Start a thread, unless *runs says that it runs. It blocks all signals, so that it handles none of
 * the program's. */
bool work_start(void *(*run)(void *), bool *runs);
bool ops_add(struct ops *ops, const struct op *op);
cu_result ops_copy(struct ops *to, const struct ops *from);
cu_result ops_launch(const struct ops *ops, cu_stream stream);
void ops_free(struct ops *ops);
/* Run the operation now. OP_WAIT and OP_CALL do nothing here. */
void op_run(const struct op *op);

/* driver_capture.c */
bool capture_note(struct capture *capture, const struct op *op);
struct ops *graph_ops(cu_graph graph); /* NULL: no such graph */
#pragma GCC visibility pop

#endif
