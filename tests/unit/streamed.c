/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "streamed.h"

struct streamed streamed;

cu_deviceptr streamed_make_here(void)
{
	struct buffers_stream call;
	cu_deviceptr pointer = 0;

	call = (struct buffers_stream){.async = streamed.driver->cuMemAllocAsync,
				       .stream = streamed.stream,
				       .meant = streamed.stream};
	CHECK(buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, (const void *)preloaded,
				  &pointer, BLOCK) == CU_OK);
	CHECK(preloaded_works(pointer, BLOCK));
	return pointer;
}

cu_deviceptr streamed_make(void)
{
	CHECK(streamed.driver->cuStreamCreate(&streamed.stream, CU_STREAM_NONBLOCKING) == CU_OK);
	return streamed_make_here();
}

cu_deviceptr streamed_begin(void)
{
	streamed.driver = preloaded("x%i", NULL);
	streamed.table = preloaded_table();
	return streamed_make();
}

cu_result streamed_free(cu_deviceptr pointer)
{
	return buffers_free_async(streamed.driver->cuMemFreeAsync, pointer, streamed.stream,
				  streamed.stream);
}

bool streamed_is_gone(cu_deviceptr pointer)
{
	return streamed.driver->cuCtxSynchronize() == CU_OK &&
	       streamed.driver->cuMemFree_v2(pointer) == CU_INVALID_VALUE;
}

uint32_t *streamed_hold_up(void)
{
	uint32_t *word = NULL;

	CHECK(streamed.driver->cuMemHostAlloc((void **)&word, 4096, CU_HOST_ALLOC_PORTABLE) ==
	      CU_OK);
	*word = 0;
	CHECK(streamed.driver->cuStreamWaitValue32_v2(streamed.stream, (uintptr_t)word, 1,
						      CU_WAIT_GEQ) == CU_OK);
	return word;
}

void streamed_let_go(uint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}
