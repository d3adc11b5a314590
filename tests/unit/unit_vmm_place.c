/* SPDX-License-Identifier: MIT */
/* Where memory is mapped that others may want at the same address, and for which devices. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "exported.h"
#include "stage.h"
#include "cuda/vmm.h"

#define SIZE ((size_t)4 << 20)

static const char *const UNTOUCHED = "untouched";

static struct {
	const struct driver *real;
	cu_result hint_answer; /* CU_OK: another address */
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

/* Elsewhere it is made all the same, and after so many answers nobody asks any more. */
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

/* What cuMemSetAccess was asked, and which of it is refused. */
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
	/* One that is refused takes nothing from the others. */
	access_seen.count = 0;
	access_seen.refused = 0;
	CHECK(vmm_make(&driver, SIZE, 1, &mapping) == CU_OK);
	CHECK(vmm_unmap(&driver, &mapping) == CU_OK);
	CHECK(access_seen.count == 6);
	saw(3, 1, 1, CU_ACCESS_READ_WRITE);
	saw(4, 1, 0, CU_ACCESS_READ_WRITE);
	saw(5, 1, 2, CU_ACCESS_READ_WRITE);
	/* But its own device must have it. */
	access_seen.count = 0;
	access_seen.refused = 1;
	CHECK(vmm_map(&driver, fd, SIZE, 1, NULL, &mapping, &call) == CU_INVALID_DEVICE);
	CHECK(!strcmp(call, "cuMemSetAccess") && access_seen.count == 4);
	close(fd);
}

STAGE_MAIN(SCENE(range), SCENE(other_addresses), SCENE(hint_refused), SCENE(peers))
