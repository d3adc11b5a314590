/* SPDX-License-Identifier: MIT */
/*
 * What a memory pool counts, keeps and gives back, and which GPUs have access. Measured on H200s,
 * driver 580.159.04.
 */
#include "contract.h"

#define MIB ((size_t)1 << 20)
#define PIECE (32 * MIB) /* the unit in which a pool reserves memory and gives it back */

static const struct driver *driver;
static cu_mem_pool pool;

static cu_mem_pool pool_new(int handle_types)
{
	const cu_pool_props props = {.allocType = CU_ALLOCATION_PINNED,
				     .handleTypes = handle_types,
				     .location = {.type = CU_LOCATION_DEVICE, .id = 0}};
	cu_mem_pool made = NULL;

	EXPECT(CU_OK, driver->cuMemPoolCreate(&made, &props));
	return made;
}

static void begin(void)
{
	driver = contract_context(0);
	pool = pool_new(0);
}

static uint64_t get(int attribute)
{
	uint64_t value = 77;

	EXPECT(CU_OK, driver->cuMemPoolGetAttribute(pool, (cu_pool_attribute)attribute, &value));
	return value;
}

static cu_result set(int attribute, uint64_t value)
{
	return driver->cuMemPoolSetAttribute(pool, (cu_pool_attribute)attribute, &value);
}

static void is(uint64_t used, uint64_t reserved)
{
	CHECK(get(CU_POOL_USED) == used);
	CHECK(get(CU_POOL_RESERVED) == reserved);
}

static cu_deviceptr take(size_t size)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK, driver->cuMemAllocFromPoolAsync(&pointer, size, pool, NULL));
	return pointer;
}

static void give(cu_deviceptr pointer)
{
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, NULL));
}

static void synchronize(void)
{
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
}

static void trim(size_t keep)
{
	EXPECT(CU_OK, driver->cuMemPoolTrimTo(pool, keep));
}

/* "Used" is the bytes requested and not freed. "Reserved" shrinks at a synchronization. */
static void counts(int peer)
{
	static const size_t sizes[] = {1, 700, 2 * MIB, 3000000, 40 * MIB, 64 * MIB, 100 * MIB};
	cu_deviceptr first, second;

	begin();
	is(0, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t reserved = (sizes[i] + PIECE - 1) / PIECE * PIECE;

		first = take(sizes[i]);
		is(sizes[i], reserved);
		give(first);
		is(0, reserved);
		synchronize();
		is(0, 0);
	}
	first = take(5 * MIB);
	second = take(50 * MIB);
	is(55 * MIB, 64 * MIB);
	give(second);
	synchronize();
	is(5 * MIB, 32 * MIB);
	EXPECT(CU_OK, set(CU_POOL_USED_HIGH, 0));
	EXPECT(CU_OK, set(CU_POOL_RESERVED_HIGH, 0));
	CHECK(get(CU_POOL_USED_HIGH) == 5 * MIB && get(CU_POOL_RESERVED_HIGH) == 32 * MIB);
	EXPECT(CU_INVALID_VALUE, set(CU_POOL_USED_HIGH, 5));
	EXPECT(CU_INVALID_VALUE, set(CU_POOL_RESERVED, 0));
	EXPECT(CU_INVALID_VALUE, set(CU_POOL_USED, 0));
	give(first);
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	is(0, 0);
	CHECK(get(CU_POOL_USED_HIGH) == 5 * MIB && get(CU_POOL_RESERVED_HIGH) == 32 * MIB);
	EXPECT(CU_OK, driver->cuMemPoolDestroy(pool));
}

/*
 * A synchronization keeps at most the threshold. A trim keeps at least its argument. Both keep
 * whole pieces.
 */
static void keeps(int peer)
{
	cu_deviceptr first, second;

	begin();
	EXPECT(CU_OK, set(CU_POOL_THRESHOLD, 70 * MIB));
	first = take(MIB);
	give(take(200 * MIB));
	is(MIB, 224 * MIB);
	synchronize();
	is(MIB, 64 * MIB);
	give(first);
	synchronize();
	is(0, 64 * MIB);
	trim(0);
	is(0, 0);
	EXPECT(CU_OK, set(CU_POOL_THRESHOLD, UINT64_MAX));
	first = take(64 * MIB);
	second = take(MIB);
	is(65 * MIB, 96 * MIB);
	give(first);
	synchronize();
	is(MIB, 96 * MIB);
	trim(40 * MIB);
	is(MIB, 64 * MIB);
	trim(200 * MIB);
	is(MIB, 64 * MIB);
	trim(0);
	is(MIB, 32 * MIB);
	give(second);
	trim(0); /* no effect before a synchronization */
	is(0, 32 * MIB);
	synchronize();
	is(0, 32 * MIB);
	trim(0);
	is(0, 0);
	EXPECT(CU_INVALID_VALUE, driver->cuMemPoolTrimTo(NULL, 0));
}

static cu_result allow(int device, int flags)
{
	const cu_mem_access access = {.location = {.type = CU_LOCATION_DEVICE, .id = device},
				      .flags = flags};

	return driver->cuMemPoolSetAccess(pool, &access, 1);
}

static int access_of(int device)
{
	cu_mem_location location = {.type = CU_LOCATION_DEVICE, .id = device};
	cu_access_flags flags = (cu_access_flags)9;

	EXPECT(CU_OK, driver->cuMemPoolGetAccess(&flags, pool, &location));
	return (int)flags;
}

static void own_access(int peer)
{
	uint64_t types = 77;
	cu_mem_pool its = NULL;
	cu_context context = NULL;
	bool legacy = true;

	begin();
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&context));
	CHECK(context);
	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &context, (cu_pointer_attribute)CU_ATTRIBUTE_CONTEXT, take(5)));
	CHECK(!context);
	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &legacy, (cu_pointer_attribute)CU_ATTRIBUTE_LEGACY_IPC_CAPABLE, take(5)));
	CHECK(!legacy);
	CHECK(access_of(0) == CU_ACCESS_READ_WRITE);
	EXPECT(CU_OK, allow(0, CU_ACCESS_READ_WRITE));
	EXPECT(CU_NOT_SUPPORTED, allow(0, CU_ACCESS_READ));
	EXPECT(CU_INVALID_DEVICE, allow(0, 0));
	EXPECT(CU_INVALID_DEVICE, allow(99, CU_ACCESS_READ_WRITE));
	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &types, (cu_pointer_attribute)CU_ATTRIBUTE_HANDLE_TYPES, take(5)));
	CHECK(types == 0);
	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &its, (cu_pointer_attribute)CU_ATTRIBUTE_MEMPOOL, take(5)));
	CHECK(its == pool);
	pool = pool_new(CU_HANDLE_POSIX_FD);
	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &types, (cu_pointer_attribute)CU_ATTRIBUTE_HANDLE_TYPES, take(5)));
	CHECK(types == CU_HANDLE_POSIX_FD);
}

static void peer_access(int peer)
{
	cu_deviceptr pointer;
	unsigned char byte = 0;
	cu_context here, there;
	int can = 0;

	contract_need_devices(2);
	begin();
	EXPECT(CU_OK, driver->cuDeviceCanAccessPeer(&can, 1, 0));
	if (!can)
		contract_skip("the two GPUs have no peer access");
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&here));
	EXPECT(CU_OK, driver->cuDevicePrimaryCtxRetain(&there, 1));
	pointer = take(2 * MIB);
	synchronize();
	CHECK(access_of(1) == 0);
	EXPECT(CU_OK, driver->cuCtxSetCurrent(there));
	EXPECT(CU_INVALID_VALUE, driver->cuMemsetD8_v2(pointer, 9, 4));
	EXPECT(CU_INVALID_VALUE, driver->cuMemcpyDtoH_v2(&byte, pointer, 1));
	EXPECT(CU_NOT_SUPPORTED, allow(1, CU_ACCESS_READ));
	EXPECT(CU_OK, allow(1, CU_ACCESS_READ_WRITE));
	CHECK(access_of(1) == CU_ACCESS_READ_WRITE);
	EXPECT(CU_OK, driver->cuMemsetD8_v2(pointer, 9, 4));
	EXPECT(CU_OK, driver->cuMemcpyDtoH_v2(&byte, pointer, 1));
	CHECK(byte == 9);
	EXPECT(CU_OK, allow(1, 0));
	EXPECT(CU_INVALID_VALUE, driver->cuMemsetD8_v2(pointer, 9, 4));
	EXPECT(CU_OK, driver->cuCtxSetCurrent(here));
}

/* Another GPU's context can copy ordinary memory, but not fill it. */
static void plain_there(int peer)
{
	cu_deviceptr pointer;
	unsigned char byte = 0;
	cu_context there;

	contract_need_devices(2);
	driver = contract_context(0);
	pointer = contract_filled(4096, 5);
	EXPECT(CU_OK, driver->cuDevicePrimaryCtxRetain(&there, 1));
	EXPECT(CU_OK, driver->cuCtxSetCurrent(there));
	EXPECT(CU_INVALID_VALUE, driver->cuMemsetD8_v2(pointer, 9, 4));
	EXPECT(CU_OK, driver->cuMemcpyDtoH_v2(&byte, pointer, 1));
	CHECK(byte == 5);
}

UNIT_MAIN(ALONE(a_pool_counts_what_is_used_and_reserves_in_pieces, counts),
	  ALONE(a_pool_keeps_what_its_threshold_and_a_trim_say, keeps),
	  ALONE(a_pool_is_its_own_devices_and_says_how_it_travels, own_access),
	  ALONE(access_for_another_device_is_for_what_was_given_too, peer_access),
	  ALONE(ordinary_memory_is_not_filled_from_another_device, plain_there))
