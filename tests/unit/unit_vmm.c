/* SPDX-License-Identifier: MIT */
/* Mapped memory: made, mapped from a descriptor, at a wanted address, for which devices; with
 * each driver call failing. And the link that keeps GPUs joined between two mappings. */
#include "unit.h"

#include "cuda/vmm.h"
#include "cuda/vmm_peers.h"
#include "descriptors.h"
#include "stage.h"

#define SIZE ((size_t)4 << 20)

/* Make memory in this process and return it as an exported descriptor. */
static int exported_memory(const struct driver *driver, size_t size)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = CU_LOCATION_DEVICE},
	};
	cu_mem_handle handle;
	int fd = -1;

	CHECK(driver->cuMemCreate(&handle, size, &prop, 0) == CU_OK);
	CHECK(driver->cuMemExportToShareableHandle(&fd, handle, (cu_handle_type)CU_HANDLE_POSIX_FD,
						   0) == CU_OK);
	CHECK(driver->cuMemRelease(handle) == CU_OK);
	return fd;
}

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

/* One call after another fails. Each is named, and no handle, address or descriptor is left. */
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
		CHECK(descriptors_open() == before); /* a handle or a mapping has one */
	}
	CHECK(vmm_map(driver, fd, SIZE, 0, NULL, &mapping, &(const char *){NULL}) == CU_OK);
	CHECK(vmm_unmap(driver, &mapping) == CU_OK);
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
	CHECK(vmm_make(driver, 1, 0, &made) == CU_OK && made.size == (uint64_t)2 << 20);
	CHECK(vmm_unmap(driver, &made) == CU_OK);
}

static struct {
	const struct driver *real;
	cu_result hint_answer; /* CU_OK: it returns another address */
	int hints, plain;
} reserving;

static cu_result reserve_elsewhere(cu_deviceptr *pointer, size_t size, size_t alignment,
				   cu_deviceptr want, unsigned long long flags)
{
	(*(want ? &reserving.hints : &reserving.plain))++;
	if (want && reserving.hint_answer != CU_OK)
		return reserving.hint_answer;
	return reserving.real->cuMemAddressReserve(pointer, size, alignment, 0, flags);
}

static bool is_in_range(uint64_t pointer)
{
	return pointer >= UINT64_C(0x380000000000) && pointer < UINT64_C(0x500000000000);
}

static void range(void)
{
	static const size_t sizes[] = {1, SIZE, SIZE, (size_t)512 << 20, (size_t)1 << 30};
	const struct driver *driver = part_driver();
	struct vmm_mapping made[sizeof(sizes) / sizeof(*sizes)];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		errno = 77;
		CHECK(vmm_make(driver, sizes[i], 0, &made[i]) == CU_OK);
		CHECK(errno == 77);
		CHECK(is_in_range(made[i].pointer));
		CHECK(made[i].pointer % (i < 3 ? (size_t)32 << 20 : (size_t)512 << 20) == 0);
		for (size_t j = 0; j < i; j++)
			CHECK(made[i].pointer >= made[j].pointer + made[j].size ||
			      made[j].pointer >= made[i].pointer + made[i].size);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		CHECK(vmm_unmap(driver, &made[i]) == CU_OK);
}

/* Outside the range the memory is made all the same. After `hints` answers the range is not
 * asked for any more. */
static void no_range(cu_result answer, int hints)
{
	struct driver driver = *part_driver();
	struct vmm_mapping first, second;

	reserving.real = part_driver();
	reserving.hint_answer = answer;
	driver.cuMemAddressReserve = reserve_elsewhere;
	CHECK(vmm_make(&driver, SIZE, 0, &first) == CU_OK);
	CHECK(vmm_make(&driver, SIZE, 0, &second) == CU_OK);
	CHECK(reserving.hints == hints);
	CHECK(reserving.plain == 2);
	CHECK(driver.cuMemsetD8_v2(first.pointer, 1, SIZE) == CU_OK);
	CHECK(vmm_unmap(&driver, &first) == CU_OK && vmm_unmap(&driver, &second) == CU_OK);
}

static void other_addresses(void)
{
	no_range(CU_OK, 3);
}

static void hint_refused(void)
{
	no_range(CU_INVALID_VALUE, 1);
}

/* The devices that cuMemSetAccess was asked for, and those that it refuses. */
static struct {
	const struct driver *real;
	int no_way_from, refused; /* devices; -1: none */
	size_t count;
	struct {
		size_t of;
		int device, flags;
	} asked[16];
} access_seen;

static cu_result set_access(cu_deviceptr pointer, size_t size, const cu_mem_access *access,
			    size_t count)
{
	cu_result result = CU_OK;

	for (size_t i = 0; i < count; i++) {
		CHECK(access_seen.count < 16 && access[i].location.type == CU_LOCATION_DEVICE);
		access_seen.asked[access_seen.count].of = count;
		access_seen.asked[access_seen.count].device = access[i].location.id;
		access_seen.asked[access_seen.count++].flags = (int)access[i].flags;
		if (access[i].location.id == access_seen.refused)
			result = CU_INVALID_DEVICE;
	}
	return result ? result : access_seen.real->cuMemSetAccess(pointer, size, access, count);
}

static cu_result can_peer(int *can, cu_device device, cu_device peer)
{
	*can = device != access_seen.no_way_from;
	return CU_OK;
}

static void saw(size_t at, size_t of, int device, int flags)
{
	CHECK(access_seen.asked[at].of == of && access_seen.asked[at].device == device &&
	      access_seen.asked[at].flags == flags);
}

static void peers(void)
{
	const struct vmm_wish read_only = {.read_only = true};
	struct driver driver;
	struct vmm_mapping mapping = {.size = 1};
	const char *call = UNTOUCHED;
	int fd;

	setenv("GPUSHARE_SIM_DEVICES", "4", 1);
	driver = *part_driver();
	fd = exported_memory(&driver, SIZE);
	access_seen.real = part_driver();
	driver.cuMemSetAccess = set_access;
	driver.cuDeviceCanAccessPeer = can_peer;
	access_seen.no_way_from = 3;
	access_seen.refused = -1;
	CHECK(vmm_make(&driver, SIZE, 1, &mapping) == CU_OK);
	CHECK(vmm_unmap(&driver, &mapping) == CU_OK);
	CHECK(vmm_map(&driver, fd, SIZE, 1, NULL, &mapping, &call) == CU_OK);
	CHECK(vmm_unmap(&driver, &mapping) == CU_OK);
	CHECK(vmm_map(&driver, fd, SIZE, 1, &read_only, &mapping, &call) == CU_OK);
	CHECK(vmm_unmap(&driver, &mapping) == CU_OK);
	CHECK(access_seen.count == 9);
	for (size_t i = 0; i < 9; i += 3) {
		int flags = i < 6 ? CU_ACCESS_READ_WRITE : CU_ACCESS_READ;

		saw(i, 3, 1, flags);
		saw(i + 1, 3, 0, flags);
		saw(i + 2, 3, 2, flags);
	}
	/* A device that is refused takes no access from the others. */
	access_seen.count = 0;
	access_seen.refused = 0;
	CHECK(vmm_make(&driver, SIZE, 1, &mapping) == CU_OK);
	CHECK(vmm_unmap(&driver, &mapping) == CU_OK);
	CHECK(access_seen.count == 6);
	saw(3, 1, 1, CU_ACCESS_READ_WRITE);
	saw(4, 1, 0, CU_ACCESS_READ_WRITE);
	saw(5, 1, 2, CU_ACCESS_READ_WRITE);
	/* The memory's own device must have access. */
	access_seen.count = 0;
	access_seen.refused = 1;
	CHECK(vmm_map(&driver, fd, SIZE, 1, NULL, &mapping, &call) == CU_INVALID_DEVICE);
	CHECK(!strcmp(call, "cuMemSetAccess") && access_seen.count == 4);
	close(fd);
}

#define GRANULE ((size_t)2 << 20)

static struct vmm_links links;

static size_t left_over(const struct driver *driver)
{
	size_t free_bytes = 0, total;

	CHECK(driver->cuMemGetInfo_v2(&free_bytes, &total) == CU_OK);
	return free_bytes;
}

static void keep_one(void)
{
	const struct driver *driver = part_driver();
	size_t before = left_over(driver);
	int open = descriptors_open();

	for (int i = 0; i < 3; i++)
		vmm_links_keep(&links, driver, 0);
	CHECK(links.of[0].kept && !links.of[1].kept);
	CHECK(before - left_over(driver) == GRANULE);
	vmm_links_drop(&links, driver);
	CHECK(left_over(driver) == before && descriptors_open() == open);
	vmm_links_drop(&links, driver);
	CHECK(left_over(driver) == before);
	vmm_links_keep(&links, driver, 0);
	CHECK(before - left_over(driver) == GRANULE);
	vmm_links_drop(&links, driver);
}

static void two_gpus(void)
{
	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	keep_one();
}

/* If no other device reaches this one, or it is no device, no memory is taken. */
static void keep_none(void)
{
	const struct driver *driver = part_driver();
	size_t before = left_over(driver);

	vmm_links_keep(&links, driver, 0);
	vmm_links_keep(&links, driver, -1);
	vmm_links_keep(&links, driver, VMM_DEVICES_MAX);
	CHECK(left_over(driver) == before && !links.of[0].kept);
	vmm_links_drop(&links, driver);
}

/* Each call fails once: nothing is left, and the link is not tried again for every buffer. */
static void fail_to_link(void)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap"};
	const struct driver *driver;
	size_t before;

	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	setenv("GPUSHARE_SIM_FAIL",
	       "cuMemCreate:1:1:2,cuMemAddressReserve:1:1:2,cuMemMap:1:1:1,cuMemSetAccess:1:2:101",
	       1);
	driver = part_driver();
	before = left_over(driver);
	for (size_t i = 0; i < 1 + sizeof(calls) / sizeof(*calls); i++) {
		vmm_links_keep(&links, driver, 0);
		vmm_links_keep(&links, driver, 0);
		CHECK(!links.of[0].kept && left_over(driver) == before);
		vmm_links_drop(&links, driver);
	}
	vmm_links_keep(&links, driver, 0);
	CHECK(links.of[0].kept);
	vmm_links_drop(&links, driver);
	CHECK(left_over(driver) == before);
}

/* A session has one link from its first mapped buffer until it is closed. */
static void cycle_buffers(void)
{
	const struct gpushare_alloc_options mapped = {.flags = GPUSHARE_FLAG_VMM};
	const struct driver *driver;
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	size_t before;

	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	driver = part_driver();
	before = left_over(driver);
	OK(gpushare_open(NULL, &session));
	for (int i = 0; i < 3; i++) {
		OK(gpushare_alloc_with(session, "linked", GRANULE, &mapped, &buffer));
		CHECK(before - left_over(driver) == 2 * GRANULE);
		OK(gpushare_free(buffer));
		CHECK(before - left_over(driver) == GRANULE);
	}
	OK(gpushare_close(session));
	CHECK(left_over(driver) == before);
}

STAGE_MAIN(SCENE(map_twice), SCENE(fail_each), SCENE(wish), SCENE(make), SCENE(make_fails),
	   SCENE(range), SCENE(other_addresses), SCENE(hint_refused), SCENE(peers), SCENE(two_gpus),
	   SCENE(keep_none), SCENE(fail_to_link), SCENE(cycle_buffers))
