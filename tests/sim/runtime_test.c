/* SPDX-License-Identifier: MIT */
/* The stand-in runtime: each cudart's way to the driver, and an ordinary program's calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

/* Which driver the runtime's dlopen("libcuda.so.1") finds: the one that is loaded already. */
static void load_driver(const char *name)
{
	char path[PATH_MAX], self[PATH_MAX] = "";
	const char *folder = getenv("SIM_TEST_DIR");

	CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	if (folder)
		snprintf(path, sizeof(path), "%.2000s/%s", folder, name);
	else
		snprintf(path, sizeof(path), "%.2000s/../sim/%s", dirname(self), name);
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
}

static void in_child(void (*body)(void), const char *generation, const char *fail)
{
	int status = -1;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		setenv("GPUSHARE_SIM_CUDART", generation, 1);
		setenv("GPUSHARE_SIM_FAIL", fail, 1);
		unsetenv("GPUSHARE_SIM_LACKS");
		unsetenv("GPUSHARE_SIM_MEMORY");
		unsetenv("CUDA_VISIBLE_DEVICES");
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void round_trip(void)
{
	char out[1000], back[1000] = {0};
	void *pointer = NULL;

	memset(out, 0x5a, sizeof(out));
	CHECK(cudaMalloc(&pointer, sizeof(out)) == cudaSuccess && pointer);
	CHECK(cudaMemcpy(pointer, out, sizeof(out), cudaMemcpyHostToDevice) == cudaSuccess);
	CHECK(cudaMemset(pointer, 1, 10) == cudaSuccess);
	CHECK(cudaMemcpy(back, pointer, sizeof(back), cudaMemcpyDefault) == cudaSuccess);
	memset(out, 1, 10);
	CHECK(memcmp(out, back, sizeof(out)) == 0);
	CHECK(cudaFree(pointer) == cudaSuccess);
	CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
	CHECK(cudaGetLastError() == cudaErrorInvalidValue);
	CHECK(cudaGetLastError() == cudaSuccess);
}

static void body_works(void)
{
	load_driver("libcuda.so.1");
	round_trip();
}

static void body_works_old(void)
{
	int version;

	load_driver("old/libcuda.so.1");
	CHECK(cudaDriverGetVersion(&version) == cudaSuccess && version < 11030);
	round_trip();
}

static void body_finds_nothing(void)
{
	void *pointer;

	load_driver("libcuda.so.1");
	CHECK(cudaMalloc(&pointer, MIB) == cudaErrorInsufficientDriver);
	CHECK(cudaGetLastError() == cudaErrorInsufficientDriver);
}

static void body_refused(void)
{
	void *pointer;

	load_driver("libcuda.so.1");
	CHECK(cudaMalloc(&pointer, MIB) == cudaErrorInitializationError);
}

/* Which look-up call each generation lives by shows when that call, and only that one, fails. */
static void test_sequences(void **state)
{
	(void)state;
	in_child(body_works, "13", "");
	in_child(body_works, "12", "");
	in_child(body_works, "11", "");
	in_child(body_works, "11", "cuGetProcAddress_v2:1:100000:500");
	in_child(body_finds_nothing, "11", "cuGetProcAddress:1:100000:500");
	in_child(body_finds_nothing, "12", "cuGetProcAddress_v2:1:100000:500");
	in_child(body_finds_nothing, "13", "cuGetProcAddress_v2:1:100000:500");
	in_child(body_refused, "14", "");
}

static void test_driver_without_proc_address(void **state)
{
	(void)state;
	in_child(body_works_old, "13", "");
	in_child(body_works_old, "11", "");
}

static void body_program(void)
{
	size_t pitch, free_bytes, total;
	char rows[4][100], back[4][100] = {{0}};
	void *pointer, *host, *managed;
	cudaStream_t stream;
	cudaEvent_t event;
	int device = -1, count = 0;

	load_driver("libcuda.so.1");
	CHECK(cudaGetDeviceCount(&count) == cudaSuccess && count == 1);
	CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaSetDevice(0) == cudaSuccess);
	CHECK(cudaGetDevice(&device) == cudaSuccess && device == 0);
	CHECK(cudaMalloc(&pointer, 0) == cudaSuccess && !pointer);
	CHECK(cudaMallocPitch(&pointer, &pitch, 100, 4) == cudaSuccess && pitch == 512);
	memset(rows, 7, sizeof(rows));
	CHECK(cudaMemcpy2D(pointer, pitch, rows, 100, 100, 4, cudaMemcpyHostToDevice) == cudaSuccess);
	CHECK(cudaMemcpy2D(back, 100, pointer, pitch, 100, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
	CHECK(memcmp(rows, back, sizeof(rows)) == 0);
	CHECK(cudaFree(pointer) == cudaSuccess);
	CHECK(cudaStreamCreate(&stream) == cudaSuccess);
	CHECK(cudaMallocHost(&host, MIB) == cudaSuccess);
	CHECK(cudaMallocAsync(&pointer, MIB, stream) == cudaSuccess);
	memset(host, 9, MIB);
	CHECK(cudaMemcpyAsync(pointer, host, MIB, cudaMemcpyHostToDevice, stream) == cudaSuccess);
	memset(host, 0, MIB);
	CHECK(cudaMemcpyAsync(host, pointer, MIB, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
	CHECK(cudaStreamSynchronize(stream) == cudaSuccess && ((char *)host)[MIB - 1] == 9);
	CHECK(cudaFreeAsync(pointer, stream) == cudaSuccess);
	CHECK(cudaFreeHost(host) == cudaSuccess);
	CHECK(cudaMallocManaged(&managed, MIB, cudaMemAttachGlobal) == cudaSuccess);
	((char *)managed)[5] = 1;
	CHECK(cudaFree(managed) == cudaSuccess);
	CHECK(cudaEventCreate(&event) == cudaSuccess);
	CHECK(cudaEventRecord(event, stream) == cudaSuccess);
	CHECK(cudaEventSynchronize(event) == cudaSuccess && cudaEventDestroy(event) == cudaSuccess);
	CHECK(cudaStreamDestroy(stream) == cudaSuccess);
	CHECK(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess && free_bytes == total);
	CHECK(cudaDeviceSynchronize() == cudaSuccess && cudaDeviceReset() == cudaSuccess);
	round_trip();
	CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
	CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
}

static void test_ordinary_program(void **state)
{
	(void)state;
	in_child(body_program, "13", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sequences),
		cmocka_unit_test(test_driver_without_proc_address),
		cmocka_unit_test(test_ordinary_program),
	};

	return cmocka_run_group_tests_name("sim runtime", tests, NULL, NULL);
}
