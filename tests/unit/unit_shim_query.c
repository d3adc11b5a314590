/* SPDX-License-Identifier: MIT */
/* Queries of the program about a pointer: of named memory, of memory that is mapped in place of
 * its own, and of memory that it has freed. The test plays the driver. */
#include "unit.h"

#include "preload/shim_buffers.h"
#include "preload/shim_ipc.h"
#include "preload/shim_linger.h"
#include "preload/shim_lookup.h"
#include "preload/shim_process.h"

#define STEP ((uint64_t)2 << 20)
#define CONTEXT ((cu_context)(uintptr_t)0x4000)

static struct {
	struct driver driver;
	const struct driver *standing; /* NULL: the program has no driver */
	bool lingers, forked, ending;
	uint64_t held; /* address of memory that the program has freed and the shim holds */
	cu_result to_range, to_current, to_real, to_open, to_close;
	bool is_ours; /* the closed pointer is of an opened handle */
	cu_context current;
	unsigned int real, claims, opens;
} played;

static bool played_lingers(void)
{
	return played.lingers;
}

static bool played_holds(uint64_t base, uint64_t size)
{
	return played.held >= base && played.held - base < size;
}

static bool played_is_mine(void)
{
	return !played.forked;
}

static void played_claim(void)
{
	played.claims++;
}

static cu_result played_open(const struct driver *driver, cu_deviceptr *out_pointer,
			     const cu_ipc_mem_handle *handle, unsigned int flags)
{
	assert_true(driver && handle && flags == 1);
	played.opens++;
	*out_pointer = 5 * STEP;
	return played.to_open;
}

static bool played_close(const struct driver *driver, cu_deviceptr pointer, cu_result *out_result)
{
	assert_true(driver && pointer);
	*out_result = played.to_close;
	return played.is_ours;
}

#define lookup_driver() played.standing
#define linger_any played_lingers
#define linger_holds played_holds
#define process_is_mine played_is_mine
#define process_is_ending() played.ending
#define process_claim played_claim
#define ipc_open played_open
#define ipc_close played_close
#include "preload/shim_query.c"

/* An allocation begins at each STEP. */
static cu_result range_of(cu_deviceptr *out_base, size_t *out_size, cu_deviceptr pointer)
{
	*out_base = pointer / STEP * STEP;
	*out_size = STEP;
	return played.to_range;
}

static cu_result current_of(cu_context *out_context)
{
	*out_context = played.current;
	return played.to_current;
}

static cu_result real_open(cu_deviceptr *out_pointer, cu_ipc_mem_handle handle, unsigned int flags)
{
	assert_int_equal(handle.reserved[0], 7);
	assert_int_equal(flags, 1);
	played.real++;
	*out_pointer = 9 * STEP;
	return played.to_real;
}

static cu_result real_close(cu_deviceptr pointer)
{
	assert_int_equal(pointer, 9 * STEP);
	played.real++;
	return played.to_real;
}

static int set_up(void **state)
{
	memset(&played, 0, sizeof(played));
	played.driver.cuMemGetAddressRange_v2 = range_of;
	played.driver.cuCtxGetCurrent = current_of;
	played.standing = &played.driver;
	played.current = CONTEXT;
	return 0;
}

static int tear_down(void **state)
{
	struct live out;

	for (uint64_t i = 1; i < 10; i++)
		while (live_take(i * STEP, &out) || live_take_opened(i * STEP, &out))
			;
	assert_false(live_any());
	return 0;
}

static struct live entry_of(uint64_t number, enum live_kind kind)
{
	struct live entry = {.kind = kind,
			     .pointer = number * STEP,
			     .size = 100 + number,
			     .context = CONTEXT,
			     .generation = number,
			     .mapping = {.pointer = number * STEP, .size = STEP},
			     .handle = {(uint8_t)number},
			     .name = "q"};

	entry.reading = resync_readings(&live_resync);
	return entry;
}

static void add(uint64_t number, enum live_kind kind)
{
	const struct live entry = entry_of(number, kind);

	assert_true(live_add(&entry));
}

/* A query of memory that was freed and is held for others becomes a query of NOBODYS, a pointer
 * of no allocation. */
static void freed_memory(void **state)
{
	played.held = 3 * STEP;
	assert_int_equal(buffers_told(3 * STEP + 5), 3 * STEP + 5); /* nothing is held */
	played.lingers = true;
	assert_int_equal(buffers_told(3 * STEP + 5), NOBODYS);
	assert_int_equal(buffers_told(4 * STEP), 4 * STEP);
	played.forked = true;
	assert_int_equal(buffers_told(3 * STEP), 3 * STEP);
	played.forked = false;
	played.to_range = CU_INVALID_VALUE; /* without a range only the exact pointer counts */
	assert_int_equal(buffers_told(3 * STEP + 5), 3 * STEP + 5);
	assert_int_equal(buffers_told(3 * STEP), NOBODYS);
	played.driver.cuMemGetAddressRange_v2 = NULL;
	assert_int_equal(buffers_told(3 * STEP), NOBODYS);
	played.standing = NULL;
	assert_int_equal(buffers_told(3 * STEP), 3 * STEP);
}

static void sizes_as_asked_for(void **state)
{
	cu_deviceptr base = 1;
	size_t size = 1;

	add(1, LIVE_OWN);
	buffers_range(4 * STEP, &base, &size); /* not the shim's: the driver's answer stays */
	assert_true(base == 1 && size == 1);
	errno = 77;
	buffers_range(STEP + 50, &base, &size);
	assert_int_equal(errno, 77);
	assert_true(base == STEP && size == 101);
	base = size = 1;
	buffers_range(STEP, NULL, &size);
	buffers_range(STEP, &base, NULL);
	assert_true(base == STEP && size == 101);
	base = 1;
	played.to_range = CU_INVALID_VALUE; /* without a range only the first byte counts */
	buffers_range(STEP + 50, &base, &size);
	assert_int_equal(base, 1);
	played.standing = NULL;
	buffers_range(STEP, &base, NULL);
	assert_int_equal(base, STEP);
}

static void attributes(void **state)
{
	static const cu_pointer_attribute which[] = {
	    (cu_pointer_attribute)CU_ATTRIBUTE_RANGE_SIZE,
	    (cu_pointer_attribute)CU_ATTRIBUTE_RANGE_START,
	    (cu_pointer_attribute)CU_ATTRIBUTE_CONTEXT,
	    (cu_pointer_attribute)CU_ATTRIBUTE_LEGACY_IPC_CAPABLE};
	const uint64_t of_own[] = {101, STEP, 42, 42},
		       of_mapped[] = {102, 2 * STEP, (uintptr_t)CONTEXT, 1};
	uint64_t value;

	add(1, LIVE_OWN);
	add(2, LIVE_OWN_VMM);
	for (int i = 0; i < 4; i++) {
		value = 42;
		buffers_attribute(STEP, which[i], &value);
		assert_int_equal(value, of_own[i]);
		value = i == 3 ? 0 : 42; /* only one byte is written */
		buffers_attribute(2 * STEP, which[i], &value);
		assert_int_equal(value, of_mapped[i]);
		value = 42;
		buffers_attribute(3 * STEP, which[i], &value);
		assert_int_equal(value, 42);
		buffers_attribute(2 * STEP, which[i], NULL);
	}
	buffers_attribute(2 * STEP, (cu_pointer_attribute)CU_ATTRIBUTE_MEMORY_TYPE, &value);
	assert_int_equal(value, 42);
}

static bool has_handle(cu_deviceptr pointer, cu_result wanted, int first_byte)
{
	cu_ipc_mem_handle handle = {{0}};
	cu_result result = CU_UNKNOWN;

	if (!buffers_handle(pointer, &handle, &result))
		return false;
	assert_int_equal(result, wanted);
	if (first_byte >= 0)
		assert_int_equal((unsigned char)handle.reserved[0], first_byte);
	return true;
}

/* The shim gives its own handle or the owner's, leaves the call to the driver (false), or
 * refuses. */
static void handles(void **state)
{
	struct live entry;

	assert_false(has_handle(STEP, CU_OK, 0)); /* an unknown pointer */
	add(1, LIVE_OWN);
	assert_false(has_handle(STEP, CU_OK, 0) || has_handle(STEP + 5, CU_OK, 0));
	entry = entry_of(2, LIVE_OWN);
	entry.stream_ordered = true;
	assert_true(live_add(&entry) && has_handle(2 * STEP, CU_INVALID_VALUE, 0));
	add(3, LIVE_IPC);
	assert_true(has_handle(3 * STEP, CU_OK, 3));
	entry = entry_of(4, LIVE_IPC);
	/* The owner's handle is of the mapping, which begins before the buffer. */
	entry.mapping.pointer -= 512;
	assert_true(live_add(&entry));
	assert_false(has_handle(4 * STEP, CU_OK, 0));
	assert_true(live_take(4 * STEP, &entry));
	add(5, LIVE_OWN_VMM);
	assert_true(has_handle(5 * STEP, CU_OK, -1) && has_handle(5 * STEP + 9, CU_OK, -1));
	add(6, LIVE_OPENED);
	assert_true(has_handle(6 * STEP, CU_INVALID_VALUE, 0));
}

static void no_handle_of_mapped_memory(void **state)
{
	struct live entry = entry_of(1, LIVE_OWN_VMM);

	entry.stream_ordered = true;
	assert_true(live_add(&entry) && has_handle(STEP, CU_INVALID_VALUE, 0));
	entry.stream_ordered = false;
	entry.managed = true;
	assert_true(live_add(&entry) && has_handle(STEP, CU_INVALID_VALUE, 0));
	entry.managed = false;
	entry.name[0] = '\0';
	assert_true(live_add(&entry) && has_handle(STEP, CU_INVALID_VALUE, 0));
	/* Without a context the error is left to the driver. */
	played.current = NULL;
	assert_false(has_handle(STEP, CU_OK, 0));
	played.current = CONTEXT;
	played.to_current = CU_NOT_INITIALIZED;
	assert_false(has_handle(STEP, CU_OK, 0));
	played.driver.cuCtxGetCurrent = NULL;
	assert_false(has_handle(STEP, CU_OK, 0));
	played.standing = NULL;
	assert_false(has_handle(STEP, CU_OK, 0));
}

static void opened_and_closed(void **state)
{
	const cu_ipc_mem_handle handle = {{7}};
	cu_deviceptr pointer = 0;

	played.to_real = CU_NOT_PERMITTED;
	assert_int_equal(buffers_open_handle(real_open, &pointer, &handle, 1), CU_OK);
	assert_true(pointer == 5 * STEP && played.opens == 1 && played.claims == 1);
	played.to_open = CU_INVALID_HANDLE;
	assert_int_equal(buffers_open_handle(real_open, &pointer, &handle, 1), CU_INVALID_HANDLE);
	played.forked = true;
	assert_int_equal(buffers_open_handle(real_open, &pointer, &handle, 1), CU_NOT_PERMITTED);
	played.forked = false;
	played.ending = true;
	assert_int_equal(buffers_open_handle(real_open, &pointer, &handle, 1), CU_NOT_PERMITTED);
	played.ending = false;
	played.standing = NULL;
	assert_int_equal(buffers_open_handle(real_open, &pointer, &handle, 1), CU_NOT_PERMITTED);
	assert_int_equal(played.real, 3);
	played.is_ours = true;
	assert_int_equal(buffers_close_handle(real_close, 9 * STEP), CU_NOT_PERMITTED);
	played.standing = &played.driver;
	played.forked = true;
	assert_int_equal(buffers_close_handle(real_close, 9 * STEP), CU_NOT_PERMITTED);
	played.forked = false;
	assert_int_equal(played.real, 5);
	played.to_close = CU_INVALID_CONTEXT;
	assert_int_equal(buffers_close_handle(real_close, 9 * STEP), CU_INVALID_CONTEXT);
	played.is_ours = false;
	assert_int_equal(buffers_close_handle(real_close, 9 * STEP), CU_NOT_PERMITTED);
	assert_int_equal(played.real, 6);
}

#define asked(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(asked(freed_memory), asked(sizes_as_asked_for), asked(attributes), asked(handles),
	  asked(no_handle_of_mapped_memory), asked(opened_and_closed))
