/* SPDX-License-Identifier: MIT */
/* The API's waits and transfers, and every driver call that can fail. */
#include "unit.h"

#include "stage.h"

#define SIZE 100000
#define BIG ((size_t)20 * 1000 * 1000 + 7) /* three chunks, the last one odd */

static struct gpushare_buffer *const UNTOUCHED = (struct gpushare_buffer *)(uintptr_t)16;

/* Share "late" when the other part asks, and keep it until that part is done. */
static void keep(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(SIZE, 1);

	hear();
	OK(gpushare_alloc(session, "late", 0, SIZE, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, SIZE));
	free(bytes);
	say();
	hear();
	OK(gpushare_close(session));
}

struct stream {
	const unsigned char *wanted;
	unsigned char *room;
	size_t done, stop_at;
};

static int take(const void *data, size_t size, void *user)
{
	struct stream *stream = user;

	if (stream->done >= stream->stop_at)
		return 1;
	CHECK(!memcmp(stream->wanted + stream->done, data, size));
	stream->done += size;
	return 0;
}

static int give(void *data, size_t size, void *user)
{
	struct stream *stream = user;

	if (stream->done >= stream->stop_at)
		return 1;
	memcpy(data, stream->wanted + stream->done, size);
	stream->done += size;
	return 0;
}

static void stream_bytes(void)
{
	static const size_t lengths[] = {1, 4096, 8u << 20, (8u << 20) + 1, 16u << 20, BIG - 5};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(BIG, 5);
	struct stream stream = {.wanted = bytes, .stop_at = SIZE_MAX};

	OK(gpushare_alloc(session, "big", 0, BIG, &buffer));
	OK(gpushare_write(buffer, 0, BIG, give, &stream));
	CHECK(stream.done == BIG);
	part_holds(buffer, 0, BIG, 5);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		stream = (struct stream){.wanted = bytes + 5, .stop_at = SIZE_MAX};
		OK(gpushare_read(buffer, 5, lengths[i], take, &stream));
		CHECK(stream.done == lengths[i]);
	}
	stream = (struct stream){.wanted = bytes, .stop_at = 1};
	FAILS(E_CANCELLED, "big", gpushare_read(buffer, 0, BIG, take, &stream));
	FAILS(E_CANCELLED, "big", gpushare_write(buffer, 0, BIG, give, &stream));
	part_holds(buffer, 0, BIG, 5);
	OK(gpushare_read(buffer, BIG, 0, take, &stream));
	OK(gpushare_copy_from(buffer, BIG, NULL, 0));
	FAILS(E_RANGE, "20000007", gpushare_read(buffer, BIG, 1, take, &stream));
	FAILS(E_RANGE, "20000007", gpushare_write(buffer, BIG + 1, 0, give, &stream));
	FAILS(E_RANGE, "big", gpushare_copy_from(buffer, 1, bytes, SIZE_MAX));
	FAILS(E_RANGE, "big", gpushare_copy_to(buffer, SIZE_MAX, bytes, 2));
	FAILS(E_INVALID, "callback", gpushare_read(buffer, 0, 1, NULL, NULL));
	FAILS(E_INVALID, "host pointer", gpushare_copy_to(buffer, 0, NULL, 1));
	free(bytes);
	OK(gpushare_close(session));
}

/* Each driver call fails once: the error names it or its result, and nothing is left behind. */
static void fail_alloc(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer = UNTOUCHED;
	struct gpushare_info info;

	setenv("GPUSHARE_SIM_FAIL",
	       "cuDevicePrimaryCtxRetain:1:1:101,cuMemAlloc:1:2:2,cuCtxPushCurrent:2:1,"
	       "cuIpcGetMemHandle:1:1:801,cuDeviceGetUuid:2:1,cuMemFree:3:1",
	       1);
	session = part_session();
	FAILS(E_CUDA, "CUDA_ERROR_INVALID_DEVICE", gpushare_alloc(session, "x", 0, 1, &buffer));
	FAILS(E_NO_MEMORY, "cuMemAlloc", gpushare_alloc(session, "x", 0, 77, &buffer));
	FAILS(E_CUDA, "cuCtxPushCurrent", gpushare_alloc(session, "x", 0, 1, &buffer));
	FAILS(E_CUDA, "CUDA_ERROR_NOT_SUPPORTED", gpushare_alloc(session, "x", 0, 1, &buffer));
	FAILS(E_CUDA, "UUID", gpushare_alloc(session, "x", 0, 1, &buffer));
	CHECK(buffer == UNTOUCHED);
	FAILS(E_NOT_FOUND, "x", gpushare_stat(session, "x", &info));
	OK(gpushare_alloc(session, "x", 0, 1, &buffer));
	FAILS(E_CUDA, "cuMemFree", gpushare_free(buffer));
	FAILS(E_NOT_FOUND, "x", gpushare_stat(session, "x", &info));
	OK(gpushare_close(session));
}

static int stop(const struct gpushare_holder *holder, void *user)
{
	return 1;
}

static void fail_attach(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer = UNTOUCHED, *other;
	struct gpushare_info info;

	setenv("GPUSHARE_SIM_FAIL", "cuIpcOpenMemHandle:1:1:400,cuIpcCloseMemHandle:2:1", 1);
	session = part_session();
	say();
	hear();
	FAILS(E_OWNER_GONE, "unit_api_faults", gpushare_attach(session, "late", NULL, &buffer));
	CHECK(buffer == UNTOUCHED);
	OK(gpushare_stat(session, "late", &info));
	CHECK(info.attachers == 0);
	OK(gpushare_attach(session, "late", NULL, &buffer));
	FAILS(E_CANCELLED, "ended by its caller", gpushare_holders(session, "late", 0, stop, NULL));
	FAILS(E_NOT_SHAREABLE, "share it there",
	      gpushare_share(session, "mine", gpushare_pointer(buffer), 10, &other));
	OK(gpushare_detach(buffer));
	OK(gpushare_attach(session, "late", NULL, &buffer));
	FAILS(E_CUDA, "cuIpcCloseMemHandle", gpushare_detach(buffer));
	OK(gpushare_stat(session, "late", &info));
	CHECK(info.attachers == 0);
	say();
	OK(gpushare_close(session));
}

/* Attach with that fault in the driver; the attach must return `status`. */
static void fail_open(const char *fault, int status, const char *words)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer = UNTOUCHED;

	setenv("GPUSHARE_SIM_FAIL", fault, 1);
	session = part_session();
	say();
	hear();
	part_status(__FILE__, __LINE__, fault, gpushare_attach(session, "late", NULL, &buffer),
		    status, words);
	CHECK(buffer == UNTOUCHED);
	say();
	OK(gpushare_close(session));
}

static void fail_transfer(void)
{
	static const char *const faults =
	    "cuStreamCreate:1:1,cuMemHostAlloc:2:1:2,cuEventCreate:2:1,cuMemcpyDtoHAsync:2:1,"
	    "cuEventSynchronize:1:1,cuMemcpyHtoDAsync:1:1,cuStreamSynchronize:5:1,cuMemcpyDtoH:1:1";
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(BIG, 6);
	struct stream stream = {.wanted = bytes, .stop_at = SIZE_MAX};

	setenv("GPUSHARE_SIM_FAIL", faults, 1);
	session = part_session();
	OK(gpushare_alloc(session, "big", 0, BIG, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, BIG));
	FAILS(E_CUDA, "cuStreamCreate", gpushare_read(buffer, 0, BIG, take, &stream));
	FAILS(E_NO_MEMORY, "cuMemHostAlloc", gpushare_read(buffer, 0, BIG, take, &stream));
	FAILS(E_CUDA, "cuEventCreate", gpushare_read(buffer, 0, BIG, take, &stream));
	FAILS(E_CUDA, "cuMemcpyDtoHAsync", gpushare_read(buffer, 0, BIG, take, &stream));
	FAILS(E_CUDA, "cuEventSynchronize", gpushare_read(buffer, 0, BIG, take, &stream));
	CHECK(stream.done == 0);
	FAILS(E_CUDA, "cuMemcpyHtoDAsync", gpushare_write(buffer, 0, BIG, give, &stream));
	stream.done = 0;
	FAILS(E_CUDA, "cuStreamSynchronize", gpushare_write(buffer, 0, BIG, give, &stream));
	FAILS(E_CUDA, "cuMemcpyDtoH", gpushare_copy_from(buffer, 0, bytes, 1));
	stream.done = 0;
	OK(gpushare_read(buffer, 0, BIG, take, &stream));
	CHECK(stream.done == BIG);
	free(bytes);
	OK(gpushare_close(session));
}

#define FAULTS(X) \
	X(not_permitted, "cuIpcOpenMemHandle:1:1:800", OWNER_GONE, "CUDA_ERROR_NOT_PERMITTED") \
	X(not_supported, "cuIpcOpenMemHandle:1:1:801", CUDA, "not supported on the GPU") \
	X(invalid_context, "cuIpcOpenMemHandle:1:1:201", NOT_SUPPORTED, "the same pid") \
	X(out_of_memory, "cuIpcOpenMemHandle:1:1:2", NO_MEMORY, "late") \
	X(no_init, "cuInit:1:1:100", NO_DRIVER, "CUDA_ERROR_NO_DEVICE")
#define X(name, fault, status, words) \
	static void open_##name(void) \
	{ \
		fail_open(fault, GPUSHARE_E_##status, words); \
	}
FAULTS(X)
#undef X

static void open_no_device(void)
{
	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	setenv("GPUSHARE_SIM_PEERS", "0", 1);
	fail_open(
	    "cuMemFree:1:1", GPUSHARE_E_DEVICE,
	    "GPU-516d751a-7ed0-4a11-8e00-677075736800, which this process does not see; it sees "
	    "GPU-");
}

#define X(name, ...) SCENE(keep, open_##name),

STAGE_MAIN(SCENE(stream_bytes), SCENE(fail_alloc), SCENE(fail_transfer), SCENE(keep, fail_attach),
	   FAULTS(X) SCENE(keep, open_no_device))
