/* SPDX-License-Identifier: MIT */
/*
 * The driver's behaviour that shim/preload/shim_apart.h needs to free a program's memory in streams
 * of the shim; see also contract_deferred.c. On an H200 (driver 580.159.04) all of it held except
 * two things, which are no longer asserted:
 * - A second cuMemFreeAsync of memory whose first is pending returned CUDA_SUCCESS. The context
 *   could never be synchronized again (FACTS.md, free_twice).
 * - With eight blocked streams, and one waiting behind each, a write in a further stream did not
 *   happen within 10 s, because streams share hardware queues.
 * So no stream of the shim waits for a stream of the program: an event tells when the memory can be
 * freed.
 */
#include "capture.h"

/* More than other programs are likely to allocate meanwhile: the cases compare free memory. */
#define SIZE ((size_t)128 << 20)
#define FEW 3  /* with one stream behind each: fewer than the hardware queues */
#define MANY 8 /* with one stream behind each: more than the hardware queues */
#define PER_THREAD ((cu_stream)2)
#define CAPTURE_IMPLICIT 906
#define LONG_MS 10000 /* wait this long before deciding that an event never completes */

static const struct driver *driver;

static uint64_t *new_word(void)
{
	void *pinned = NULL;

	if (!driver->cuStreamWaitValue64_v2 || !driver->cuStreamWriteValue64_v2)
		contract_skip("this driver has no cuStreamWaitValue64_v2");
	EXPECT(CU_OK, driver->cuMemHostAlloc(&pinned, 4096, CU_HOST_ALLOC_PORTABLE));
	return memset(pinned, 0, 4096);
}

/* Block the stream until `*word` is 1. */
static void hold_up(cu_stream stream, uint64_t *word)
{
	EXPECT(CU_OK, driver->cuStreamWaitValue64_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
}

static void let_go(uint64_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
}

static cu_stream new_stream(unsigned int flags)
{
	cu_stream stream = NULL;

	EXPECT(CU_OK, driver->cuStreamCreate(&stream, flags));
	return stream;
}

/* Make a stream that waits for the present work of `stream`. Return an event recorded in it. */
static cu_event behind(cu_stream stream, cu_stream *out_own)
{
	cu_event event = contract_recorded(driver, stream);

	*out_own = new_stream(CU_STREAM_NONBLOCKING);
	EXPECT(CU_OK, driver->cuStreamWaitEvent(*out_own, event, 0));
	EXPECT(CU_OK, driver->cuEventDestroy_v2(event));
	return contract_recorded(driver, *out_own);
}

static bool comes(cu_event event)
{
	for (int left_ms = LONG_MS; left_ms; left_ms--) {
		if (driver->cuEventQuery(event) == CU_OK)
			return true;
		usleep(1000);
	}
	return false;
}

static size_t room(void)
{
	size_t left = 0, total = 0;

	EXPECT(CU_OK, driver->cuMemGetInfo_v2(&left, &total));
	return left;
}

/* Otherwise a program that unblocks its own stream would wait for ever. */
static void made_meanwhile(int peer)
{
	static const unsigned int kinds[] = {CU_STREAM_NONBLOCKING, 0};
	cu_event held, own_event;
	cu_stream stream, own;
	uint64_t *word;

	driver = contract_context(0);
	for (int i = 0; i < 3; i++) { /* i == 2: the legacy stream */
		word = new_word();
		stream = i < 2 ? new_stream(kinds[i]) : NULL;
		hold_up(stream, word);
		held = contract_recorded(driver, stream);
		own_event = behind(stream, &own);
		EXPECT(CU_NOT_READY, driver->cuEventQuery(held));
		EXPECT(CU_NOT_READY, driver->cuEventQuery(own_event));
		let_go(word);
		CHECK(comes(own_event));
		EXPECT(CU_OK, driver->cuEventQuery(held));
	}
}

/* While `held` is blocked, `stream` is too: one of them is a default stream. */
static void freed_behind(cu_stream held, cu_stream stream)
{
	cu_deviceptr pointer = contract_filled(SIZE, 1);
	uint64_t *word = new_word();
	cu_event event;
	cu_stream own;

	hold_up(held, word);
	event = behind(stream, &own);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, own));
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	let_go(word);
	CHECK(comes(event));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

static void default_streams(int peer)
{
	driver = contract_context(0);
	freed_behind(NULL, NULL);
	freed_behind(NULL, (cu_stream)1);
	freed_behind(PER_THREAD, PER_THREAD);
	freed_behind(NULL, PER_THREAD);
	freed_behind(NULL, new_stream(0));
	freed_behind(new_stream(0), NULL);
}

/*
 * Until the stream reaches the free, the memory stays allocated and keeps its contents. A second
 * free is the program's error.
 */
static void pending(int peer)
{
	cu_deviceptr pointer, other = 0;
	cu_stream stream, own;
	uint64_t *word;

	driver = contract_context(0);
	pointer = contract_filled(CONTRACT_BLOCK, 1);
	word = new_word();
	stream = new_stream(CU_STREAM_NONBLOCKING);
	hold_up(stream, word);
	behind(stream, &own);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, own));
	EXPECT(CU_OK, driver->cuMemAlloc_v2(&other, CONTRACT_BLOCK));
	CHECK(other != pointer);
	CHECK(contract_holds(pointer, CONTRACT_BLOCK, 1));
	let_go(word);
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

/* Return 0 if `pointer` is not, or no longer, memory with a buffer id. */
static unsigned long long number_of(cu_deviceptr pointer)
{
	cu_pointer_attribute attribute = (cu_pointer_attribute)CU_ATTRIBUTE_BUFFER_ID;
	unsigned long long number = 0;

	if (driver->cuPointerGetAttribute(&number, attribute, pointer) != CU_OK)
		return 0;
	return number;
}

/* shim/preload/shim_freed.h recognizes a second free by this number. */
static void numbered(int peer)
{
	cu_deviceptr pointer, other = 0;
	unsigned long long number;
	cu_stream own;

	driver = contract_context(0);
	pointer = contract_filled(CONTRACT_BLOCK, 1);
	number = number_of(pointer);
	CHECK(number);
	own = new_stream(CU_STREAM_NONBLOCKING);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, own));
	CHECK(number_of(pointer) == number);
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	CHECK(number_of(pointer) != number);
	for (int i = 0; i < 8; i++) {
		EXPECT(CU_OK, driver->cuMemAlloc_v2(&other, CONTRACT_BLOCK));
		CHECK(number_of(other) && number_of(other) != number);
	}
}

static void hold_up_each(cu_stream streams[], cu_event events[], int count, uint64_t *word)
{
	cu_stream own;

	for (int i = 0; i < count; i++) {
		streams[i] = new_stream(CU_STREAM_NONBLOCKING);
		hold_up(streams[i], word);
		events[i] = behind(streams[i], &own);
	}
}

static void all_come(cu_event events[], int count)
{
	for (int i = 0; i < count; i++)
		CHECK(comes(events[i]));
}

/* The blocked streams delay neither a free in another stream nor a write in another stream. */
static void few(int peer)
{
	cu_stream streams[FEW], beside, writer;
	cu_event events[FEW], event;
	cu_deviceptr pointer;
	uint64_t *word, *other;

	driver = contract_context(0);
	word = new_word();
	other = new_word();
	pointer = contract_filled(CONTRACT_BLOCK, 1); /* waits for all streams: do it first */
	hold_up_each(streams, events, FEW, word);
	beside = new_stream(CU_STREAM_NONBLOCKING);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, beside));
	event = contract_recorded(driver, beside);
	CHECK(comes(event));
	writer = new_stream(CU_STREAM_NONBLOCKING);
	EXPECT(CU_OK, driver->cuStreamWriteValue64_v2(writer, (uintptr_t)other, 1, 0));
	CHECK(comes(contract_recorded(driver, writer)));
	for (int i = 0; i < FEW; i++)
		EXPECT(CU_NOT_READY, driver->cuEventQuery(events[i]));
	let_go(word);
	all_come(events, FEW);
}

/* No call waits for the blocked streams, though other streams may. The CPU unblocks them. */
static void many(int peer)
{
	cu_stream streams[MANY], beside;
	cu_event events[MANY], event;
	cu_deviceptr pointer;
	uint64_t *word;

	driver = contract_context(0);
	word = new_word();
	pointer = contract_filled(CONTRACT_BLOCK, 1);
	hold_up_each(streams, events, MANY, word);
	beside = new_stream(CU_STREAM_NONBLOCKING);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, beside));
	event = contract_recorded(driver, beside);
	for (int i = 0; i < MANY; i++)
		EXPECT(CU_NOT_READY, driver->cuEventQuery(events[i]));
	let_go(word);
	all_come(events, MANY);
	CHECK(comes(event));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

/*
 * If memory is short, the shim synchronizes only its own stream, after that stream's work is done.
 */
static void back_with_its_stream(int peer)
{
	cu_stream stream, own;
	cu_deviceptr pointer;
	cu_event event;
	uint64_t *word, *other;
	size_t before;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	other = new_word();
	word = new_word();
	hold_up(new_stream(CU_STREAM_NONBLOCKING),
		other); /* synchronizing the context would block on this */
	stream = new_stream(CU_STREAM_NONBLOCKING);
	hold_up(stream, word);
	event = behind(stream, &own);
	before = room();
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, own));
	let_go(word);
	CHECK(comes(event));
	EXPECT(CU_OK, driver->cuEventRecord(event, own));
	CHECK(comes(event));
	EXPECT(CU_OK, driver->cuStreamSynchronize(own));
	CHECK(room() >= before + SIZE / 2);
	let_go(other);
}

/* A program may do this: stream-ordered memory belongs to no context. */
static void of_another_context(int peer)
{
	cu_context primary, other = NULL;
	cu_deviceptr pointer;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&primary));
	pointer = contract_filled(CONTRACT_BLOCK, 1);
	EXPECT(CU_OK, driver->cuCtxCreate_v2(&other, 0, 0));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, new_stream(CU_STREAM_NONBLOCKING)));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_OK, driver->cuCtxSetCurrent(primary));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

/* All these calls in the relaxed capture mode leave the capture valid. */
static void while_captured(int peer)
{
	cu_stream stream, own;
	cu_deviceptr pointer;
	cu_event event;

	driver = contract_context(0);
	pointer = contract_filled(CONTRACT_BLOCK, 1);
	stream = new_stream(CU_STREAM_NONBLOCKING);
	capture_begin(CU_CAPTURE_GLOBAL);
	CHECK(capture_exchange(CU_CAPTURE_RELAXED) == CU_CAPTURE_GLOBAL);
	event = behind(stream, &own);
	CHECK(comes(event));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, own));
	EXPECT(CU_OK, driver->cuStreamSynchronize(own));
	CHECK(capture_exchange(CU_CAPTURE_GLOBAL) == CU_CAPTURE_RELAXED);
	capture_ends_well();
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

/* "When any stream in the same context is being captured and it wasn't created with
 * cudaStreamNonBlocking, any attempted use of the legacy stream is invalid" (CUDA C++ Programming
 * Guide). */
static void legacy_while_captured(int peer)
{
	cu_deviceptr pointer;

	driver = contract_context(0);
	pointer = contract_filled(CONTRACT_BLOCK, 1);
	EXPECT(CU_OK, driver->cuStreamCreate(&capture_stream, 0));
	capture_begin(CU_CAPTURE_RELAXED);
	EXPECT((cu_result)CAPTURE_IMPLICIT, driver->cuMemFreeAsync(pointer, NULL));
	capture_ends_invalidated();
	CHECK(contract_holds(pointer, CONTRACT_BLOCK, 1));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, NULL));
}

UNIT_MAIN(ALONE(streams_and_events_are_made_while_others_are_held_up, made_meanwhile),
	  ALONE(a_stream_comes_behind_any_default_stream, default_streams),
	  ALONE(memory_that_is_to_be_freed_is_memory_until_then, pending),
	  ALONE(memory_that_is_to_be_freed_has_its_number_until_then, numbered),
	  ALONE(a_few_that_are_held_up_hold_up_no_other, few),
	  ALONE(many_that_are_held_up_hold_up_no_call, many),
	  ALONE(what_was_freed_is_back_once_its_stream_is_synchronized, back_with_its_stream),
	  ALONE(memory_is_freed_in_a_stream_of_another_context, of_another_context),
	  ALONE(a_free_behind_a_stream_spoils_no_capture, while_captured),
	  ALONE(the_legacy_stream_is_refused_while_a_blocking_one_is_captured,
		legacy_while_captured))
