/* SPDX-License-Identifier: MIT */
#include "held.h"

#include <stdatomic.h>
#include <sys/mman.h>

static atomic_uint *word;
static unsigned int stops;
static atomic_bool *went; /* in memory that both parts share */

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

bool held_is_done(cu_stream stream)
{
	const struct driver *driver = part_driver();
	cu_event behind;

	CHECK(driver->cuEventCreate(&behind, CU_EVENT_NO_TIMING) == CU_OK);
	CHECK(driver->cuEventRecord(behind, stream) == CU_OK);
	return driver->cuEventQuery(behind) == CU_OK;
}

void held_share(void)
{
	if (!went)
		went = mmap(NULL, sizeof(*went), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	CHECK(went != MAP_FAILED);
}

void held_begin(void)
{
	atomic_store(went, false);
}

void held_mark(void)
{
	atomic_store(went, true);
}

void held_let_go_seen(void)
{
	held_mark();
	held_let_go();
}

bool held_was_let_go(void)
{
	return atomic_load(went);
}
