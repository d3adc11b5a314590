/* SPDX-License-Identifier: MIT */
/* How a process sees GPUs, with a simulated driver: which device is meant, which can reach it,
 * and the error if none can. */
#include "unit.h"

#include "core/device.h"

#define GPUS_MAX (DEVICE_MAX + 2)

/* The simulated driver's state. A result other than CU_OK makes that call fail. */
static struct {
	int count;
	cu_result to_count, to_get, to_uuid, to_can, to_retain, to_push;
	int fails_at; /* the device that to_get and to_uuid apply to; -1: each */
	bool reach;
	unsigned int retained[GPUS_MAX];
	bool other_was_first; /* another thread retains first */
	int pushed;
} gpus;

static struct devices devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

static cu_result of(int ordinal, cu_result result)
{
	return gpus.fails_at < 0 || gpus.fails_at == ordinal ? result : CU_OK;
}

static cu_result get_count(int *out_count)
{
	*out_count = gpus.count;
	return gpus.to_count;
}

static cu_result get(cu_device *out_device, int ordinal)
{
	*out_device = ordinal;
	return of(ordinal, gpus.to_get);
}

static void uuid_of(int ordinal, unsigned char out[GPUSHARE_UUID_SIZE])
{
	memset(out, ordinal + 1, GPUSHARE_UUID_SIZE);
}

static cu_result get_uuid(cu_uuid *out_uuid, cu_device device)
{
	uuid_of(device, (unsigned char *)out_uuid->bytes);
	return of(device, gpus.to_uuid);
}

static cu_result can_access(int *out_can, cu_device device, cu_device peer)
{
	assert_true(device != peer);
	*out_can = gpus.reach;
	return gpus.to_can;
}

static cu_context context_of(int ordinal)
{
	return (cu_context)(uintptr_t)(0x1000 + ordinal);
}

static cu_result retain(cu_context *out_context, cu_device device)
{
	if (gpus.to_retain != CU_OK)
		return gpus.to_retain;
	gpus.retained[device]++;
	*out_context = context_of(device);
	if (gpus.other_was_first) {
		gpus.retained[device]++;
		devices.retained[device] = context_of(device);
	}
	return CU_OK;
}

static cu_result release(cu_device device)
{
	assert_true(gpus.retained[device]);
	gpus.retained[device]--;
	return CU_OK;
}

static cu_result push(cu_context context)
{
	assert_non_null(context);
	gpus.pushed += gpus.to_push == CU_OK;
	return gpus.to_push;
}

static cu_result pop(cu_context *out_context)
{
	*out_context = NULL;
	gpus.pushed--;
	return CU_OK;
}

static struct driver driver;

static int set_up(void **state)
{
	memset(&gpus, 0, sizeof(gpus));
	gpus.count = 2;
	gpus.fails_at = -1;
	memset(devices.retained, 0, sizeof(devices.retained));
	driver = (struct driver){
	    .cuDeviceGetCount = get_count,
	    .cuDeviceGet = get,
	    .cuDeviceGetUuid_v2 = get_uuid,
	    .cuDeviceCanAccessPeer = can_access,
	    .cuDevicePrimaryCtxRetain = retain,
	    .cuDevicePrimaryCtxRelease_v2 = release,
	    .cuCtxPushCurrent_v2 = push,
	    .cuCtxPopCurrent_v2 = pop,
	};
	unsetenv("CUDA_VISIBLE_DEVICES");
	return 0;
}

static void says(int status, int wanted, const char *words)
{
	assert_int_equal(status, wanted);
	if (!strstr(gpushare_explain(), words))
		fail_msg("\"%s\" does not hold \"%s\"", gpushare_explain(), words);
}

/* Any check that fails or is missing means not reached. */
static void not_reached(void **state)
{
	static const char *const words =
	    "on device 1 of this process, whose memory device 0 can't reach";
	unsigned char uuid[GPUSHARE_UUID_SIZE];
	const int zero = 0;
	int ordinal = 9;

	uuid_of(1, uuid);
	says(device_reach(&driver, uuid, &zero, &ordinal), GPUSHARE_E_DEVICE, words);
	gpus.reach = true;
	gpus.to_can = CU_INVALID_DEVICE;
	says(device_reach(&driver, uuid, &zero, &ordinal), GPUSHARE_E_DEVICE, words);
	assert_int_equal(ordinal, 9);
}

/* The error has CUDA's result and the GPUs that the process sees. */
static void told_why(void **state)
{
	unsigned char uuid[GPUSHARE_UUID_SIZE];

	uuid_of(1, uuid);
	says(device_unreached(&driver, uuid, 0, "cuMemSetAccess", CU_INVALID_DEVICE),
	     GPUSHARE_E_CUDA, "can't be reached from device 0");
	uuid_of(0x70, uuid);
	says(device_unreached(&driver, uuid, 0, "cuMemSetAccess", CU_INVALID_DEVICE),
	     GPUSHARE_E_DEVICE,
	     "on GPU-71717171-7171-7171-7171-717171717171, which this process does not see; it "
	     "sees GPU-01010101-0101-0101-0101-010101010101, "
	     "GPU-02020202-0202-0202-0202-020202020202, and device 0 can't reach it "
	     "(cuMemSetAccess answered CUDA_ERROR_INVALID_DEVICE)");
	setenv("CUDA_VISIBLE_DEVICES", "3,4", 1);
	says(device_unreached(&driver, uuid, 1, "cuMemMap", CU_INVALID_VALUE), GPUSHARE_E_DEVICE,
	     "-020202020202 (CUDA_VISIBLE_DEVICES=3,4), and device 1");
	gpus.count = 0;
	says(device_unreached(&driver, uuid, 1, "cuMemMap", CU_INVALID_VALUE), GPUSHARE_E_DEVICE,
	     "it sees no GPU (CUDA_VISIBLE_DEVICES=3,4)");
	gpus.to_count = CU_UNKNOWN;
	says(device_unreached(&driver, uuid, 1, "cuMemMap", CU_INVALID_VALUE), GPUSHARE_E_CUDA,
	     "cuMemMap answered CUDA_ERROR_INVALID_VALUE");
	/* The list of GPUs is cut to fit the message. */
	gpus.to_count = CU_OK;
	gpus.count = GPUS_MAX;
	says(device_unreached(&driver, uuid, 1, "cuMemMap", CU_INVALID_VALUE), GPUSHARE_E_DEVICE,
	     "-040404040404 (CUDA_VISIBLE_DEVICES");
}

static void retained_once(void **state)
{
	cu_context context = NULL;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(device_retain(&devices, &driver, 1, &context), GPUSHARE_OK);
		assert_ptr_equal(context, context_of(1));
	}
	assert_int_equal(gpus.retained[1], 1);
	assert_true(device_retains(&devices, context));
	assert_false(device_retains(&devices, context_of(0)));
	gpus.other_was_first = true;
	assert_int_equal(device_retain(&devices, &driver, 0, &context), GPUSHARE_OK);
	assert_ptr_equal(context, context_of(0));
	assert_int_equal(gpus.retained[0], 1); /* the second reference was released */
	device_release_all(&devices, &driver);
	assert_int_equal(gpus.retained[0] + gpus.retained[1], 0);
	assert_false(device_retains(&devices, context_of(0)));
	device_release_all(&devices, &driver);
}

static void not_retained(void **state)
{
	cu_context context = NULL;

	says(device_retain(&devices, &driver, DEVICE_MAX, &context), GPUSHARE_E_LIMIT, "is past");
	says(device_retain(&devices, &driver, -1, &context), GPUSHARE_E_LIMIT, "device -1");
	gpus.to_retain = CU_OUT_OF_MEMORY;
	says(device_retain(&devices, &driver, 0, &context), GPUSHARE_E_NO_MEMORY,
	     "device 0 can't be used");
	gpus.to_retain = CU_OK;
	gpus.to_get = CU_INVALID_DEVICE;
	says(device_retain(&devices, &driver, 0, &context), GPUSHARE_E_CUDA, "INVALID_DEVICE");
	assert_null(context);
	/* A device that has disappeared can't be released. */
	gpus.to_get = CU_OK;
	assert_int_equal(device_retain(&devices, &driver, 0, &context), GPUSHARE_OK);
	gpus.to_get = CU_INVALID_DEVICE;
	device_release_all(&devices, &driver);
	assert_int_equal(gpus.retained[0], 1);
	assert_false(device_retains(&devices, context));
}

static void entered(void **state)
{
	struct device_scope scope = {NULL};

	gpus.to_push = CU_INVALID_CONTEXT;
	says(device_enter(&driver, context_of(0), &scope), GPUSHARE_E_CUDA,
	     "can't be made current");
	assert_null(scope.driver);
	device_leave(&scope);
	gpus.to_push = CU_OK;
	assert_int_equal(device_enter(&driver, context_of(0), &scope), GPUSHARE_OK);
	assert_int_equal(gpus.pushed, 1);
	device_leave(&scope);
	device_leave(&scope);
	assert_int_equal(gpus.pushed, 0);
}

UNIT_MAIN(cmocka_unit_test_setup(not_reached, set_up), cmocka_unit_test_setup(told_why, set_up),
	  cmocka_unit_test_setup(retained_once, set_up),
	  cmocka_unit_test_setup(not_retained, set_up), cmocka_unit_test_setup(entered, set_up))
