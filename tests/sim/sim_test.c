/* SPDX-License-Identifier: MIT */
/*
 * Test settings, faults and look-up of the simulated driver, beyond the facts that the contract
 * tests check.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim_calls.h"

static void body_third_and_fourth(void)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer;

	start();
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OK);
	for (int call = 1; call <= 6; call++) {
		cu_result want = call == 3 || call == 4 ? CU_UNKNOWN : CU_OK;
		CHECK(cu.cuIpcGetMemHandle(&handle, pointer) == want);
	}
}

static void body_numbered_result(void)
{
	cu_deviceptr pointer = 7;

	start();
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OUT_OF_MEMORY && pointer == 7);
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OK);
	CHECK(cu.cuMemFree_v2(pointer) == CU_NOT_PERMITTED);
	CHECK(cu.cuMemFree_v2(pointer) == CU_OK);
}

static void body_init_refused(void)
{
	load("libcuda.so.1");
	CHECK(cu.cuInit(0) == CU_INVALID_VALUE);
}

static void test_faults(void **state)
{
	IN_CHILD(body_third_and_fourth, "GPUSHARE_SIM_FAIL=cuIpcGetMemHandle:3:2");
	IN_CHILD(body_numbered_result, "GPUSHARE_SIM_FAIL=cuMemAlloc_v2:1:1:2,cuMemFree:1:1:800");
}

static void test_settings_that_do_not_parse(void **state)
{
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_FAIL=cuNoSuchCall:1:1");
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_FAIL=cuMemFree:1");
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_FAIL=cuMemFree:0:1");
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_FAIL=cuMemFree:1:1x");
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_FAIL=cuMemFree:1:1:2:3");
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_MEMORY=lots");
	IN_CHILD(body_init_refused, "GPUSHARE_SIM_DEVICES=-1");
}

static void body_capacity(void)
{
	cu_deviceptr first, second;
	size_t free_bytes, total;

	start();
	CHECK(cu.cuMemGetInfo_v2(&free_bytes, &total) == CU_OK);
	CHECK(total == 64 * MIB && free_bytes == total);
	CHECK(cu.cuMemAlloc_v2(&first, 65 * MIB) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAlloc_v2(&first, SIZE_MAX) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAlloc_v2(&first, 40 * MIB) == CU_OK);
	CHECK(cu.cuMemAlloc_v2(&second, 40 * MIB) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemGetInfo_v2(&free_bytes, &total) == CU_OK && free_bytes == 24 * MIB);
	CHECK(cu.cuMemFree_v2(first) == CU_OK);
	/* another size: the driver must empty its cache of freed memory */
	CHECK(cu.cuMemAlloc_v2(&second, 64 * MIB) == CU_OK);
	CHECK(cu.cuMemFree_v2(second) == CU_OK);
}

static void test_capacity(void **state)
{
	IN_CHILD(body_capacity, "GPUSHARE_SIM_MEMORY=64M");
}

static void get_uuid(int ordinal, char *text)
{
	cu_device device;
	cu_uuid uuid;

	CHECK(cu.cuDeviceGet(&device, ordinal) == CU_OK);
	CHECK(cu.cuDeviceGetUuid_v2(&uuid, device) == CU_OK);
	text += sprintf(text, "GPU-");
	for (int i = 0; i < CUDA_ABI_UUID_SIZE; i++) {
		const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
		text += sprintf(text, "%s%02x", dash, (unsigned char)uuid.bytes[i]);
	}
}

/* UUIDs of the three devices. One child reads them; later children compare theirs with them. */
static char (*uuids)[64];

static void body_learn(void)
{
	int pipe_end = atoi(getenv("SIM_TEST_PIPE"));
	char all[3][64] = {""};

	load("libcuda.so.1");
	CHECK(cu.cuInit(0) == CU_OK);
	for (int i = 0; i < 3; i++)
		get_uuid(i, all[i]);
	CHECK(write(pipe_end, all, sizeof(all)) == (ssize_t)sizeof(all));
}

/* SIM_TEST_WANT: the physical numbers that should be visible, in order. */
static void body_visible(void)
{
	const char *want = getenv("SIM_TEST_WANT");
	char text[64];
	int count;

	load("libcuda.so.1");
	CHECK(cu.cuInit(0) == (*want ? CU_OK : CU_NO_DEVICE));
	if (!*want)
		return;
	CHECK(cu.cuDeviceGetCount(&count) == CU_OK && count == (int)strlen(want));
	for (int i = 0; i < count; i++) {
		get_uuid(i, text);
		CHECK(strcmp(text, uuids[want[i] - '0']) == 0);
	}
}

static void test_visible_devices(void **state)
{
	static char all[3][64];
	char setting[32], visible[160];
	int ends[2];

	uuids = all;
	assert_int_equal(pipe(ends), 0);
	snprintf(setting, sizeof(setting), "SIM_TEST_PIPE=%d", ends[1]);
	IN_CHILD(body_learn, "GPUSHARE_SIM_DEVICES=3", setting);
	assert_int_equal(read(ends[0], all, sizeof(all)), sizeof(all));
	close(ends[0]);
	close(ends[1]);
	assert_string_not_equal(all[0], all[1]);
	assert_string_not_equal(all[1], all[2]);
#define VISIBLE(want) \
	IN_CHILD(body_visible, "GPUSHARE_SIM_DEVICES=3", "SIM_TEST_WANT=" want, visible)
	snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=2,0");
	VISIBLE("20");
	snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=1,9,0");
	VISIBLE("1");
	snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=");
	VISIBLE("");
	snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=-1");
	VISIBLE("");
	snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=%s,%.12s", all[1], all[2]);
	VISIBLE("12");
#undef VISIBLE
}

static void want_proc(const char *bare, int version, cu_uint64 flags, const char *symbol)
{
	void *pointer = &pointer;
	cu_proc_status status = (cu_proc_status)77;

	CHECK(cu.cuGetProcAddress_v2(bare, &pointer, version, flags, &status) == CU_OK);
	CHECK((int)status == 0 && pointer && pointer == dlsym(library, symbol));
	CHECK(cu.cuGetProcAddress_v2(bare, &pointer, version, flags, NULL) == CU_OK);
	CHECK(pointer == dlsym(library, symbol));
	CHECK(cu.cuGetProcAddress(bare, &pointer, version, flags) == CU_OK);
	CHECK(pointer == dlsym(library, symbol));
}

static void want_no_proc(const char *bare, int version, int why)
{
	void *pointer = &pointer;
	cu_proc_status status = (cu_proc_status)77;

	CHECK(cu.cuGetProcAddress(bare, &pointer, version, 0) == CU_NOT_FOUND);
	CHECK(pointer == &pointer);
	CHECK(cu.cuGetProcAddress_v2(bare, &pointer, version, 0, &status) == CU_OK);
	CHECK((int)status == why && !pointer);
}

static void body_proc_table(void)
{
	load("libcuda.so.1");
	want_proc("cuMemAlloc", 2000, 0, "cuMemAlloc");
	want_proc("cuMemAlloc", 3010, 0, "cuMemAlloc");
	want_proc("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
	want_proc("cuMemAlloc", 13000, 2, "cuMemAlloc_v2");
	want_proc("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync");
	want_proc("cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz");
	want_proc("cuMemAllocAsync", 11020, 1, "cuMemAllocAsync");
	want_proc("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds");
	want_proc("cuMemcpyHtoD", 4000, 2, "cuMemcpyHtoD_v2");
	want_proc("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
	want_proc("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
	want_proc("cuIpcOpenMemHandle", 4010, 0, "cuIpcOpenMemHandle");
	want_proc("cuIpcOpenMemHandle", 11000, 0, "cuIpcOpenMemHandle_v2");
	want_no_proc("cuMemCreate", 10010, CU_PROC_VERSION_INSUFFICIENT);
	want_no_proc("cuNoSuchCall", 13000, CU_PROC_SYMBOL_NOT_FOUND);
	CHECK(dlsym(library, "cuMemAlloc") != dlsym(library, "cuMemAlloc_v2"));
	CHECK(dlsym(library, "cuMemAllocAsync") != dlsym(library, "cuMemAllocAsync_ptsz"));
}

/* Every call of the ABI header is reachable by its bare name at its own version. */
static void body_proc_all(void)
{
	char bare[64];

	load("libcuda.so.1");
#define F(since, at, name, params) \
	CHECK(cu.name != NULL); \
	snprintf(bare, sizeof(bare), "%s", #name); \
	if (strlen(bare) > 3 && strncmp(bare + strlen(bare) - 3, "_v2", 3) == 0) \
		bare[strlen(bare) - 3] = '\0'; \
	if (at) \
		want_proc(bare, at, 0, #name);
	CUDA_ABI_CALLS(F)
#undef F
}

static void body_lacks(void)
{
	load("libcuda.so.1");
	want_no_proc("cuMemCreate", 13000, CU_PROC_SYMBOL_NOT_FOUND);
	want_no_proc("cuIpcOpenMemHandle", 13000, CU_PROC_SYMBOL_NOT_FOUND);
	want_proc("cuMemAlloc", 13000, 0, "cuMemAlloc"); /* only the first version is left */
	want_proc("cuMemMap", 13000, 0, "cuMemMap");
}

static void test_proc_address(void **state)
{
	IN_CHILD(body_proc_table);
	IN_CHILD(body_proc_all);
	IN_CHILD(body_lacks, "GPUSHARE_SIM_LACKS=cuMemCreate,cuIpcOpenMemHandle,cuMemAlloc_v2");
}

static void body_version(void)
{
	int version;

	load("libcuda.so.1");
	CHECK(cu.cuDriverGetVersion(&version) == CU_OK);
	CHECK(version == atoi(getenv("SIM_TEST_WANT")));
}

static void test_version(void **state)
{
	IN_CHILD(body_version, "SIM_TEST_WANT=13000");
	IN_CHILD(body_version, "SIM_TEST_WANT=11080", "GPUSHARE_SIM_VERSION=11080");
}

static void body_fork(void)
{
	int status = -1;

	start();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		cu_deviceptr pointer;
		CHECK(cu.cuInit(0) == CU_NOT_INITIALIZED);
		CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_NOT_INITIALIZED);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void test_forked_child(void **state)
{
	IN_CHILD(body_fork);
}

static void body_log(void)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer;
	char line[160], want[160];

	start();
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OK);
	CHECK(cu.cuIpcGetMemHandle(&handle, pointer) == CU_OK);
	CHECK(cu.cuMemFree_v2(pointer + 1) == CU_INVALID_VALUE);
	FILE *log = fopen(getenv("GPUSHARE_SIM_LOG"), "r");
	CHECK(log);
	snprintf(want, sizeof(want), "%d cuMemAlloc_v2 0 0x%llx %zu\n", (int)getpid(), pointer,
		 MIB);
	CHECK(fgets(line, sizeof(line), log) && strcmp(line, want) == 0);
	snprintf(want, sizeof(want), "%d cuIpcGetMemHandle 0 0x%llx 0\n", (int)getpid(), pointer);
	CHECK(fgets(line, sizeof(line), log) && strcmp(line, want) == 0);
	snprintf(want, sizeof(want), "%d cuMemFree_v2 1 0x%llx 0\n", (int)getpid(), pointer + 1);
	CHECK(fgets(line, sizeof(line), log) && strcmp(line, want) == 0);
	CHECK(!fgets(line, sizeof(line), log));
	fclose(log);
}

static void test_log(void **state)
{
	char file[] = "/tmp/gpushare-sim-test-XXXXXX", setting[64];
	int fd = mkstemp(file);

	assert_true(fd >= 0);
	close(fd);
	snprintf(setting, sizeof(setting), "GPUSHARE_SIM_LOG=%s", file);
	IN_CHILD(body_log, setting);
	unlink(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_faults),	 cmocka_unit_test(test_settings_that_do_not_parse),
	    cmocka_unit_test(test_capacity),	 cmocka_unit_test(test_visible_devices),
	    cmocka_unit_test(test_proc_address), cmocka_unit_test(test_version),
	    cmocka_unit_test(test_forked_child), cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
