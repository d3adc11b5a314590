/* SPDX-License-Identifier: MIT */
/* FACTS.md on cuMemAlloc: how the driver divides memory, and what invalid calls return. */
#include "contract.h"

#define ABSURD ((size_t)1 << 50)
#define STEP ((size_t)512)

static void size_zero(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = 1;
	size_t pitch = 0;

	EXPECT(CU_INVALID_VALUE, driver->cuMemAlloc_v2(&pointer, 0));
	CHECK(pointer == 0);
	EXPECT(CU_INVALID_VALUE, driver->cuMemAllocPitch_v2(&pointer, &pitch, 0, 4, 4));
	EXPECT(CU_INVALID_VALUE, driver->cuMemAllocPitch_v2(&pointer, &pitch, 4, 0, 4));
}

static void out_of_memory(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = 0;

	EXPECT(CU_OUT_OF_MEMORY, driver->cuMemAlloc_v2(&pointer, ABSURD));
	pointer = contract_filled(4096, 7); /* the failed call leaves the context usable */
	CHECK(contract_holds(pointer, 4096, 7));
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
}

static void without_context(int peer)
{
	const struct driver *driver = contract_initialise();
	cu_deviceptr pointer = 0;
	cu_ipc_mem_handle handle = {0};
	size_t pitch = 0;

	EXPECT(CU_INVALID_CONTEXT, driver->cuMemAlloc_v2(&pointer, 4096));
	EXPECT(CU_INVALID_CONTEXT, driver->cuMemAllocPitch_v2(&pointer, &pitch, 64, 4, 4));
	EXPECT(CU_INVALID_CONTEXT, driver->cuIpcGetMemHandle(&handle, 0x1000));
}

static void without_init(int peer)
{
	const struct driver *driver = contract_load();
	cu_deviceptr pointer = 0;
	int count = 0;

	EXPECT(CU_NOT_INITIALIZED, driver->cuMemAlloc_v2(&pointer, 4096));
	EXPECT(CU_NOT_INITIALIZED, driver->cuDeviceGetCount(&count));
}

static cu_deviceptr block_of(cu_deviceptr pointer)
{
	return pointer & ~(cu_deviceptr)(CONTRACT_BLOCK - 1);
}

static void range_is(const struct driver *driver, cu_deviceptr at, cu_deviceptr base, size_t size)
{
	cu_deviceptr its_base = 0;
	size_t its_size = 0;

	EXPECT(CU_OK, driver->cuMemGetAddressRange_v2(&its_base, &its_size, at));
	CHECK(its_base == base);
	CHECK(its_size == size);
}

/* 700 bytes take two steps of 512: they lie in one block, and each has its own size. */
static void small_ones(int peer)
{
	enum { COUNT = 16, SIZE = 700 };
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer[COUNT];
	int same_block = 0, next_step = 0;

	for (int i = 0; i < COUNT; i++)
		pointer[i] = contract_filled(SIZE, (unsigned char)(i + 1));
	for (int i = 0; i < COUNT; i++) {
		CHECK(pointer[i] % STEP == 0);
		CHECK(contract_holds(pointer[i], SIZE, (unsigned char)(i + 1)));
		range_is(driver, pointer[i], pointer[i], SIZE);
		range_is(driver, pointer[i] + SIZE - 1, pointer[i], SIZE);
		same_block += i > 0 && block_of(pointer[i]) == block_of(pointer[0]);
		next_step += i > 0 && pointer[i] == pointer[i - 1] + 2 * STEP;
	}
	CHECK(same_block > COUNT / 2);
	CHECK(next_step > COUNT / 2);
}

/* How many of a few hundred small allocations land between `from` and `to`. */
static int land_between(cu_deviceptr from, cu_deviceptr to)
{
	int count = 0;

	for (int i = 0; i < 512; i++) {
		cu_deviceptr pointer = 0;

		EXPECT(CU_OK, contract_load()->cuMemAlloc_v2(&pointer, STEP));
		count += pointer >= from && pointer < to;
	}
	return count;
}

static void rest_of_a_block(int peer)
{
	size_t size = ((size_t)1 << 20) + 1;
	cu_deviceptr pointer;

	contract_context(0);
	pointer = contract_filled(size, 3);
	CHECK(land_between(pointer + size, block_of(pointer) + CONTRACT_BLOCK) > 0);
	CHECK(contract_holds(pointer, size, 3));
}

static void whole_blocks(int peer)
{
	const struct driver *driver = contract_context(0);

	for (size_t blocks = 1; blocks <= 4; blocks++) {
		cu_deviceptr pointer = contract_filled(blocks * CONTRACT_BLOCK, 4);

		CHECK(pointer % CONTRACT_BLOCK == 0);
		range_is(driver, pointer + 1, pointer, blocks * CONTRACT_BLOCK);
		CHECK(land_between(pointer, pointer + blocks * CONTRACT_BLOCK) == 0);
	}
}

/* The pitch is a multiple of STEP, whatever the element size. */
static void rows(int peer)
{
	static const size_t widths[] = {1, 1000, 4097, 65537};
	static const size_t heights[] = {1, 7, 100};
	const struct driver *driver = contract_context(0);

	for (int i = 0; i < 4 * 3 * 3; i++) {
		size_t width = widths[i / 9], height = heights[i / 3 % 3], pitch = 0;
		cu_deviceptr pointer = 0;

		EXPECT(CU_OK,
		       driver->cuMemAllocPitch_v2(&pointer, &pitch, width, height, 4U << i % 3));
		CHECK(pitch == (width + STEP - 1) / STEP * STEP);
		range_is(driver, pointer + (height - 1) * pitch, pointer, pitch * height);
		EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	}
	EXPECT(CU_INVALID_VALUE,
	       driver->cuMemAllocPitch_v2(&(cu_deviceptr){0}, &(size_t){0}, 64, 4, 3));
}

/* CUDA documents that this call succeeds for a non-pointer, unlike cuPointerGetAttribute. */
static void many_attributes(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_pointer_attribute attributes[] = {
	    (cu_pointer_attribute)CU_ATTRIBUTE_MEMORY_TYPE,
	    (cu_pointer_attribute)CU_ATTRIBUTE_RANGE_SIZE,
	    (cu_pointer_attribute)CU_ATTRIBUTE_LEGACY_IPC_CAPABLE,
	};
	unsigned int type = 77;
	size_t size = 77;
	uint64_t capable = 0; /* a boolean; some drivers write four bytes of it */
	void *values[] = {&type, &size, &capable};
	char mine[64];

	EXPECT(CU_OK, driver->cuPointerGetAttributes(3, attributes, values, (uintptr_t)mine));
	EXPECT(CU_INVALID_VALUE,
	       driver->cuPointerGetAttribute(&type, attributes[0], (uintptr_t)mine));
	EXPECT(CU_OK, driver->cuPointerGetAttributes(3, attributes, values,
						     contract_filled(CONTRACT_BLOCK, 1)));
	CHECK(type == CU_MEMORY_DEVICE);
	CHECK(size == CONTRACT_BLOCK);
	CHECK(capable);
}

UNIT_MAIN(ALONE(size_zero_is_invalid_and_gives_null, size_zero),
	  ALONE(an_absurd_size_is_out_of_memory, out_of_memory),
	  ALONE(no_context_is_invalid_context, without_context),
	  ALONE(no_init_is_not_initialized, without_init),
	  ALONE(small_allocations_share_a_block_in_steps, small_ones),
	  ALONE(the_rest_of_a_block_is_handed_out_too, rest_of_a_block),
	  ALONE(multiples_of_2_mib_have_their_blocks_to_themselves, whole_blocks),
	  ALONE(a_pitched_allocation_has_its_rows_a_multiple_of_a_step_apart, rows),
	  ALONE(many_attributes_of_no_pointer_are_no_error, many_attributes))
