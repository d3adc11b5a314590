/* SPDX-License-Identifier: MIT */
/* The stand-in runtime: each cudart's way to the driver, and an ordinary program's calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "sim_child.h"

#define CUDART "GPUSHARE_SIM_CUDART="
#define FAIL "GPUSHARE_SIM_FAIL="
#define ALWAYS ":1:100000:500"

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
	child_load("libcuda.so.1");
	round_trip();
}

static void body_works_old(void)
{
	int version;

	child_load("old/libcuda.so.1");
	CHECK(cudaDriverGetVersion(&version) == cudaSuccess && version == 11080);
	round_trip();
}

static void finds_nothing(void)
{
	void *pointer;

	CHECK(cudaMalloc(&pointer, MIB) == cudaErrorInsufficientDriver);
	CHECK(cudaGetLastError() == cudaErrorInsufficientDriver);
}

static void body_finds_nothing(void)
{
	child_load("libcuda.so.1");
	finds_nothing();
}

static void body_finds_nothing_old(void)
{
	child_load("old/libcuda.so.1");
	finds_nothing();
}

static void body_refused(void)
{
	void *pointer;

	child_load("libcuda.so.1");
	CHECK(cudaMalloc(&pointer, MIB) == cudaErrorInitializationError);
}

/* Which look-up call each generation lives by shows when that call, and only that one, fails. */
static void test_sequences(void **state)
{
	(void)state;
	IN_CHILD(body_works, CUDART "13");
	IN_CHILD(body_works, CUDART "12");
	IN_CHILD(body_works, CUDART "11");
	IN_CHILD(body_works, CUDART "11", FAIL "cuGetProcAddress_v2" ALWAYS);
	IN_CHILD(body_finds_nothing, CUDART "11", FAIL "cuGetProcAddress" ALWAYS);
	IN_CHILD(body_finds_nothing, CUDART "12", FAIL "cuGetProcAddress_v2" ALWAYS);
	IN_CHILD(body_finds_nothing, CUDART "13", FAIL "cuGetProcAddress_v2" ALWAYS);
	IN_CHILD(body_refused, CUDART "14");
}

/* Without cuGetProcAddress_v2 a newer runtime takes plain dlsym, not the call with four arguments.
 */
static void test_driver_without_proc_address(void **state)
{
	(void)state;
	IN_CHILD(body_works_old, CUDART "13", FAIL "cuGetProcAddress" ALWAYS);
	IN_CHILD(body_works_old, CUDART "12", FAIL "cuGetProcAddress" ALWAYS);
	IN_CHILD(body_works_old, CUDART "11");
	IN_CHILD(body_finds_nothing_old, CUDART "11", FAIL "cuGetProcAddress" ALWAYS);
}

static void body_program(void)
{
	size_t pitch, free_bytes, total;
	char rows[4][100], back[4][100] = {{0}};
	void *pointer, *host, *managed;
	cudaStream_t stream;
	cudaEvent_t event;
	int device = -1, count = 0;

	child_load("libcuda.so.1");
	CHECK(cudaGetDeviceCount(&count) == cudaSuccess && count == 1);
	CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaSetDevice(0) == cudaSuccess);
	CHECK(cudaGetDevice(&device) == cudaSuccess && device == 0);
	CHECK(cudaMalloc(&pointer, 0) == cudaSuccess && !pointer);
	CHECK(cudaMallocPitch(&pointer, &pitch, 100, 4) == cudaSuccess && pitch == 512);
	memset(rows, 7, sizeof(rows));
	CHECK(cudaMemcpy2D(pointer, pitch, rows, 100, 100, 4, cudaMemcpyHostToDevice) ==
	      cudaSuccess);
	CHECK(cudaMemcpy2D(back, 100, pointer, pitch, 100, 4, cudaMemcpyDeviceToHost) ==
	      cudaSuccess);
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
	CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") ==
	      0);
	CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
}

static void test_ordinary_program(void **state)
{
	(void)state;
	IN_CHILD(body_program, CUDART "13");
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
