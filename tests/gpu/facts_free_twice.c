/* SPDX-License-Identifier: MIT */
/* What a second free of memory answers whose first one is in a stream that is held up, or idle, and what
 * becomes of the context then. */
#include <stdint.h>

#include "facts_held.h"

#define SIZE (4 * MIB)
#define LET_GO_MS 300
#define BUFFER_ID ((cu_pointer_attribute)CU_ATTRIBUTE_BUFFER_ID)

/* How it goes. */
enum {
	POOLED = 1,   /* stream-ordered memory */
	NOT_HELD = 2, /* no stream is held up */
	WAITING =
	    4, /* the second free by cuMemFree, which may wait; else in the stream of the first */
};

static cu_deviceptr new_memory(int how, cu_stream stream)
{
	cu_deviceptr pointer = 0;

	if (how & POOLED)
		facts_must("cuMemAllocAsync", cu.cuMemAllocAsync(&pointer, SIZE, stream));
	else
		facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, SIZE));
	facts_must("cuCtxSynchronize", cu.cuCtxSynchronize());
	return pointer;
}

static cu_result free_again(int how, cu_deviceptr pointer, cu_stream own)
{
	if (!(how & WAITING))
		return cu.cuMemFreeAsync(pointer, own);
	held_let_go_in(LET_GO_MS);
	return cu.cuMemFree_v2(pointer);
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

/* The driver's number of an allocation: is it to be had, and is it still that one? */
static void ask_number(const char *when, cu_deviceptr pointer, unsigned long long before)
{
	unsigned long long now = 0;
	char question[64];
	cu_result result = cu.cuPointerGetAttribute(&now, BUFFER_ID, pointer);

	snprintf(question, sizeof(question), "  CU_POINTER_ATTRIBUTE_BUFFER_ID %s", when);
	facts_say(question, "%s%s", facts_code(result),
		  result != CU_OK ? ""
		  : now == before ? ", the same"
				  : ", ANOTHER");
}

static void say_second(int how, double began, cu_result result)
{
	char question[200];

	snprintf(question, sizeof(question), "of %s, %s: a second free by %s",
		 how & POOLED ? "cuMemAllocAsync memory" : "cuMemAlloc memory",
		 how & NOT_HELD ? "nothing held up" : "the first held up",
		 how & WAITING ? "cuMemFree, which may wait"
			       : "cuMemFreeAsync in the stream of the first");
	facts_say(question, "%s, %s", facts_code(result),
		  facts_ms() - began < LET_GO_MS / 2 ? "at once" : "after the stream was let go");
}

static void ask_twice(int how)
{
	cu_stream held = held_stream(), own;
	cu_deviceptr pointer = new_memory(how, held), base = 0;
	unsigned long long id = 0;
	size_t size = 0;
	double began;
	cu_result result;

	if (!(how & NOT_HELD))
		held_up(held);
	own = held_behind(held);
	cu.cuPointerGetAttribute(&id, BUFFER_ID, pointer);
	facts_must("cuMemFreeAsync", cu.cuMemFreeAsync(pointer, own));
	ask_number("after the first free", pointer, id);
	began = facts_ms();
	result = free_again(how, pointer, own);
	say_second(how, began, result);
	facts_ask("  cuMemGetAddressRange of it",
		  cu.cuMemGetAddressRange_v2(&base, &size, pointer));
	ask_number("of it", pointer, id);
	held_let_go();
	held_ask("  cuCtxSynchronize when it was let go", cu.cuCtxSynchronize);
	ask_number("of it then", pointer, id);
	facts_ask("  cuMemFree of it then", cu.cuMemFree_v2(pointer));
	ask_apart(pointer);
	held_ask("  the context at the end", cu.cuCtxSynchronize);
	held_again();
	facts_must("cuStreamDestroy", cu.cuStreamDestroy_v2(own));
	facts_must("cuStreamDestroy", cu.cuStreamDestroy_v2(held));
}

static void ask_one(int how)
{
	held_start();
	ask_twice(how);
}

/* Of what has returned, one after the other in one context. */
static void ask_others(int unused)
{
	held_start();
	ask_twice(POOLED);
	ask_twice(POOLED | WAITING);
	ask_twice(WAITING);
}

void facts_free_twice(void)
{
	held_probe(ask_one, 0);
	held_probe(ask_one, NOT_HELD);
	held_probe(ask_others, 0);
}
