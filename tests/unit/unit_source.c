// SPDX-License-Identifier: MIT
/* Memory of the program that is to be shared, with a driver that the test plays: where it lies,
 * how it is exported, and which sentence says that it can't be. */
#include "unit.h"

#include "api/api_source.h"

#define BASE UINT64_C(0x700000000)
#define SIZE ((size_t)4096)
#define OWN_CONTEXT ((cu_context)(uintptr_t)0x10)
#define PRIMARY ((cu_context)(uintptr_t)0x20)

/* The driver's answers; a result that isn't CU_OK makes that call fail. */
static struct {
	cu_result to_ordinal, to_context, to_range, to_handle, to_retain, to_export, to_push;
	cu_result to_type;
	cu_context context;
	bool managed, pooled;
	unsigned int type;
	cu_deviceptr base;
	size_t size;
	int held, pushed;
} memory;

static struct gpushare_session session = {.lock = PTHREAD_MUTEX_INITIALIZER,
					  .devices.lock = PTHREAD_MUTEX_INITIALIZER};
static struct source source;

static cu_result attribute(void *out, cu_pointer_attribute which, cu_deviceptr pointer)
{
	if (which == CU_ATTRIBUTE_DEVICE_ORDINAL) {
		*(int *)out = 0;
		return memory.to_ordinal;
	}
	if (which == CU_ATTRIBUTE_CONTEXT) {
		*(cu_context *)out = memory.context;
		return memory.to_context;
	}
	if (which == CU_ATTRIBUTE_MEMORY_TYPE) {
		*(unsigned int *)out = memory.type;
		return memory.to_type;
	}
	assert_true(which == CU_ATTRIBUTE_IS_MANAGED || which == CU_ATTRIBUTE_MEMPOOL);
	*(char *)out = which == CU_ATTRIBUTE_IS_MANAGED ? memory.managed : memory.pooled;
	return CU_OK;
}

static cu_result range(cu_deviceptr *out_base, size_t *out_size, cu_deviceptr pointer)
{
	*out_base = memory.base;
	*out_size = memory.size;
	return memory.to_range;
}

static cu_result handle_of(cu_ipc_mem_handle *out_handle, cu_deviceptr pointer)
{
	assert_int_equal(pointer, memory.base);
	memset(out_handle, 7, sizeof(*out_handle));
	return memory.to_handle;
}

static cu_result retain(cu_mem_handle *out_handle, void *pointer)
{
	*out_handle = 1;
	memory.held += memory.to_retain == CU_OK;
	return memory.to_retain;
}

static cu_result release(cu_mem_handle handle)
{
	assert_int_equal(handle, 1);
	memory.held--;
	return CU_OK;
}

static cu_result export_to(void *out_fd, cu_mem_handle handle, cu_handle_type type,
			   unsigned long long flags)
{
	assert_int_equal(handle, 1);
	assert_int_equal(flags, 0);
	if (memory.to_export == CU_OK)
		*(int *)out_fd = open("/dev/null", O_RDONLY);
	return memory.to_export;
}

static cu_result push(cu_context context)
{
	memory.pushed += memory.to_push == CU_OK;
	return memory.to_push;
}

static cu_result pop(cu_context *out_context)
{
	*out_context = NULL;
	memory.pushed--;
	return CU_OK;
}

static cu_result get(cu_device *out_device, int ordinal)
{
	*out_device = ordinal;
	return CU_OK;
}

static cu_result uuid_of(cu_uuid *out_uuid, cu_device device)
{
	memset(out_uuid, device + 1, sizeof(*out_uuid));
	return CU_OK;
}

static cu_result retain_primary(cu_context *out_context, cu_device device)
{
	*out_context = PRIMARY;
	return CU_OK;
}

static struct driver driver;

static int set_up(void **state)
{
	driver = (struct driver){
	    .cuPointerGetAttribute = attribute,
	    .cuMemGetAddressRange_v2 = range,
	    .cuIpcGetMemHandle = handle_of,
	    .cuMemRetainAllocationHandle = retain,
	    .cuMemRelease = release,
	    .cuMemExportToShareableHandle = export_to,
	    .cuCtxPushCurrent_v2 = push,
	    .cuCtxPopCurrent_v2 = pop,
	    .cuDeviceGet = get,
	    .cuDeviceGetUuid_v2 = uuid_of,
	    .cuDevicePrimaryCtxRetain = retain_primary,
	};
	memset(&memory, 0, sizeof(memory));
	memory.base = BASE;
	memory.size = SIZE;
	memory.context = OWN_CONTEXT;
	source = (struct source){.pointer = BASE + 256, .size = 1024, .fd = -1};
	return 0;
}

/* After each test no handle is held and no context is left current. */
static int tear_down(void **state)
{
	assert_int_equal(memory.held, 0);
	assert_int_equal(memory.pushed, 0);
	source_finish(&source);
	assert_int_equal(source.fd, -1);
	session.devices.retained[0] = NULL;
	return 0;
}

static void assert_refused(int status, int wanted, const char *part)
{
	assert_int_equal(status, wanted);
	if (!strstr(gpushare_explain(), part))
		fail_msg("\"%s\" is not in \"%s\"", part, gpushare_explain());
}

static void where_it_lies(void **state)
{
	assert_int_equal(source_locate(&session, &driver, &source), GPUSHARE_OK);
	assert_ptr_equal(source.context, OWN_CONTEXT);
	/* If the driver tells no context, the primary context of the device counts. */
	memory.context = NULL;
	assert_int_equal(source_locate(&session, &driver, &source), GPUSHARE_OK);
	assert_ptr_equal(source.context, PRIMARY);
	memory.context = OWN_CONTEXT;
	memory.to_context = CU_NOT_SUPPORTED;
	assert_int_equal(source_locate(&session, &driver, &source), GPUSHARE_OK);
	assert_ptr_equal(source.context, PRIMARY);
	memory.to_ordinal = CU_INVALID_VALUE;
	assert_refused(source_locate(&session, &driver, &source), GPUSHARE_E_NOT_SHAREABLE,
		       "is no address that CUDA knows in this process");
	memory.to_ordinal = CU_NOT_INITIALIZED;
	assert_refused(source_locate(&session, &driver, &source), GPUSHARE_E_CUDA,
		       "CUDA_ERROR_NOT_INITIALIZED");
}

static void by_handle(void **state)
{
	assert_int_equal(source_export(&driver, &source), GPUSHARE_OK);
	assert_int_equal(source.backing, GPUSHARE_BACKING_IPC);
	assert_int_equal(source.base, BASE);
	assert_int_equal(source.uuid[0], 1);
	memory.to_handle = CU_OUT_OF_MEMORY;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NO_MEMORY, "cuIpcGetMemHandle");
	memory.to_push = CU_NOT_INITIALIZED;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_CUDA, "can't be made current");
}

static void what_does_not_fit(void **state)
{
	source.size = SIZE - 255;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_RANGE, "from offset 256");
	source.size = SIZE - 256;
	assert_int_equal(source_export(&driver, &source), GPUSHARE_OK);
	source.size = SIZE_MAX;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_RANGE, "do not fit");
	/* The driver answers with the range of another allocation. */
	source.size = 1;
	memory.base = BASE + 512;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_RANGE, "do not fit");
	memory.base = BASE - SIZE;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_RANGE, "do not fit");
	memory.to_range = CU_NOT_INITIALIZED;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_CUDA, "cuMemGetAddressRange_v2");
}

static void which_memory_has_none(void **state)
{
	memory.to_range = CU_INVALID_VALUE;
	memory.managed = true;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE, "is managed");
	memory.managed = false;
	memory.pooled = true;
	memory.to_range = CU_NOT_FOUND;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE,
		       "is stream-ordered memory (cudaMallocAsync),");
	memory.pooled = false;
	memory.type = CU_MEMORY_HOST;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE, "is host memory");
	memory.to_type = CU_INVALID_VALUE;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE,
		       "that cudaMalloc did not make");
	memory.context = NULL;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE, ", or virtual");
}

static void by_descriptor(void **state)
{
	memory.to_handle = CU_INVALID_VALUE;
	assert_int_equal(source_export(&driver, &source), GPUSHARE_OK);
	assert_int_equal(source.backing, GPUSHARE_BACKING_VMM);
	assert_int_equal(fcntl(source.fd, F_GETFD), FD_CLOEXEC);
}

static void no_descriptor_is_to_be_had(void **state)
{
	static const cu_result none[] = {CU_INVALID_VALUE, CU_NOT_SUPPORTED, CU_NOT_PERMITTED};

	memory.to_handle = CU_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		memory.to_export = none[i];
		assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE,
			       "cuMemCreate without a POSIX file descriptor handle");
		assert_int_equal(source.fd, -1);
	}
	memory.to_export = CU_OUT_OF_MEMORY;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NO_MEMORY,
		       "cuMemExportToShareableHandle answered");
	memory.to_retain = CU_INVALID_VALUE;
	assert_refused(source_export(&driver, &source), GPUSHARE_E_NOT_SHAREABLE,
		       "that cudaMalloc did not make");
}

/* No byte of an attached buffer is shared a second time. Memory beside it may be. */
static void what_is_anothers(void **state)
{
	struct gpushare_buffer own = {.kind = BUFFER_ATTACHED, .opened = BASE};
	struct gpushare_buffer on_host = own;

	own.info.base_size = SIZE;
	strcpy(own.info.name, "theirs");
	own.next = &on_host;
	on_host.opened = BASE + SIZE;
	on_host.host_only = true;
	on_host.info.base_size = SIZE;
	session.buffers = &own;
	assert_refused(source_check_foreign(&session, BASE), GPUSHARE_E_NOT_SHAREABLE,
		       "is 'theirs' of another process");
	assert_int_equal(source_check_foreign(&session, BASE + SIZE - 1), GPUSHARE_E_NOT_SHAREABLE);
	assert_int_equal(source_check_foreign(&session, BASE + SIZE), GPUSHARE_OK);
	assert_int_equal(source_check_foreign(&session, BASE - 1), GPUSHARE_OK);
	session.buffers = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

UNIT_MAIN(TEST(where_it_lies), TEST(by_handle), TEST(what_does_not_fit),
	  TEST(which_memory_has_none), TEST(by_descriptor), TEST(no_descriptor_is_to_be_had),
	  TEST(what_is_anothers))
