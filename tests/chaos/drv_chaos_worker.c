// SPDX-License-Identifier: MIT
/* A driver program that knows nothing of gpushare: rules say what it shares and attaches. */
#include <dlfcn.h>

#include "cuda/cuda_abi.h"
#include "worker.h"

#define CALLS(N) \
	N(cuInit) \
	N(cuDeviceGet) \
	N(cuDevicePrimaryCtxRetain) \
	N(cuCtxSetCurrent) \
	N(cuCtxSynchronize) \
	N(cuMemAlloc_v2) \
	N(cuMemFree_v2) \
	N(cuMemcpyHtoD_v2) \
	N(cuMemcpyDtoH_v2)

static struct {
#define N(call) cu_##call##_call *call;
	CALLS(N)
#undef N
} drv;
static cu_deviceptr pointer;

static const char *failed(const char *call, cu_result result)
{
	static char text[80];

	if (result == CU_OK)
		return NULL;
	snprintf(text, sizeof(text), "%s answered %d", call, (int)result);
	return text;
}

static const char *drv_start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device = 0;
	cu_context context = NULL;
	cu_result result;

	if (!library)
		return "no driver";
#define N(call) \
	drv.call = dlsym(library, #call); \
	if (!drv.call) \
		return "no " #call;
	CALLS(N)
#undef N
	result = drv.cuInit(0);
	if (result == CU_OK)
		result = drv.cuDeviceGet(&device, 0);
	if (result == CU_OK)
		result = drv.cuDevicePrimaryCtxRetain(&context, device);
	if (result == CU_OK)
		result = drv.cuCtxSetCurrent(context);
	return failed("cuInit and what follows it", result);
}

static const char *drv_call(const struct worker *worker)
{
	return failed("cuMemAlloc", drv.cuMemAlloc_v2(&pointer, worker->size));
}

static const char *drv_write(const struct worker *worker)
{
	return failed("cuMemcpyHtoD", drv.cuMemcpyHtoD_v2(pointer, worker->host, worker->size));
}

static const char *drv_read(const struct worker *worker)
{
	return failed("cuMemcpyDtoH", drv.cuMemcpyDtoH_v2(worker->host, pointer, worker->size));
}

/* With GPUSHARE_PUBLISH=sync, each wait for the GPU publishes the buffer. */
static const char *drv_turn(const struct worker *worker)
{
	return failed("cuCtxSynchronize", drv.cuCtxSynchronize());
}

static const char *drv_end(const struct worker *worker)
{
	return failed("cuMemFree", drv.cuMemFree_v2(pointer));
}

int main(int argc, char **argv)
{
	static const struct way way = {drv_start, drv_call, drv_write, drv_read, drv_turn, drv_end};

	return argc == 8 ? worker_run(argv, &way) : 2;
}
