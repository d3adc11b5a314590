/* SPDX-License-Identifier: MIT */
/* What a second free of memory answers whose first one is in a stream that is held up, and what becomes of
 * the context then. */
#include <stdint.h>

#include "facts_held.h"

#define SIZE (4 * MIB)
#define LET_GO_MS 300

/* How the second free goes. W(value, words) */
#define WAYS(W) \
	W(SAME, "cuMemFreeAsync in the stream of the first") \
	W(HELD, "cuMemFreeAsync in the stream that is held up") \
	W(IDLE, "cuMemFreeAsync in an idle stream") \
	W(WAITING, "cuMemFree, which may wait")

enum way {
#define W(value, words) value,
	WAYS(W)
#undef W
	    WAY_COUNT
};

static const char *const way_names[] = {
#define W(value, words) words,
    WAYS(W)
#undef W
};

enum {
	POOLED = 16,  /* stream-ordered memory */
	NOT_HELD = 32 /* no stream is held up */
};

static cu_deviceptr new_memory(cu_stream stream)
{
	cu_deviceptr pointer = 0;

	if (held_user() & POOLED)
		facts_must("cuMemAllocAsync", cu.cuMemAllocAsync(&pointer, SIZE, stream));
	else
		facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, SIZE));
	facts_must("cuCtxSynchronize", cu.cuCtxSynchronize());
	return pointer;
}

static cu_result free_again(cu_deviceptr pointer, cu_stream held, cu_stream own)
{
	switch (held_user() & (POOLED - 1)) {
	case SAME:
		return cu.cuMemFreeAsync(pointer, own);
	case HELD:
		return cu.cuMemFreeAsync(pointer, held);
	case IDLE:
		return cu.cuMemFreeAsync(pointer, held_stream());
	default:
		held_let_go_in(LET_GO_MS);
		return cu.cuMemFree_v2(pointer);
	}
}

/* Is one address given to two? */
static void ask_apart(cu_deviceptr before)
{
	cu_deviceptr first = 0, second = 0;
	uint32_t value = 0;

	facts_ask("  cuMemAlloc then", cu.cuMemAlloc_v2(&first, SIZE));
	facts_ask("  and another", cu.cuMemAlloc_v2(&second, SIZE));
	facts_say("  these two are", "%s; the first %s what was freed",
		  first == second ? "ONE" : "apart", first == before ? "is where" : "is not where");
	facts_ask("  cuMemsetD8 of the first", cu.cuMemsetD8_v2(first, 1, SIZE));
	facts_ask("  cuMemsetD8 of the second", cu.cuMemsetD8_v2(second, 2, SIZE));
	facts_ask("  cuMemcpyDtoH of the first", cu.cuMemcpyDtoH_v2(&value, first, sizeof(value)));
	facts_say("  which holds", "%s", value == 0x01010101 ? "its own" : "OTHER THINGS");
	facts_ask("  cuMemFree of the first", cu.cuMemFree_v2(first));
	facts_ask("  cuMemFree of the second", cu.cuMemFree_v2(second));
}

static void ask_twice(void)
{
	cu_stream held, own;
	cu_deviceptr pointer, base = 0;
	size_t size = 0;
	char question[200];
	cu_result result;
	double began;

	held_start();
	held = held_stream();
	pointer = new_memory(held);
	if (!(held_user() & NOT_HELD))
		held_up(held);
	own = held_behind(held);
	facts_must("cuMemFreeAsync", cu.cuMemFreeAsync(pointer, own));
	began = facts_ms();
	result = free_again(pointer, held, own);
	snprintf(question, sizeof(question), "of %s, %s: a second free by %s",
		 held_user() & POOLED ? "cuMemAllocAsync memory" : "cuMemAlloc memory",
		 held_user() & NOT_HELD ? "nothing held up" : "the first held up",
		 way_names[held_user() & (POOLED - 1)]);
	facts_say(question, "%s, %s", facts_code(result),
		  facts_ms() - began < LET_GO_MS / 2 ? "at once" : "after the stream was let go");
	facts_ask("  cuMemGetAddressRange of it",
		  cu.cuMemGetAddressRange_v2(&base, &size, pointer));
	held_let_go();
	facts_ask("  cuCtxSynchronize when it was let go", cu.cuCtxSynchronize());
	facts_ask("  cuMemFree of it then", cu.cuMemFree_v2(pointer));
	ask_apart(pointer);
	facts_ask("  the context at the end", cu.cuCtxSynchronize());
}

void facts_free_twice(void)
{
	for (int way = 0; way < WAY_COUNT; way++)
		held_probe(ask_twice, way);
	held_probe(ask_twice, SAME | NOT_HELD);
	held_probe(ask_twice, SAME | POOLED);
	held_probe(ask_twice, WAITING | POOLED);
}
