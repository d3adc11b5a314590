/* SPDX-License-Identifier: MIT */
#include "held.h"

#include <stdatomic.h>

static atomic_uint *word;
static unsigned int stops;

cu_stream held_stream(void)
{
	static cu_stream stream;

	if (!stream)
		CHECK(part_driver()->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	return stream;
}

void held_stop(void)
{
	const struct driver *driver = part_driver();
	void *pinned;

	if (!word) {
		CHECK(driver->cuMemHostAlloc(&pinned, 4096, CU_HOST_ALLOC_PORTABLE) == CU_OK);
		word = pinned;
		atomic_store(word, 0);
	}
	CHECK(driver->cuStreamWaitValue32_v2(held_stream(), (uintptr_t)word, ++stops,
					     CU_WAIT_GEQ) == CU_OK);
}

void held_let_go(void)
{
	atomic_store(word, stops);
}
