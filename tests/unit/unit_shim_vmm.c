/* SPDX-License-Identifier: MIT */
/* Named cuMemCreate memory: how long its name stays. */
#include "unit.h"

#include "preloaded.h"

static const void *const CALLER = (const void *)preloaded;

static const struct driver *driver;
static cu_deviceptr room; /* reserved: four blocks */
static struct gpushare_info info;

static cu_mem_prop here(void)
{
	return (cu_mem_prop){.type = CU_ALLOCATION_PINNED,
			     .location = {.type = CU_LOCATION_DEVICE}};
}

static cu_mem_handle create(size_t size)
{
	const cu_mem_prop prop = here();
	cu_mem_handle handle = 0;

	errno = 77;
	CHECK(buffers_create(driver->cuMemCreate, CALLER, &handle, size, &prop, 0) == CU_OK);
	CHECK(errno == 77 && prop.requestedHandleTypes == 0);
	return handle;
}

static cu_result map(cu_mem_handle handle, size_t at)
{
	return buffers_map(driver->cuMemMap, room + at, BLOCK, 0, handle, 0);
}

static cu_result unmap(size_t at, size_t size)
{
	return buffers_unmap(driver->cuMemUnmap, room + at, size);
}

static cu_result release(cu_mem_handle handle)
{
	return buffers_release(driver->cuMemRelease, handle);
}

static bool stands(const char *name)
{
	return preloaded_finds(name, &info);
}

static void begin(const char *rules)
{
	driver = preloaded(rules, NULL);
	CHECK(driver->cuMemAddressReserve(&room, 4 * BLOCK, 0, 0, 0) == CU_OK);
}

static void name_one(void)
{
	cu_mem_handle handle;
	cu_uuid uuid;

	begin("w");
	handle = create(2 * BLOCK);
	CHECK(stands("w") && info.size == 2 * BLOCK && info.base_size == 2 * BLOCK);
	CHECK(info.base_offset == 0 && info.backing == GPUSHARE_BACKING_VMM && info.isolated);
	CHECK(driver->cuDeviceGetUuid_v2(&uuid, 0) == CU_OK);
	CHECK(!memcmp(uuid.bytes, info.device_uuid, sizeof(uuid.bytes)));
	CHECK(release(handle) == CU_OK && !stands("w"));
	CHECK(release(handle) != CU_OK); /* the driver refuses that */
}

/* The name ends with the last handle or the last mapping, whichever is later. */
static void handles_and_mappings(void)
{
	const struct driver *real;
	cu_mem_handle handle, retained = 0;

	begin("w%i");
	real = driver;
	handle = create(BLOCK);
	CHECK(map(handle, 0) == CU_OK && release(handle) == CU_OK && stands("w0"));
	CHECK(unmap(0, BLOCK) == CU_OK && !stands("w0"));

	handle = create(BLOCK);
	CHECK(map(handle, 0) == CU_OK && unmap(0, BLOCK) == CU_OK && stands("w1"));
	CHECK(map(handle, BLOCK) == CU_OK && unmap(BLOCK, BLOCK) == CU_OK);
	CHECK(release(handle) == CU_OK && !stands("w1"));

	/* a retained handle counts like the first */
	handle = create(BLOCK);
	CHECK(map(handle, 0) == CU_OK);
	CHECK(buffers_retain(real->cuMemRetainAllocationHandle, &retained,
			     (void *)(uintptr_t)(room + 5)) == CU_OK);
	CHECK(retained == handle && release(handle) == CU_OK && unmap(0, BLOCK) == CU_OK);
	CHECK(stands("w2"));
	CHECK(release(retained) == CU_OK && !stands("w2"));
}

/* One call may unmap several mappings, of several objects. */
static void many_mappings(void)
{
	cu_mem_handle one, two;

	begin("w%i");
	one = create(BLOCK);
	two = create(BLOCK);
	CHECK(map(one, 0) == CU_OK && map(two, BLOCK) == CU_OK && map(one, 2 * BLOCK) == CU_OK);
	CHECK(map(two, BLOCK) != CU_OK); /* the place is taken: counts for nothing */
	CHECK(release(one) == CU_OK && release(two) == CU_OK && stands("w0") && stands("w1"));
	CHECK(unmap(0, 2 * BLOCK) == CU_OK);
	CHECK(stands("w0") && !stands("w1"));
	CHECK(unmap(2 * BLOCK, BLOCK) == CU_OK && !stands("w0"));
}

static unsigned int calls;
static int types[4]; /* the requested handle types */

/* Act as a device that can't export. */
static cu_result create_private(cu_mem_handle *handle, size_t size, const cu_mem_prop *prop,
				unsigned long long options)
{
	types[calls++ % 4] = prop->requestedHandleTypes;
	return prop->requestedHandleTypes ? CU_NOT_SUPPORTED
					  : driver->cuMemCreate(handle, size, prop, options);
}

static cu_result create_nothing(cu_mem_handle *handle, size_t size, const cu_mem_prop *prop,
				unsigned long long options)
{
	calls++;
	return CU_OUT_OF_MEMORY;
}

static void not_exportable(void)
{
	const cu_mem_prop prop = here();
	cu_mem_handle handle = 0;

	begin("w%i");
	CHECK(buffers_create(create_private, CALLER, &handle, BLOCK, &prop, 0) == CU_OK);
	CHECK(calls == 2 && types[0] == CU_HANDLE_POSIX_FD && types[1] == 0 && handle);
	CHECK(preloaded_logged("\"w0\" is not shared: cuMemExportToShareableHandle answered") == 1);
	CHECK(!stands("w0") && map(handle, 0) == CU_OK && unmap(0, BLOCK) == CU_OK);
	CHECK(release(handle) == CU_OK);
}

/* Both attempts fail: the program gets that error, and no name is used up. */
static void not_made(void)
{
	const cu_mem_prop prop = here();
	cu_mem_handle handle = 16;

	begin("w");
	CHECK(buffers_create(create_nothing, CALLER, &handle, BLOCK, &prop, 0) == CU_OUT_OF_MEMORY);
	CHECK(calls == 2 && handle == 16 && !stands("w"));
	handle = create(BLOCK);
	CHECK(stands("w") && release(handle) == CU_OK);
}

/* Host memory, as NCCL makes it, and invalid calls are left to the driver. */
static void left_alone(void)
{
	cu_mem_prop prop = here();
	cu_mem_handle handle;

	begin("w%i");
	prop.location.type = CU_LOCATION_DEVICE + 1;
	CHECK(buffers_create(create_nothing, CALLER, &handle, BLOCK, &prop, 0) == CU_OUT_OF_MEMORY);
	prop = here();
	CHECK(buffers_create(create_nothing, CALLER, NULL, BLOCK, &prop, 0) == CU_OUT_OF_MEMORY);
	CHECK(buffers_create(create_nothing, CALLER, &handle, 0, &prop, 0) == CU_OUT_OF_MEMORY);
	CHECK(buffers_create(create_nothing, CALLER, &handle, BLOCK, NULL, 0) == CU_OUT_OF_MEMORY);
	CHECK(calls == 4 && !stands("w0"));
}

/* For each driver call of the table: once it is missing, once it always fails. */
static cu_result always_fail(void)
{
	return CU_UNKNOWN;
}

static void live_without(const char *call)
{
	cu_mem_handle handle = create(BLOCK);

	CHECK(map(handle, 0) == CU_OK && release(handle) == CU_OK && unmap(0, BLOCK) == CU_OK);
	if (stands("w"))
		part_fail(__FILE__, __LINE__, "without %s the name is left", call);
}

static void lack_each(void)
{
	struct driver whole, *table;
	char rules[4096] = "w:nth=1";

	for (int i = 2; i < 300; i++)
		snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules), ",w:nth=%d", i);
	begin(rules);
	table = preloaded_table();
	whole = *table;
#define F(since, version, name, params) \
	table->name = NULL; \
	live_without(#name); \
	*(void **)&table->name = (void *)always_fail; \
	live_without(#name " at work"); \
	table->name = whole.name;
	CUDA_ABI_CALLS(F)
#undef F
	CHECK(preloaded_logged("is shared") > 100);
	CHECK(preloaded_logged("is not shared: cuMemExportToShareableHandle answered") == 2);
}

STAGE_MAIN(SCENE(name_one), SCENE(handles_and_mappings), SCENE(many_mappings),
	   SCENE(not_exportable), SCENE(not_made), SCENE(left_alone), SCENE(lack_each))
