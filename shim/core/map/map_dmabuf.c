/* SPDX-License-Identifier: MIT */
/*
 * Maps memory for the CPU by mmap() of a dma-buf. CUDA must have mapped the memory in this process,
 * and the driver must support mmap() of dma-bufs (CUDA 13.3). Older drivers make the dma-buf, but
 * refuse mmap() (errno 524, driver 580).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/device.h"
#include "map_backend.h"
#include "cuda/vmm.h"

/* CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED of CUDA 13.3. Older drivers and toolkits don't know
 * it. */
#define DEVICE_DMA_BUF_MMAP ((cu_device_attribute)152)
#define PROOF_SIZE ((uint64_t)1) /* vmm_make() rounds it up to the allocation granularity */

static int map_range(const struct driver *driver, uint64_t pointer, uint64_t size,
		     void **out_address)
{
	_cleanup_close_ int fd = -1;
	void *address;
	cu_result result = driver->cuMemGetHandleForAddressRange(
	    &fd, pointer, size, (cu_range_handle_type)CU_RANGE_DMA_BUF_FD, 0);

	if (result != CU_OK) {
		fd = -1;
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"cuMemGetHandleForAddressRange answered %s",
				driver_error_name(driver, result));
	}
	address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED, "mmap of the dma-buf: %s",
				strerror(errno));
	*out_address = address;
	return GPUSHARE_OK;
}

/* Test with memory of our own whether CUDA reads what is stored through the mapping. */
static int prove_on(const struct driver *driver, const struct vmm_mapping *mapping)
{
	const uint64_t stored = UINT64_C(0x5ea7ed0b57ac1e5);
	uint64_t found = 0;
	void *address;
	int status = map_range(driver, mapping->pointer, mapping->size, &address);

	if (status)
		return status;
	*(volatile uint64_t *)address = stored;
	__sync_synchronize();
	if (driver->cuMemcpyDtoH_v2(&found, mapping->pointer, sizeof(found)) != CU_OK ||
	    found != stored)
		status = api_fail(GPUSHARE_E_NOT_SUPPORTED,
				  "what a test wrote through a dma-buf is not in the GPU's memory");
	munmap(address, mapping->size);
	return status;
}

static int prove(const struct map_source *source)
{
	static bool proven; /* one test per process; no lock, as opens are serialized */
	struct vmm_mapping mapping;
	const char *call;
	int status;

	if (proven || vmm_make(source->driver, PROOF_SIZE, (cu_device)source->device, false,
			       &mapping, &call) != CU_OK)
		return GPUSHARE_OK; /* a GPU too full for the test can still be mapped */
	status = prove_on(source->driver, &mapping);
	vmm_unmap(source->driver, &mapping);
	proven = !status;
	return status;
}

/* As CUDA documents it: the mapping is cached if CPU and GPU share page tables (Arm with NVLink),
 * else write-combined. */
static enum gpushare_caching caching(const struct driver *driver, cu_device device)
{
#ifdef __aarch64__
	if (driver_attribute(driver, device, (cu_device_attribute)CU_DEVICE_HOST_PAGE_TABLES, 0))
		return GPUSHARE_CACHED;
#else
	(void)driver;
	(void)device;
#endif
	return GPUSHARE_WRITE_COMBINED;
}

static int dmabuf_open(const struct map_source *source, struct map_memory *memory)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = source->driver;
	cu_device device = (cu_device)source->device;
	int status;

	if (!driver)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"this process has not mapped the buffer on the GPU that holds it");
	if (!driver->cuMemGetHandleForAddressRange ||
	    !driver_attribute(driver, device, (cu_device_attribute)CU_DEVICE_DMA_BUF, 0) ||
	    !driver_attribute(driver, device, DEVICE_DMA_BUF_MMAP, 0))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED, "the driver has no dma-buf mmap");
	if (driver->cuCtxPushCurrent_v2(source->context) != CU_OK)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED, "the buffer's context is not usable");
	scope.driver = driver;
	status = prove(source);
	if (!status)
		status = map_range(driver, source->pointer, source->size, &memory->address);
	memory->caching = caching(driver, device);
	return status;
}

static void dmabuf_close(const struct map_memory *memory)
{
	munmap(memory->address, memory->size);
}

const struct map_backend map_dmabuf = {
    .name = "dma-buf",
    .open = dmabuf_open,
    .close = dmabuf_close,
};
