/* SPDX-License-Identifier: MIT */
/* GPUSHARE_ATTACH: what a program gets in place of its allocation, and why it does not. */
#include "unit.h"

#include "preloaded.h"

#define SIZE ((size_t)100000)

static const void *const CALLER = (const void *)preloaded;

/* Share an ipc and a vmm buffer from another process, until that hears that it may end. */
static void produce(void)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = CU_LOCATION_DEVICE},
	};
	const cu_mem_access access = {.location = prop.location, .flags = CU_ACCESS_READ_WRITE};
	struct gpushare_session *session = part_session();
	const struct driver *driver = part_driver();
	struct gpushare_buffer *buffer, *mapped;
	unsigned char *bytes = part_pattern(SIZE, 1);
	cu_mem_handle handle;
	cu_deviceptr pointer;

	OK(gpushare_alloc(session, "w", 0, SIZE, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, SIZE));
	CHECK(driver->cuMemCreate(&handle, BLOCK, &prop, 0) == CU_OK);
	CHECK(driver->cuMemAddressReserve(&pointer, BLOCK, 0, 0, 0) == CU_OK);
	CHECK(driver->cuMemMap(pointer, BLOCK, 0, handle, 0) == CU_OK);
	CHECK(driver->cuMemSetAccess(pointer, BLOCK, &access, 1) == CU_OK);
	OK(gpushare_share(session, "v", pointer, BLOCK, &mapped));
	OK(gpushare_copy_to(mapped, 0, bytes, SIZE));
	free(bytes);
	say();
	hear();
	OK(gpushare_close(session));
}

static unsigned int attachers(const char *name)
{
	struct gpushare_info info;

	CHECK(preloaded_finds(name, &info));
	return info.attachers;
}

static bool holds_pattern(cu_deviceptr pointer)
{
	unsigned char *wanted = part_pattern(SIZE, 1), *found = calloc(1, SIZE);
	bool same = part_driver()->cuMemcpyDtoH_v2(found, pointer, SIZE) == CU_OK &&
		    !memcmp(wanted, found, SIZE);

	free(wanted);
	free(found);
	return same;
}

static void consume(void)
{
	cu_deviceptr pointers[3], again;
	struct live entry;

	preloaded(NULL, "w:nth=1,v:nth=2,w:nth=3");
	hear();
	for (int i = 0; i < 3; i++) {
		errno = 77;
		CHECK(preloaded_alloc(&pointers[i], SIZE - (size_t)i) == CU_OK && errno == 77);
		CHECK(holds_pattern(pointers[i]));
	}
	CHECK(pointers[0] == pointers[2]); /* the driver returns the same address and counts */
	CHECK(attachers("w") == 2 && attachers("v") == 1);
	CHECK(live_find(pointers[1], pointers[1], &entry) && entry.kind == LIVE_VMM &&
	      entry.size == SIZE - 1);
	CHECK(live_find(pointers[0], pointers[0], &entry) && entry.kind == LIVE_IPC &&
	      entry.count == 2);
	CHECK(preloaded_alloc(&again, SIZE) == CU_OK && !holds_pattern(again)); /* ordinary */
	for (int i = 0; i < 3; i++) {
		errno = 77;
		CHECK(preloaded_free(pointers[i]) == CU_OK && errno == 77);
	}
	CHECK(attachers("w") == 0 && attachers("v") == 0 && !live_any());
	CHECK(preloaded_free(pointers[0]) == CU_INVALID_VALUE);
	CHECK(preloaded_free(again) == CU_OK);
	CHECK(preloaded_logged("\"w\" is attached: 100000 of 100000 bytes asked for") == 1);
	CHECK(preloaded_logged("\"v\" is attached: 99999 of 2097152 bytes asked for") == 1);
	say();
}

/* Make the one allocation under `rule` and expect a refusal: check the log's line and what the
 * program gets. */
static void refused(const char *rule, size_t size, cu_result result, const char *why)
{
	char wanted[256];
	const char *said;
	cu_deviceptr pointer = 16;

	preloaded(NULL, rule);
	preloaded_hush();
	CHECK(preloaded_alloc(&pointer, size) == result);
	CHECK(!*preloaded_hushed());
	said = preloaded_log();
	snprintf(wanted, sizeof(wanted), "]: \"%.*s\" is not attached: ", (int)strcspn(rule, ":"),
		 rule);
	if (preloaded_logged(wanted) != 1 || !strstr(said, why))
		part_fail(__FILE__, __LINE__, "logged: %s, not %s", said, why);
	CHECK(strstr(said, result == CU_OK
			       ? "; the program gets ordinary memory\n"
			       : "; the allocation fails, as the rule says \"must\"\n"));
	CHECK(!live_any());
	if (result == CU_OK)
		CHECK(preloaded_works(pointer, size) && preloaded_free(pointer) == CU_OK);
	else
		CHECK(pointer == 16);
}

static void too_small(void)
{
	hear();
	refused("w", SIZE + 1, CU_OK, "it has 100000 bytes, the program asks for 100001;");
	CHECK(attachers("w") == 0);
	say();
}

static void too_small_must(void)
{
	hear();
	refused("v:must", BLOCK + 1, CU_OUT_OF_MEMORY,
		"it has 2097152 bytes, the program asks for 2097153;");
	CHECK(attachers("v") == 0);
	say();
}

static void no_such_name(void)
{
	hear();
	refused("x:must", 1, CU_OUT_OF_MEMORY, "\"x\"");
	say();
}

static void not_visible(void)
{
	hear();
	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	setenv("GPUSHARE_SIM_PEERS", "0", 1);
	refused("w:must", 1, CU_INVALID_DEVICE, "its GPU is not visible to this process, and");
	CHECK(attachers("w") == 0);
	say();
}

static void not_opened(void)
{
	hear();
	setenv("GPUSHARE_SIM_FAIL", "cuIpcOpenMemHandle:1:1:201", 1);
	refused("w", 1, CU_OK, "who has the same pid in another container");
	CHECK(attachers("w") == 0);
	say();
}

static void not_mapped(void)
{
	hear();
	setenv("GPUSHARE_SIM_FAIL", "cuMemSetAccess:1:1:101", 1);
	refused("v:must", 1, CU_INVALID_DEVICE,
		"cuMemSetAccess answered CUDA_ERROR_INVALID_DEVICE;");
	CHECK(attachers("v") == 0);
	say();
}

static void of_its_own(void)
{
	struct gpushare_buffer *buffer;
	struct gpushare_info info;
	struct gpushare_session *session;

	preloaded(NULL, "mine");
	session = part_session();
	OK(gpushare_alloc(session, "mine", 0, SIZE, &buffer));
	refused("mine", 1, CU_OK, "this process owns it;");
	OK(gpushare_stat(session, "mine", &info));
	CHECK(info.attachers == 0);
	OK(gpushare_close(session));
}

static void test_refusals(void **state)
{
	stage_play(produce, too_small);
	stage_play(produce, too_small_must);
	stage_play(produce, no_such_name);
	stage_play(produce, not_visible);
	stage_play(produce, not_opened);
	stage_play(produce, not_mapped);
	stage_play(of_its_own, NULL);
}

/* A buffer on the device can't replace managed memory. */
static void managed(const char *rule, cu_result result)
{
	const struct driver *driver = preloaded(NULL, rule);
	cu_deviceptr pointer;

	hear();
	preloaded_hush();
	CHECK(buffers_alloc_managed(driver->cuMemAllocManaged, CALLER, &pointer, 100,
				    CU_MANAGED_GLOBAL) == result);
	CHECK(!*preloaded_hushed());
	CHECK(preloaded_logged("managed memory is for the CPU too") == 1);
	CHECK(result != CU_OK || preloaded_free(pointer) == CU_OK);
	say();
}

static void managed_ordinary(void)
{
	managed("w", CU_OK);
}

static void managed_must(void)
{
	managed("w:must", CU_NOT_SUPPORTED);
}

static cu_mem_prop here(void)
{
	return (cu_mem_prop){.type = CU_ALLOCATION_PINNED,
			     .location = {.type = CU_LOCATION_DEVICE}};
}

/* The program asks for a handle to map by itself. Only cuMemCreate memory of exactly that size
 * can serve. */
static void create(const char *rule, size_t size, cu_result result, const char *why)
{
	const struct driver *driver = preloaded(NULL, rule);
	const cu_mem_prop prop = here();
	cu_mem_handle handle = 16;
	const char *said;

	hear();
	preloaded_hush();
	CHECK(buffers_create(driver->cuMemCreate, CALLER, &handle, size, &prop, 0) == result);
	CHECK(!*preloaded_hushed());
	said = preloaded_log();
	if (why ? !strstr(said, why) : strstr(said, "is not attached") != NULL)
		part_fail(__FILE__, __LINE__, "logged: %s, not %s", said, why ? why : "nothing");
	CHECK(result == CU_OK || handle == 16);
	CHECK(attachers("v") == (why ? 0 : 1) && attachers("w") == 0);
	CHECK(result != CU_OK || buffers_release(driver->cuMemRelease, handle) == CU_OK);
	CHECK(attachers("v") == 0);
	say();
}

static void create_attached(void)
{
	create("v", BLOCK, CU_OK, NULL);
}

static void create_of_ipc(void)
{
	create("w:must", 2048, CU_NOT_SUPPORTED, "it is cudaMalloc memory, and");
}

static void create_of_another_size(void)
{
	create("v:must", 2048, CU_OUT_OF_MEMORY,
	       "it is 2097152 bytes in one piece, the program asks for a piece of 2048;");
}

static void create_ordinary(void)
{
	create("v", 2 * BLOCK, CU_OK,
	       "it has 2097152 bytes, the program asks for 4194304; the program");
}

static void test_by_handle(void **state)
{
	stage_play(produce, managed_ordinary);
	stage_play(produce, managed_must);
	stage_play(produce, create_attached);
	stage_play(produce, create_of_ipc);
	stage_play(produce, create_of_another_size);
	stage_play(produce, create_ordinary);
}

STAGE_MAIN(SCENE(produce, consume), STAGED(test_refusals), STAGED(test_by_handle))
