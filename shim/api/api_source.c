/* SPDX-License-Identifier: MIT */
#include "api_source.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static bool source_attribute_set(const struct driver *driver, cu_pointer_attribute attribute,
				 uint64_t pointer)
{
	uint64_t value = 0; /* room for a pointer, an int or a bool */

	return driver->cuPointerGetAttribute(&value, attribute, pointer) == CU_OK && value;
}

/* For an error message: the kind of memory for which the driver has refused an IPC handle. */
static const char *source_kind(const struct driver *driver, const struct source *source)
{
	unsigned int type = 0;

	if (source_attribute_set(driver, CU_ATTRIBUTE_IS_MANAGED, source->pointer))
		return "managed memory (cudaMallocManaged)";
	if (source_attribute_set(driver, CU_ATTRIBUTE_MEMPOOL, source->pointer))
		return "stream-ordered memory (cudaMallocAsync)";
	if (driver->cuPointerGetAttribute(&type, CU_ATTRIBUTE_MEMORY_TYPE, source->pointer) ==
		CU_OK &&
	    type == CU_MEMORY_HOST)
		return "host memory";
	if (!source_attribute_set(driver, CU_ATTRIBUTE_CONTEXT, source->pointer))
		return "stream-ordered memory (cudaMallocAsync), or virtual memory";
	return "memory that cudaMalloc did not make (stream-ordered or virtual)";
}

static int source_refuse(const struct driver *driver, const struct source *source)
{
	return api_fail(GPUSHARE_E_NOT_SHAREABLE,
			"the memory at 0x%" PRIx64
			" is %s, which has no CUDA IPC handle; allocate it "
			"with cudaMalloc, cudaMallocPitch or gpushare_alloc()",
			source->pointer, source_kind(driver, source));
}

int source_locate(struct gpushare_session *session, const struct driver *driver,
		  struct source *source)
{
	cu_result result = driver->cuPointerGetAttribute(
	    &source->device, CU_ATTRIBUTE_DEVICE_ORDINAL, source->pointer);

	if (result == CU_INVALID_VALUE)
		return api_fail(GPUSHARE_E_NOT_SHAREABLE,
				"CUDA does not know 0x%" PRIx64
				" in this process: it is plain host memory, or "
				"was freed; allocate with cudaMalloc or gpushare_alloc()",
				source->pointer);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuPointerGetAttribute",
				     "can't find the GPU of 0x%" PRIx64, source->pointer);
	if (driver->cuPointerGetAttribute(&source->context, CU_ATTRIBUTE_CONTEXT,
					  source->pointer) != CU_OK)
		source->context = NULL;
	if (!source->context)
		return device_retain(&session->devices, driver, source->device, &source->context);
	return GPUSHARE_OK;
}

int source_check_foreign(struct gpushare_session *session, uint64_t pointer)
{
	char name[GPUSHARE_NAME_MAX + 1] = "";

	session_lock(session);
	for (struct gpushare_buffer *seen = session->buffers; seen && !*name; seen = seen->next)
		if (seen->kind == BUFFER_ATTACHED && !seen->host_only && pointer >= seen->opened &&
		    pointer - seen->opened < seen->info.base_size)
			memcpy(name, seen->info.name, sizeof(name));
	pthread_mutex_unlock(&session->lock);
	if (!*name)
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_NOT_SHAREABLE,
			"the memory at 0x%" PRIx64 " is '%s' of another process; share it there",
			pointer, name);
}

static int source_measure(const struct driver *driver, struct source *source)
{
	cu_result result =
	    driver->cuMemGetAddressRange_v2(&source->base, &source->base_size, source->pointer);
	uint64_t offset;

	if (result == CU_INVALID_VALUE || result == CU_NOT_FOUND)
		return source_refuse(driver, source);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemGetAddressRange_v2",
				     "can't find the allocation of 0x%" PRIx64, source->pointer);
	offset = source->pointer - source->base;
	if (!span_fits(offset, source->size, source->base_size))
		return api_fail(GPUSHARE_E_RANGE,
				"%zu bytes from offset %" PRIu64
				" do not fit the allocation of %zu "
				"bytes at 0x%llx",
				source->size, offset, source->base_size, source->base);
	return GPUSHARE_OK;
}

/* cuMemCreate memory has no IPC handle, but it may have a file descriptor. */
static int source_export_fd(const struct driver *driver, struct source *source)
{
	bool mapped;
	cu_result result = vmm_export_at(driver, source->pointer, &source->fd, &mapped);

	if (result == CU_OK) {
		source->backing = GPUSHARE_BACKING_VMM;
		return GPUSHARE_OK;
	}
	if (!mapped)
		return source_refuse(driver, source);
	if (result != CU_INVALID_VALUE && result != CU_NOT_SUPPORTED && result != CU_NOT_PERMITTED)
		return api_fail_cuda(driver, result, "cuMemExportToShareableHandle",
				     "no file descriptor for the memory at 0x%" PRIx64,
				     source->pointer);
	return api_fail(GPUSHARE_E_NOT_SHAREABLE,
			"the memory at 0x%" PRIx64 " is cuMemCreate memory without a POSIX file "
			"descriptor handle; request one: requestedHandleTypes = "
			"CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
			source->pointer);
}

void source_finish(struct source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	source->fd = -1;
}

int source_export(const struct driver *driver, struct source *source)
{
	_device_scope_ struct device_scope scope = {NULL};
	cu_result result;
	int status = device_enter(driver, source->context, &scope);

	if (!status)
		status = source_measure(driver, source);
	if (!status)
		status = device_uuid(driver, source->device, source->uuid);
	if (status)
		return status;
	source->backing = GPUSHARE_BACKING_IPC;
	result = driver->cuIpcGetMemHandle(&source->handle, source->base);
	if (result == CU_INVALID_VALUE)
		return source_export_fd(driver, source);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuIpcGetMemHandle",
				     "no handle for the memory at 0x%" PRIx64, source->pointer);
	return GPUSHARE_OK;
}
