/* SPDX-License-Identifier: MIT */
/* Where allocations lie: who shares a block with whom, alignment, pitch; streams by number. */
#include "facts.h"

static void say_place(const char *what, size_t size, cu_deviceptr at)
{
	cu_deviceptr base = 0;
	size_t range = 0;
	cu_result result = cu.cuMemGetAddressRange_v2(&base, &range, at);

	facts_say(
	    what,
	    "%zu bytes at %#llx, block %#llx + %llu, cuMemGetAddressRange %s base %+lld size %zu",
	    size, at, at / BLOCK * BLOCK, at % BLOCK, facts_code(result), (long long)(base - at),
	    range);
}

static void place(const char *what, size_t size)
{
	cu_deviceptr at;

	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&at, size));
	say_place(what, size, at);
}

void facts_block(void)
{
	static const size_t multiples[] = {2, 4, 6, 10, 20, 64, 1024};

	facts_start();
	place("one below a block", BLOCK - 512);
	for (int i = 0; i < 3; i++)
		place("512 after it", 512);
	place("one above a block", BLOCK + 512);
	for (int i = 0; i < 3; i++)
		place("512 after it", 512);
	place("1 MiB", MIB);
	place("1 MiB", MIB);
	place("1 MiB", MIB);
	place("3 MiB", 3 * MIB);
	place("512 KiB after it", MIB / 2);
	place("512 after it", 512);
	place("1 byte", 1);
	place("1 byte", 1);
	for (size_t i = 0; i < sizeof(multiples) / sizeof(*multiples); i++) {
		place("a multiple of 2 MiB", multiples[i] * MIB);
		place("512 after it", 512);
	}
}

void facts_pitch(void)
{
	static const size_t widths[] = {1, 1000, 4097, 65537};
	static const size_t heights[] = {1, 7, 100, 5000};
	static const unsigned int elements[] = {4, 8, 16};
	char question[64];

	facts_start();
	for (size_t w = 0; w < sizeof(widths) / sizeof(*widths); w++)
		for (size_t h = 0; h < sizeof(heights) / sizeof(*heights); h++)
			for (size_t e = 0; e < sizeof(elements) / sizeof(*elements); e++) {
				size_t pitch = 0, range = 0;
				cu_deviceptr at, base;

				facts_must("cuMemAllocPitch",
					   cu.cuMemAllocPitch_v2(&at, &pitch, widths[w], heights[h],
								 elements[e]));
				facts_must("cuMemGetAddressRange",
					   cu.cuMemGetAddressRange_v2(&base, &range, at));
				snprintf(question, sizeof(question),
					 "width %zu height %zu element %u", widths[w], heights[h],
					 elements[e]);
				facts_say(question,
					  "pitch %zu, range %zu, pitch x height %zu, offset in "
					  "block %llu",
					  pitch, range, pitch * heights[h], at % BLOCK);
			}
}

void facts_stream(void)
{
	char question[64];
	cu_event event;

	facts_start();
	facts_must("cuEventCreate", cu.cuEventCreate(&event, CU_EVENT_NO_TIMING));
	for (uintptr_t i = 0; i < 3; i++) {
		cu_capture_status status = -1;
		cu_context context = NULL;
		cu_result result = cu.cuStreamGetCtx((cu_stream)i, &context);

		snprintf(question, sizeof(question), "cuStreamGetCtx of stream %d", (int)i);
		facts_say(question, "%s, %s", facts_code(result),
			  context == facts_context ? "the current context" : "another context");
		snprintf(question, sizeof(question), "cuEventRecord on stream %d", (int)i);
		facts_ask(question, cu.cuEventRecord(event, (cu_stream)i));
		facts_ask("  cuEventSynchronize", cu.cuEventSynchronize(event));
		snprintf(question, sizeof(question), "cuStreamIsCapturing of stream %d", (int)i);
		result = cu.cuStreamIsCapturing((cu_stream)i, &status);
		facts_say(question, "%s, status %d", facts_code(result), status);
	}
	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(NULL));
	for (uintptr_t i = 0; i < 3; i++) {
		cu_context context = NULL;

		snprintf(question, sizeof(question),
			 "no current context: cuStreamGetCtx of stream %d", (int)i);
		facts_ask(question, cu.cuStreamGetCtx((cu_stream)i, &context));
	}
}
