/* SPDX-License-Identifier: MIT */
/* Making memory and mapping a descriptor's: what it gives, and each call of the driver failing. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "descriptors.h"
#include "exported.h"
#include "stage.h"
#include "cuda/vmm.h"

#define SIZE ((size_t)4 << 20)

static const char *const UNTOUCHED = "untouched";

static void map_twice(void)
{
	const struct driver *driver = part_driver();
	int fd = exported_memory(driver, SIZE), before = descriptors_open();
	struct vmm_mapping one, two;
	const char *call = UNTOUCHED;
	unsigned char byte = 0;
	cu_deviceptr base;
	size_t size;

	CHECK(vmm_map(driver, fd, SIZE, 0, NULL, &one, &call) == CU_OK);
	CHECK(vmm_map(driver, fd, SIZE, 0, NULL, &two, &call) == CU_OK);
	CHECK(call == UNTOUCHED);
	CHECK(one.pointer != two.pointer && one.size == SIZE);
	CHECK(driver->cuMemGetAddressRange_v2(&base, &size, one.pointer + 1) == CU_OK);
	CHECK(base == one.pointer && size == SIZE);
	CHECK(driver->cuMemsetD8_v2(one.pointer + SIZE - 1, 77, 1) == CU_OK);
	CHECK(vmm_unmap(driver, &one) == CU_OK);
	CHECK(driver->cuMemcpyDtoH_v2(&byte, two.pointer + SIZE - 1, 1) == CU_OK && byte == 77);
	CHECK(driver->cuMemcpyDtoH_v2(&byte, one.pointer, 1) != CU_OK);
	CHECK(vmm_unmap(driver, &two) == CU_OK);
	CHECK(vmm_unmap(driver, &two) != CU_OK);
	CHECK(descriptors_open() == before);
	close(fd);
}

/* One failure after another; each is named, and leaves neither handle, address nor descriptor. */
static void fail_each(void)
{
	static const struct {
		const char *call;
		cu_result result;
	} fails[] = {
	    {"cuMemImportFromShareableHandle", CU_NOT_SUPPORTED},
	    {"cuMemAddressReserve", CU_OUT_OF_MEMORY},
	    {"cuMemMap", CU_INVALID_VALUE},
	    {"cuMemSetAccess", CU_INVALID_DEVICE},
	};
	const struct driver *driver;
	struct vmm_mapping mapping = {.size = 1};
	int fd, before;

	setenv("GPUSHARE_SIM_FAIL",
	       "cuMemImportFromShareableHandle:1:1:801,cuMemAddressReserve:1:1:2,cuMemMap:1:1:1,"
	       "cuMemSetAccess:1:1:101",
	       1);
	driver = part_driver();
	fd = exported_memory(driver, SIZE);
	before = descriptors_open();
	for (size_t i = 0; i < sizeof(fails) / sizeof(*fails); i++) {
		const char *call = UNTOUCHED;

		CHECK(vmm_map(driver, fd, SIZE, 0, NULL, &mapping, &call) == fails[i].result);
		CHECK(!strcmp(call, fails[i].call));
		CHECK(mapping.size == 1);
		CHECK(descriptors_open() == before); /* a handle or a mapping holds one */
	}
	CHECK(vmm_map(driver, fd, SIZE, 0, NULL, &mapping, &(const char *){NULL}) == CU_OK);
	CHECK(vmm_unmap(driver, &mapping) == CU_OK);
	CHECK(descriptors_open() == before);
	close(fd);
}

static void lack_each(void)
{
	struct driver whole = *part_driver(), lacking;
	struct vmm_mapping mapping = {.size = 1};
	int fd = exported_memory(&whole, SIZE), before = descriptors_open();
	const char *call;

#define LACKS(name) \
	do { \
		lacking = whole; \
		lacking.name = NULL; \
		call = UNTOUCHED; \
		CHECK(vmm_map(&lacking, fd, SIZE, 0, NULL, &mapping, &call) == CU_NOT_SUPPORTED); \
		CHECK(!strcmp(call, #name)); \
		CHECK(vmm_unmap(&lacking, &mapping) == CU_NOT_SUPPORTED); \
	} while (0)
	LACKS(cuMemImportFromShareableHandle);
	LACKS(cuMemRelease);
	LACKS(cuMemAddressReserve);
	LACKS(cuMemAddressFree);
	LACKS(cuMemMap);
	LACKS(cuMemUnmap);
	LACKS(cuMemSetAccess);
#undef LACKS
	CHECK(mapping.size == 1);
	CHECK(descriptors_open() == before);
	close(fd);
}

static void wish(void)
{
	const struct driver *driver = part_driver();
	int fd = exported_memory(driver, SIZE), before = descriptors_open();
	const char *call = UNTOUCHED;
	struct vmm_mapping one, two = {.size = 1}, three;
	struct vmm_wish where = {.must = true};

	CHECK(vmm_map(driver, fd, SIZE, 0, &where, &one, &call) == CU_OK);
	where.address = one.pointer;
	CHECK(vmm_map(driver, fd, SIZE, 0, &where, &two, &call) == VMM_ADDRESS_TAKEN);
	CHECK(two.size == 1);
	where.must = false;
	CHECK(vmm_map(driver, fd, SIZE, 0, &where, &two, &call) == CU_OK);
	CHECK(two.pointer != one.pointer);
	CHECK(vmm_unmap(driver, &one) == CU_OK);
	where.must = where.read_only = true;
	CHECK(vmm_map(driver, fd, SIZE, 0, &where, &three, &call) == CU_OK);
	CHECK(three.pointer == one.pointer);
	CHECK(driver->cuMemsetD8_v2(two.pointer, 5, 1) == CU_OK);
	CHECK(driver->cuMemsetD8_v2(three.pointer, 6, 1) != CU_OK);
	CHECK(driver->cuMemcpyDtoH_v2(&(unsigned char){0}, three.pointer, 1) == CU_OK);
	CHECK(vmm_unmap(driver, &two) == CU_OK && vmm_unmap(driver, &three) == CU_OK);
	CHECK(descriptors_open() == before);
	close(fd);
}

static void make(void)
{
	const struct driver *driver;
	struct vmm_mapping made, mapped;
	const char *call = UNTOUCHED;
	unsigned char byte = 0;
	int fd = -1, before;

	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	driver = part_driver();
	before = descriptors_open();
	CHECK(vmm_make(driver, SIZE - 5, 1, &made) == CU_OK);
	CHECK(made.size == SIZE);
	CHECK(driver->cuMemExportToShareableHandle(&fd, made.handle,
						   (cu_handle_type)CU_HANDLE_POSIX_FD, 0) == CU_OK);
	CHECK(driver->cuMemsetD8_v2(made.pointer + SIZE - 1, 77, 1) == CU_OK);
	CHECK(vmm_unmap(driver, &made) == CU_OK);
	CHECK(vmm_map(driver, fd, SIZE, 1, NULL, &mapped, &call) == CU_OK);
	CHECK(driver->cuMemcpyDtoH_v2(&byte, mapped.pointer + SIZE - 1, 1) == CU_OK && byte == 77);
	CHECK(vmm_unmap(driver, &mapped) == CU_OK);
	close(fd);
	CHECK(descriptors_open() == before);
}

static void make_fails(void)
{
	static const cu_result answers[] = {1, 2, 3, 1, 101};
	const struct driver *driver;
	struct vmm_mapping made = {.size = 1};
	struct driver lacking;
	int before;

	setenv("GPUSHARE_SIM_FAIL",
	       "cuMemGetAllocationGranularity:1:1:1,cuMemCreate:1:1:2,cuMemAddressReserve:1:2:3,"
	       "cuMemMap:1:1:1,cuMemSetAccess:1:1:101",
	       1);
	driver = part_driver();
	before = descriptors_open();
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		CHECK(vmm_make(driver, SIZE, 0, &made) == answers[i]);
		CHECK(made.size == 1 && descriptors_open() == before);
	}
	CHECK(vmm_make(driver, 0, 0, &made) == CU_INVALID_VALUE);
	CHECK(vmm_make(driver, UINT64_MAX - 1, 0, &made) == CU_INVALID_VALUE);
	lacking = *driver;
	lacking.cuMemCreate = NULL;
	CHECK(vmm_make(&lacking, SIZE, 0, &made) == CU_NOT_SUPPORTED);
	CHECK(vmm_make(driver, 1, 0, &made) == CU_OK && made.size == (uint64_t)2 << 20);
	CHECK(vmm_unmap(driver, &made) == CU_OK);
}

STAGE_MAIN(SCENE(map_twice), SCENE(fail_each), SCENE(lack_each), SCENE(wish), SCENE(make),
	   SCENE(make_fails))
