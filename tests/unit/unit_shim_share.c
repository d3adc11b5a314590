/* SPDX-License-Identifier: MIT */
/* GPUSHARE_NAME: which of a program's memory is shared, and what the registry is told of it. */
#include "unit.h"

#include "preloaded.h"

static const void *const CALLER = (const void *)preloaded;

static void check_uuid(const struct gpushare_info *info)
{
	cu_uuid uuid;

	CHECK(part_driver()->cuDeviceGetUuid_v2(&uuid, 0) == CU_OK);
	CHECK(!memcmp(info->device_uuid, uuid.bytes, sizeof(uuid.bytes)));
}

/* The size is what the program asked for; the rest of the block belongs to the buffer alone. */
static void name_by_size(void)
{
	static const size_t sizes[] = {1, 512, 700 << 10, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK};
	struct gpushare_info info;
	cu_deviceptr pointer;

	preloaded("w%i", NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char name[16];

		snprintf(name, sizeof(name), "w%zu", i);
		errno = 77;
		CHECK(preloaded_alloc(&pointer, sizes[i]) == CU_OK && errno == 77);
		CHECK(preloaded_finds(name, &info));
		CHECK(info.size == sizes[i] && info.base_offset == 0 && info.isolated);
		CHECK(info.base_size == (sizes[i] + BLOCK - 1) / BLOCK * BLOCK);
		CHECK(info.backing == GPUSHARE_BACKING_IPC && info.owner_pid == getpid());
		check_uuid(&info);
		CHECK(preloaded_works(pointer, sizes[i]));
		errno = 77;
		CHECK(preloaded_free(pointer) == CU_OK && errno == 77);
		CHECK(!preloaded_finds(name, &info) && !live_any());
		CHECK(preloaded_free(pointer) == CU_INVALID_VALUE);
	}
	CHECK(preloaded_logged("is shared") == sizeof(sizes) / sizeof(*sizes));
}

static void name_pitched(void)
{
	const struct driver *driver = preloaded("w%i", NULL);
	struct gpushare_info info;
	cu_deviceptr pointer;
	size_t pitch = 0;

	CHECK(buffers_alloc_pitch(driver->cuMemAllocPitch_v2, CALLER, &pointer, &pitch, 1000, 300,
				  4) == CU_OK);
	CHECK(pitch >= 1000 && preloaded_finds("w0", &info));
	CHECK(info.size == pitch * 300 && info.base_size == BLOCK && info.isolated);
	CHECK(preloaded_works(pointer, pitch * 300));
	CHECK(preloaded_free(pointer) == CU_OK && !preloaded_finds("w0", &info));
	CHECK(buffers_alloc_pitch(driver->cuMemAllocPitch_v2, CALLER, &pointer, &pitch, 0, 0, 4) ==
	      CU_INVALID_VALUE);
	CHECK(!live_any());
}

static void test_rounding(void **state)
{
	assert_int_equal(buffers_rounded(0), 0);
	assert_int_equal(buffers_rounded(1), BLOCK);
	assert_int_equal(buffers_rounded(BLOCK), BLOCK);
	assert_int_equal(buffers_rounded(BLOCK + 1), 2 * BLOCK);
	assert_int_equal(buffers_rounded(SIZE_MAX), SIZE_MAX);
	assert_int_equal(buffers_rounded(SIZE_MAX - BLOCK + 2), SIZE_MAX - BLOCK + 2);
	assert_int_equal(buffers_rounded(SIZE_MAX - BLOCK + 1), SIZE_MAX - BLOCK + 1);
}

/* Own "w" in another process. */
static void have_w(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(12345, 3);

	OK(gpushare_alloc(session, "w", 0, 12345, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, 12345));
	free(bytes);
	say();
	hear();
	part_holds(buffer, 0, 12345, 3);
	OK(gpushare_close(session));
}

static void want_w(void)
{
	struct gpushare_info before, after;
	cu_deviceptr pointer, base;
	cu_ipc_mem_handle handle;
	cu_result result;
	size_t size;

	preloaded("w", NULL);
	hear();
	CHECK(preloaded_finds("w", &before));
	preloaded_hush();
	CHECK(preloaded_alloc(&pointer, 700 << 10) == CU_OK);
	CHECK(!*preloaded_hushed());
	CHECK(preloaded_logged("\"w\" is not shared: \"w\" is taken by") == 1);
	CHECK(preloaded_works(pointer, 700 << 10));
	/* the shim still reports the size that the program asked for */
	base = 0;
	size = BLOCK;
	buffers_range(pointer + 5, &base, &size);
	CHECK(base == pointer && size == 700 << 10);
	CHECK(!buffers_handle(pointer, &handle, &result));
	CHECK(preloaded_free(pointer) == CU_OK && !live_any());
	CHECK(preloaded_finds("w", &after) && after.generation == before.generation);
	CHECK(after.size == 12345 && after.owner_pid == before.owner_pid);
	say();
}

static cu_result refuse_free(cu_deviceptr pointer)
{
	errno = 5;
	return CU_UNKNOWN;
}

static cu_result refuse_free_async(cu_deviceptr pointer, cu_stream stream)
{
	return CU_UNKNOWN;
}

/* If the free fails, the memory is shared again as a new buffer. If that fails too, it stays the
 * program's. */
static void free_refused(void)
{
	const struct driver *driver = preloaded("w", NULL);
	struct gpushare_info first, again;
	cu_deviceptr pointer;

	CHECK(preloaded_alloc(&pointer, 100) == CU_OK && preloaded_finds("w", &first));
	CHECK(buffers_free(refuse_free, pointer) == CU_UNKNOWN && errno == 5);
	CHECK(preloaded_finds("w", &again) && again.generation > first.generation);
	CHECK(again.size == 100 && again.base_size == BLOCK);
	first = again;
	CHECK(buffers_free_async(refuse_free_async, pointer, NULL, NULL) == CU_UNKNOWN);
	CHECK(preloaded_finds("w", &again) && again.generation > first.generation);
	CHECK(buffers_free_async(driver->cuMemFreeAsync, pointer, NULL, NULL) == CU_OK);
	CHECK(!preloaded_finds("w", &again) && !live_any());
}

static cu_result refuse_alloc(cu_deviceptr *pointer, size_t size)
{
	return CU_OUT_OF_MEMORY;
}

/* An allocation that fails uses up no name. */
static void alloc_refused(void)
{
	cu_deviceptr pointer = 16, plain = 16;
	struct gpushare_info info;

	preloaded("w", NULL);
	CHECK(buffers_alloc(refuse_alloc, CALLER, &pointer, 100) == CU_OUT_OF_MEMORY);
	CHECK(preloaded_alloc(NULL, 100) == CU_INVALID_VALUE);
	CHECK(preloaded_alloc(&pointer, 0) == CU_INVALID_VALUE);
	CHECK(part_driver()->cuMemAlloc_v2(&plain, 0) == CU_INVALID_VALUE && pointer == plain);
	CHECK(!preloaded_finds("w", &info) && !live_any());
	CHECK(preloaded_alloc(&pointer, 100) == CU_OK && preloaded_finds("w", &info));
	CHECK(preloaded_free(pointer) == CU_OK);
}

/* Nothing is printed; the log has a line for each allocation. */
static void name_managed(void)
{
	const struct driver *driver = preloaded("w%i", NULL);
	cu_deviceptr pointers[2];
	struct gpushare_info info;

	preloaded_hush();
	for (int i = 0; i < 2; i++)
		CHECK(buffers_alloc_managed(driver->cuMemAllocManaged, CALLER, &pointers[i], 5000,
					    CU_MANAGED_GLOBAL) == CU_OK);
	CHECK(!*preloaded_hushed());
	CHECK(preloaded_logged("\"w0\" is not shared: managed memory") == 1);
	CHECK(preloaded_logged("\"w1\" is not shared: managed memory") == 1);
	CHECK(preloaded_logged("allocate it with cudaMalloc,") == 2);
	CHECK(!preloaded_finds("w0", &info) && !live_any());
	for (int i = 0; i < 2; i++)
		CHECK(preloaded_free(pointers[i]) == CU_OK);
}

/* For each driver call of the table: once it is missing, once it always fails. The program has
 * its memory, and no name outlives it. */
static cu_result always_fail(void)
{
	return CU_UNKNOWN;
}

static void alloc_without(const char *call)
{
	const struct driver *driver = part_driver();
	cu_deviceptr one, two;
	struct gpushare_info info;
	size_t pitch;

	CHECK(preloaded_alloc(&one, 100) == CU_OK && preloaded_works(one, 100));
	CHECK(preloaded_free(one) == CU_OK);
	CHECK(buffers_alloc_pitch(driver->cuMemAllocPitch_v2, CALLER, &two, &pitch, 100, 10, 4) ==
	      CU_OK);
	CHECK(preloaded_works(two, 10 * pitch) && preloaded_free(two) == CU_OK);
	if (preloaded_finds("w", &info) || live_any())
		part_fail(__FILE__, __LINE__, "without %s something is left", call);
}

static void lack_each(void)
{
	struct driver whole, *table;
	char rules[4096] = "w:nth=1";

	for (int i = 2; i < 400; i++)
		snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules), ",w:nth=%d", i);
	preloaded(rules, NULL);
	table = preloaded_table();
	whole = *table;
#define F(since, version, name, params) \
	table->name = NULL; \
	alloc_without(#name); \
	*(void **)&table->name = (void *)always_fail; \
	alloc_without(#name " at work"); \
	table->name = whole.name;
	CUDA_ABI_CALLS(F)
#undef F
	CHECK(preloaded_logged("is shared") > 100); /* most calls don't matter */
	CHECK(preloaded_logged("is not shared: cuIpcGetMemHandle answered CUDA_ERROR_UNKNOWN") ==
	      2);
	CHECK(preloaded_logged("is not shared: the driver answered CUDA_ERROR_NOT_SUPPORTED") >= 6);
}

STAGE_MAIN(SCENE(name_by_size), SCENE(name_pitched), UNIT(test_rounding), SCENE(have_w, want_w),
	   SCENE(free_refused), SCENE(alloc_refused), SCENE(name_managed), SCENE(lack_each))
