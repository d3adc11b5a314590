/* SPDX-License-Identifier: MIT */
/* Test the stand-in runtime: how each cudart finds the driver's entry points, and the calls of an
 * ordinary program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
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

static void body_works_ancient(void)
{
	int version;

	child_load("ancient/libcuda.so.1");
	CHECK(cudaDriverGetVersion(&version) == cudaSuccess && version == 11020);
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

/* If one look-up call fails, only the generation that depends on it must fail. */
static void test_sequences(void **state)
{
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
	IN_CHILD(body_works_old, CUDART "13", FAIL "cuGetProcAddress" ALWAYS);
	IN_CHILD(body_works_old, CUDART "12", FAIL "cuGetProcAddress" ALWAYS);
	IN_CHILD(body_works_old, CUDART "11");
	IN_CHILD(body_finds_nothing_old, CUDART "11", FAIL "cuGetProcAddress" ALWAYS);
	IN_CHILD(body_works_ancient, CUDART "13");
	IN_CHILD(body_works_ancient, CUDART "12");
	IN_CHILD(body_works_ancient, CUDART "11");
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

/* A shared stand-in reports its own version and uses its own look-up, whatever GPUSHARE_SIM_CUDART
 * says. */
static void body_shared(void)
{
	const char *name = getenv("SIM_TEST_CUDART");
	cudaError_t (*get_version)(int *), (*alloc)(void **, size_t);
	void *pointer;
	int version = 0;

	child_load("libcuda.so.1");
	void *library = child_load(name);
	*(void **)&get_version = dlvsym(library, "cudaRuntimeGetVersion", name);
	*(void **)&alloc = dlvsym(library, "cudaMalloc", name);
	CHECK(get_version && alloc);
	CHECK(get_version(&version) == cudaSuccess);
	CHECK(version / 1000 == atoi(name + strlen("libcudart.so.")));
	cudaError_t want = version < 12000 ? cudaSuccess : cudaErrorInsufficientDriver;
	CHECK(alloc(&pointer, MIB) == want);
}

static void test_shared_stand_ins(void **state)
{
#define SHARED(version) \
	IN_CHILD(body_shared, "SIM_TEST_CUDART=libcudart.so." version, CUDART "14", \
		 FAIL "cuGetProcAddress_v2" ALWAYS)
	SHARED("11.0");
	SHARED("12");
	SHARED("13");
#undef SHARED
}

/* cudaGetDriverEntryPoint is deprecated since CUDA 13, and programs still call it. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void *entry(unsigned int version, unsigned long long flags)
{
	enum cudaDriverEntryPointQueryResult status;
	void *pointer = NULL;

	if (version)
		CHECK(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &pointer, version, flags,
						       &status) == cudaSuccess);
	else
		CHECK(cudaGetDriverEntryPoint("cuMemAllocAsync", &pointer, flags, &status) ==
		      cudaSuccess);
	CHECK(!pointer == (status != cudaDriverEntryPointSuccess));
	return pointer;
}

static void body_entries(void)
{
	void *driver = child_load("libcuda.so.1"), *pointer;
	void *legacy = dlsym(driver, "cuMemAllocAsync");
	void *own = dlsym(driver, "cuMemAllocAsync_ptsz");

	CHECK(legacy && own && legacy != own);
	for (unsigned int version = 0; version <= 12000; version += 12000) {
		CHECK(entry(version, cudaEnableDefault) == legacy);
		CHECK(entry(version, cudaEnableLegacyStream) == legacy);
		CHECK(entry(version, cudaEnablePerThreadDefaultStream) == own);
	}
	CHECK(!entry(11010, cudaEnableDefault));
	CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &pointer, 3, NULL) == cudaErrorInvalidValue);
}

static void test_entry_points(void **state)
{
	IN_CHILD(body_entries, CUDART "13");
	IN_CHILD(body_entries, CUDART "12");
}

cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t size, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync_ptsz(void **pointer, size_t size, cudaMemPool_t pool,
					 cudaStream_t stream);
cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream);

/* Programs with either kind of default stream. Faults in the other kind's entry points have no
 * effect. */
static void body_pool(void)
{
	bool own = getenv("SIM_TEST_OWN") != NULL;
	struct cudaPitchedPtr cube;
	cudaMemPool_t pool;
	void *pointer;

	child_load("libcuda.so.1");
	CHECK(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
	CHECK((own ? cudaMallocAsync_ptsz(&pointer, MIB, NULL)
		   : cudaMallocAsync(&pointer, MIB, cudaStreamPerThread)) == cudaSuccess);
	CHECK((own ? cudaFreeAsync_ptsz(pointer, NULL) : cudaFreeAsync(pointer, NULL)) ==
	      cudaSuccess);
	CHECK((own ? cudaMallocFromPoolAsync_ptsz(&pointer, MIB, pool, NULL)
		   : cudaMallocFromPoolAsync(&pointer, MIB, pool, cudaStreamLegacy)) ==
	      cudaSuccess);
	CHECK(cudaFree(pointer) == cudaSuccess);
	CHECK(cudaMalloc3D(&cube, (struct cudaExtent){100, 3, 5}) == cudaSuccess);
	CHECK(cube.pitch == 512 && cube.xsize == 100 && cube.ysize == 3);
	CHECK(cudaMemset(cube.ptr, 1, cube.pitch * 15) == cudaSuccess);
	CHECK(cudaMemset(cube.ptr, 1, cube.pitch * 15 + 1) == cudaErrorInvalidValue);
	CHECK(cudaDeviceReset() == cudaSuccess);
	CHECK(cudaFree(cube.ptr) == cudaErrorInvalidValue); /* freed with the context */
}

static void body_pool_refused(void)
{
	void *pointer;

	child_load("libcuda.so.1");
	CHECK(cudaMallocAsync_ptsz(&pointer, MIB, NULL) == cudaErrorSymbolNotFound);
	CHECK(cudaMallocAsync(&pointer, MIB, NULL) == cudaSuccess);
	CHECK(cudaFreeAsync_ptsz(pointer, NULL) == cudaErrorSymbolNotFound);
}

static void test_pool_and_reset(void **state)
{
	IN_CHILD(body_pool_refused,
		 FAIL "cuMemAllocAsync_ptsz" ALWAYS ",cuMemFreeAsync_ptsz" ALWAYS);
	IN_CHILD(body_pool,
		 FAIL "cuMemAllocAsync_ptsz" ALWAYS ",cuMemAllocFromPoolAsync_ptsz" ALWAYS
		      ",cuMemFreeAsync_ptsz" ALWAYS);
	IN_CHILD(body_pool, "SIM_TEST_OWN=1");
}

static void body_capture(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	enum cudaStreamCaptureStatus status;
	cudaGraph_t graph;
	cudaStream_t stream;
	void *pointer;

	child_load("libcuda.so.1");
	CHECK(cudaStreamCreate(&stream) == cudaSuccess);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	CHECK(cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
	      status == cudaStreamCaptureStatusActive);
	CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess &&
	      mode == cudaStreamCaptureModeGlobal);
	CHECK(cudaMalloc(&pointer, MIB) == cudaSuccess);
	CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
	CHECK(cudaGraphDestroy(graph) == cudaSuccess);
	CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	CHECK(cudaMalloc(&pointer, MIB) == cudaErrorStreamCaptureUnsupported);
	CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
}

static void test_capture(void **state)
{
	IN_CHILD(body_capture);
}

static void test_ordinary_program(void **state)
{
	IN_CHILD(body_program, CUDART "13");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sequences),
	    cmocka_unit_test(test_driver_without_proc_address),
	    cmocka_unit_test(test_ordinary_program),
	    cmocka_unit_test(test_shared_stand_ins),
	    cmocka_unit_test(test_entry_points),
	    cmocka_unit_test(test_pool_and_reset),
	    cmocka_unit_test(test_capture),
	};

	return cmocka_run_group_tests_name("sim runtime", tests, NULL, NULL);
}
