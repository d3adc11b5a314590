/* SPDX-License-Identifier: MIT */
/* VMM addresses: what can be mapped and unmapped, and what the driver reports about a range. */
#include "contract.h"

#define BLOCKS(count) ((size_t)(count)*CONTRACT_BLOCK)
#define RESERVED BLOCKS(8)

static const struct driver *driver;
static cu_deviceptr at;

static cu_mem_handle created(size_t size)
{
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;

	EXPECT(CU_OK, driver->cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

static void reserve(void)
{
	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemAddressReserve(&at, RESERVED, 0, 0, 0));
}

static void allow(cu_deviceptr start, size_t size)
{
	cu_mem_access access = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE};

	EXPECT(CU_OK, driver->cuMemSetAccess(start, size, &access, 1));
}

static void whole_handles(int peer)
{
	cu_mem_handle handle;

	reserve();
	handle = created(BLOCKS(2));
	EXPECT(CU_NOT_SUPPORTED, driver->cuMemMap(at, BLOCKS(1), 0, handle, 0));
	EXPECT(CU_NOT_SUPPORTED, driver->cuMemMap(at, BLOCKS(1), BLOCKS(1), handle, 0));
	EXPECT(CU_OK, driver->cuMemMap(at, BLOCKS(2), 0, handle, 0));
	EXPECT(CU_INVALID_VALUE, driver->cuMemMap(at, BLOCKS(2), 0, handle, 0));
	EXPECT(CU_OK, driver->cuMemMap(at + BLOCKS(4), BLOCKS(2), 0, handle, 0));
	allow(at, BLOCKS(2));
	allow(at + BLOCKS(4), BLOCKS(2));
	contract_fill(at, BLOCKS(2), 1);
	CHECK(contract_holds(at + BLOCKS(4), BLOCKS(2), 1)); /* the same memory twice */
}

static void unmapping(int peer)
{
	reserve();
	EXPECT(CU_OK, driver->cuMemUnmap(at, BLOCKS(1))); /* nothing is mapped */
	EXPECT(CU_OK, driver->cuMemMap(at, BLOCKS(2), 0, created(BLOCKS(2)), 0));
	EXPECT(CU_OK, driver->cuMemMap(at + BLOCKS(2), BLOCKS(1), 0, created(BLOCKS(1)), 0));
	allow(at, BLOCKS(3));
	contract_fill(at, BLOCKS(3), 1);
	EXPECT(CU_INVALID_VALUE, driver->cuMemUnmap(at, BLOCKS(1)));
	CHECK(contract_holds(at, BLOCKS(3), 1));
	EXPECT(CU_OK, driver->cuMemUnmap(at, BLOCKS(3)));
	EXPECT(CU_OK, driver->cuMemUnmap(at, BLOCKS(1)));
}

static void is_mapping(cu_deviceptr pointer, cu_deviceptr base, size_t size)
{
	cu_deviceptr its = 0;
	size_t bytes = 0;

	EXPECT(CU_OK, driver->cuMemGetAddressRange_v2(&its, &bytes, pointer));
	CHECK(its == base && bytes == size);
}

static void is_reservation(cu_deviceptr pointer)
{
	cu_deviceptr start = 0;
	size_t size = 0;

	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &start, (cu_pointer_attribute)CU_ATTRIBUTE_RANGE_START, pointer));
	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &size, (cu_pointer_attribute)CU_ATTRIBUTE_RANGE_SIZE, pointer));
	CHECK(start == at && size == RESERVED);
}

static void has_no_mapping(cu_deviceptr pointer)
{
	cu_deviceptr base = 0;
	size_t size = 0;

	EXPECT(CU_NOT_FOUND, driver->cuMemGetAddressRange_v2(&base, &size, pointer));
}

/* cuMemGetAddressRange reports the mapping; the pointer attributes report the reservation. */
static void ranges(int peer)
{
	size_t size = 0;

	reserve();
	has_no_mapping(at);
	EXPECT(CU_INVALID_VALUE, driver->cuPointerGetAttribute(
				     &size, (cu_pointer_attribute)CU_ATTRIBUTE_RANGE_SIZE, at));
	EXPECT(CU_OK, driver->cuMemMap(at, BLOCKS(2), 0, created(BLOCKS(2)), 0));
	has_no_mapping(at); /* no device has access */
	is_reservation(at);
	EXPECT(CU_OK, driver->cuMemMap(at + BLOCKS(2), BLOCKS(1), 0, created(BLOCKS(1)), 0));
	allow(at, BLOCKS(3));
	is_mapping(at, at, BLOCKS(2));
	is_mapping(at + 1, at, BLOCKS(2));
	is_mapping(at + BLOCKS(2), at + BLOCKS(2), BLOCKS(1));
	is_reservation(at + 1);
	is_reservation(at + BLOCKS(2));
}

UNIT_MAIN(ALONE(a_handle_is_mapped_whole_and_as_often_as_one_likes, whole_handles),
	  ALONE(mappings_are_unmapped_whole_and_what_is_none_too, unmapping),
	  ALONE(a_mapping_and_its_reservation_have_each_their_range, ranges))
