/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef void *(*dlsym_call)(void *handle, const char *symbol);

static const char *const libc_versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

/* An interposer's function has no such version, so dlvsym() always finds the C library's. */
void *driver_libc(const char *symbol)
{
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(libc_versions) / sizeof(*libc_versions); i++)
		found = dlvsym(RTLD_DEFAULT, symbol, libc_versions[i]);
	return found;
}

/* Threads may race here: all store the same value. pthread_once() would deadlock with a dlopen()
 * whose constructor calls dlsym() (tests/gpu/FACTS.md). */
dlsym_call driver_real_dlsym(void)
{
	static _Atomic(dlsym_call) known;
	dlsym_call found = atomic_load_explicit(&known, memory_order_acquire);

	if (found)
		return found;
	found = (dlsym_call)driver_libc("dlsym");
	atomic_store_explicit(&known, found, memory_order_release);
	return found;
}

void driver_fill(struct driver *table, void *library)
{
	dlsym_call find = driver_real_dlsym();

	*table = (struct driver){0};
	if (!find)
		return;
#define F(since, version, name, params) table->name = (cu_##name##_call *)find(library, #name);
	CUDA_ABI_CALLS(F)
#undef F
}

/* The calls that every supported driver has. Code that uses another call checks first that the
 * driver has it. */
/* clang-format off */
#define NEEDED(N) \
	N(cuInit) N(cuGetErrorName) N(cuDeviceGet) N(cuDeviceGetCount) N(cuDeviceGetUuid_v2) \
	N(cuDeviceGetAttribute) N(cuDeviceCanAccessPeer) N(cuDeviceGetMemPool) \
	N(cuDeviceGetDefaultMemPool) N(cuDevicePrimaryCtxRetain) \
	N(cuDevicePrimaryCtxRelease_v2) N(cuDevicePrimaryCtxGetState) N(cuCtxPushCurrent_v2) \
	N(cuCtxPopCurrent_v2) N(cuCtxGetCurrent) N(cuCtxGetDevice) N(cuCtxSynchronize) \
	N(cuThreadExchangeStreamCaptureMode) N(cuMemGetInfo_v2) N(cuMemAlloc_v2) \
	N(cuMemFree_v2) N(cuMemFreeAsync) \
	N(cuMemPoolGetAttribute) N(cuMemGetAddressRange_v2) N(cuPointerGetAttribute) \
	N(cuIpcGetMemHandle) N(cuIpcOpenMemHandle_v2) N(cuIpcCloseMemHandle) \
	N(cuIpcGetEventHandle) N(cuIpcOpenEventHandle) N(cuMemHostAlloc) N(cuMemFreeHost) \
	N(cuMemHostRegister_v2) N(cuMemHostUnregister) N(cuMemHostGetDevicePointer_v2) \
	N(cuMemGetAllocationGranularity) N(cuMemCreate) N(cuMemRelease) N(cuMemAddressReserve) \
	N(cuMemAddressFree) N(cuMemMap) N(cuMemUnmap) N(cuMemSetAccess) \
	N(cuMemRetainAllocationHandle) N(cuMemExportToShareableHandle) \
	N(cuMemImportFromShareableHandle) N(cuMemcpyHtoD_v2) N(cuMemcpyDtoH_v2) \
	N(cuMemcpyHtoDAsync_v2) N(cuMemcpyDtoHAsync_v2) N(cuStreamCreate) \
	N(cuStreamSynchronize) N(cuStreamDestroy_v2) N(cuStreamGetCtx) N(cuStreamIsCapturing) \
	N(cuStreamWaitEvent) N(cuLaunchHostFunc) N(cuEventCreate) N(cuEventRecord) \
	N(cuEventQuery) N(cuEventSynchronize) N(cuEventDestroy_v2)
/* clang-format on */

const char *driver_missing(const struct driver *table)
{
#define N(name) #name "\0"
	static const char names[] = NEEDED(N);
#undef N
#define N(name) offsetof(struct driver, name),
	static const unsigned short places[] = {NEEDED(N)};
#undef N
	const char *name = names;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!*(void *const *)((const char *)table + places[i]))
			return name;
		name += strlen(name) + 1;
	}
	return NULL;
}

static struct {
	struct driver table;
	bool usable;
	char why[256];
} opened;

static void open_once(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	const char *missing;
	cu_result result;

	if (!library) {
		const char *reason = dlerror();
		snprintf(opened.why, sizeof(opened.why),
			 "no CUDA driver: libcuda.so.1 was not found by the loader (%s); install "
			 "the NVIDIA "
			 "driver, or point LD_LIBRARY_PATH at it",
			 reason ? reason : "no reason given");
		return;
	}
	driver_fill(&opened.table, library);
	missing = driver_missing(&opened.table);
	if (missing) {
		snprintf(opened.why, sizeof(opened.why),
			 "the CUDA driver is too old: libcuda.so.1 has no %s; CUDA 11.8 or later "
			 "is needed",
			 missing);
		return;
	}
	result = opened.table.cuInit(0);
	if (result != CU_OK) {
		snprintf(
		    opened.why, sizeof(opened.why),
		    "the CUDA driver does not start: cuInit answered %s; nvidia-smi may say more",
		    driver_error_name(&opened.table, result));
		return;
	}
	opened.usable = true;
}

const struct driver *driver_open(const char **out_why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_once);
	*out_why = opened.why;
	return opened.usable ? &opened.table : NULL;
}

const char *driver_error_name(const struct driver *driver, cu_result result)
{
	const char *text = NULL;

	return driver->cuGetErrorName(result, &text) == CU_OK ? text : "an unknown CUDA error";
}

int driver_attribute(const struct driver *driver, cu_device device, cu_device_attribute attribute,
		     int without)
{
	int value = without;

	return driver->cuDeviceGetAttribute(&value, attribute, device) == CU_OK ? value : without;
}
