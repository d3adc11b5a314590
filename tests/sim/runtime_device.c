/* SPDX-License-Identifier: MIT */
/* Devices: each thread's current device, and the primary context that a thread's first call makes
 * current. */
#include <pthread.h>
#include <stddef.h>

#include "runtime_sim.h"

#define DEVICE_MAX 64

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static cu_context device_primary[DEVICE_MAX];
static _Thread_local int device_chosen;

static cudaError_t device_context(const struct runtime_table *table, int device)
{
	int result = CU_OK;

	if (device < 0 || device >= DEVICE_MAX)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&device_lock);
	if (!device_primary[device])
		result = (int)table->cuDevicePrimaryCtxRetain(&device_primary[device], device);
	cu_context context = device_primary[device];
	pthread_mutex_unlock(&device_lock);
	return (cudaError_t)(result != CU_OK ? result : (int)table->cuCtxSetCurrent(context));
}

cudaError_t runtime_ready(const struct runtime_table **table, enum runtime_stream stream)
{
	cu_context context = NULL;
	cudaError_t error = runtime_lookup(table, stream);

	if (error != cudaSuccess)
		return error;
	error = (cudaError_t)(*table)->cuCtxGetCurrent(&context);
	if (error != cudaSuccess || context)
		return error;
	return device_context(*table, device_chosen);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return runtime_note(cudaErrorInvalidValue);
	*version = runtime_lookup_version();
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	const struct runtime_table *table;

	if (!count)
		return runtime_note(cudaErrorInvalidValue);
	*count = 0;
	cudaError_t error = runtime_lookup(&table, RUNTIME_LEGACY);
	if (error == cudaSuccess)
		error = (cudaError_t)table->cuDeviceGetCount(count);
	return runtime_note(error);
}

cudaError_t cudaSetDevice(int device)
{
	const struct runtime_table *table;
	cudaError_t error = runtime_lookup(&table, RUNTIME_LEGACY);

	if (error == cudaSuccess)
		error = device_context(table, device);
	if (error == cudaSuccess)
		device_chosen = device;
	return runtime_note(error);
}

cudaError_t cudaGetDevice(int *device)
{
	const struct runtime_table *table;
	cu_context context = NULL;
	cu_device current;

	if (!device)
		return runtime_note(cudaErrorInvalidValue);
	cudaError_t error = runtime_lookup(&table, RUNTIME_LEGACY);
	if (error == cudaSuccess)
		error = (cudaError_t)table->cuCtxGetCurrent(&context);
	if (error != cudaSuccess)
		return runtime_note(error);
	*device = device_chosen;
	if (context && (int)table->cuCtxGetDevice(&current) == CU_OK)
		*device = current;
	return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
	const struct runtime_table *table;
	cudaError_t error = runtime_ready(&table, RUNTIME_LEGACY);

	return runtime_note(error == cudaSuccess ? (cudaError_t)table->cuCtxSynchronize() : error);
}

cudaError_t cudaDeviceReset(void)
{
	const struct runtime_table *table;
	int device, result = CU_OK;
	cudaError_t error = cudaGetDevice(&device);

	if (error != cudaSuccess)
		return error;
	runtime_lookup(&table, RUNTIME_LEGACY);
	pthread_mutex_lock(&device_lock);
	if (device_primary[device]) {
		result = (int)table->cuDevicePrimaryCtxReset(device);
		table->cuDevicePrimaryCtxRelease(device);
		device_primary[device] = NULL;
		table->cuCtxSetCurrent(NULL);
	}
	pthread_mutex_unlock(&device_lock);
	return runtime_note((cudaError_t)result);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuDeviceGetDefaultMemPool, (cu_mem_pool *)pool, device);
}

/* By default, return the entry point for the program's kind of default stream. */
static cudaError_t device_entry(const char *symbol, void **function, int version,
				unsigned long long flags,
				enum cudaDriverEntryPointQueryResult *status,
				enum runtime_stream mode)
{
	int found = 0;

	if (!symbol || !function || flags > CU_PROC_PER_THREAD_STREAM)
		return runtime_note(cudaErrorInvalidValue);
	if (flags == CU_PROC_DEFAULT && mode == RUNTIME_PER_THREAD)
		flags = CU_PROC_PER_THREAD_STREAM;
	cudaError_t error = runtime_lookup_entry(symbol, function, version, flags, &found);
	/* A missing symbol is reported by the status alone, unless the caller passes no
	 * `status`. */
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)found;
	if (error == cudaErrorSymbolNotFound && status)
		return cudaSuccess;
	return runtime_note(error);
}

#define DEVICE_ENTRY(suffix, mode) \
	cudaError_t cudaGetDriverEntryPoint##suffix(const char *symbol, void **function, \
						    unsigned long long flags, \
						    enum cudaDriverEntryPointQueryResult *status) \
	{ \
		return device_entry(symbol, function, runtime_lookup_version(), flags, status, \
				    mode); \
	}
DEVICE_ENTRY(, RUNTIME_LEGACY)
DEVICE_ENTRY(_ptsz, RUNTIME_PER_THREAD)
