/* SPDX-License-Identifier: MIT */
#include "api_session.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "api_used.h"
#include "base/cleanup.h"
#include "base/client_held.h"

/* The only place that translates errors of cuIpcOpenMemHandle and cuIpcOpenEventHandle. */
int mapping_refused(const struct driver *driver, cu_result result, const record *from)
{
	bool event = from->backing == GPUSHARE_BACKING_EVENT;
	const char *call = event ? "cuIpcOpenEventHandle" : "cuIpcOpenMemHandle_v2";
	const char *answer = driver_error_name(driver, result);

	switch (result) {
	case CU_INVALID_VALUE: /* a handle whose block is gone: measured on driver 580 */
	case CU_INVALID_HANDLE:
	case CU_NOT_PERMITTED:
		return api_fail(GPUSHARE_E_OWNER_GONE,
				"'%s' can't be opened: its owner, %s (process %" PRId32
				"), has %s it or is gone (%s); start the owner again, or wait "
				"for a new '%s'",
				from->name, from->owner_command, from->owner_pid,
				event ? "closed" : "freed", answer, from->name);
	case CU_INVALID_CONTEXT: /* the owner has this process's pid: measured on driver 580 */
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "CUDA confuses the owner of '%s' with this process: it has the same pid, "
		    "%d, in another container. Start one of them with another pid%s",
		    from->name, getpid(), event ? "" : ", or share it as mapped memory (vmm)");
	case CU_MAP_FAILED:
		return api_fail(
		    GPUSHARE_E_CUDA,
		    "'%s' can't be opened: %s answered %s. CUDA shares events by /dev/shm, "
		    "and this process has another one than the owner, process %" PRId32
		    "; give both containers the same, as docker run --ipc does",
		    from->name, call, answer, from->owner_pid);
	case CU_PEER_ACCESS_UNSUPPORTED:
		return api_fail(
		    GPUSHARE_E_DEVICE,
		    "'%s' is of a GPU that this process's GPU can't reach (%s): open it on "
		    "its own GPU",
		    from->name, answer);
	case CU_NOT_SUPPORTED:
		return api_fail(event ? GPUSHARE_E_NOT_SUPPORTED : GPUSHARE_E_CUDA,
				"CUDA IPC is not supported on the GPU of '%s' here: %s answered %s",
				from->name, call, answer);
	default:
		return api_fail_cuda(driver, result, call,
				     "'%s' of process %" PRId32 ", with %" PRIu64
				     " bytes, can't be opened",
				     from->name, from->owner_pid, from->base_size);
	}
}

/* Whether mapping failed only because the device that it is for can't reach the memory's GPU. */
static bool mapping_is_unreached(const struct gpushare_buffer *buffer, cu_result result)
{
	return buffer->away && (result == CU_INVALID_DEVICE ||
				result == CU_PEER_ACCESS_UNSUPPORTED || result == CU_NOT_SUPPORTED);
}

static int mapping_verify(const struct driver *driver, const record *from, cu_deviceptr opened)
{
	cu_deviceptr base = 0;
	size_t size = 0;
	cu_result result = driver->cuMemGetAddressRange_v2(&base, &size, opened);

	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemGetAddressRange_v2",
				     "the size of the mapping of '%s' is unknown", from->name);
	if (from->base_offset + from->size > size - (opened - base))
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry says that '%s' ends at byte %" PRIu64
				" of an allocation of only %zu bytes",
				from->name, from->base_offset + from->size,
				size - (size_t)(opened - base));
	return GPUSHARE_OK;
}

static int mapping_import(struct gpushare_buffer *buffer, const gpushare_AttachReply *answer)
{
	const struct driver *driver = buffer->session->driver;
	cu_ipc_mem_handle handle;
	cu_deviceptr opened = 0;
	cu_result result;
	int status;

	memcpy(&handle, answer->handle, sizeof(handle));
	result = driver->cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_LAZY_PEER_ACCESS);
	if (mapping_is_unreached(buffer, result))
		return device_unreached(driver, answer->buffer.device_uuid, buffer->device,
					"cuIpcOpenMemHandle_v2", result);
	if (result != CU_OK)
		return mapping_refused(driver, result, &answer->buffer);
	status = mapping_verify(driver, &answer->buffer, opened);
	if (status) {
		driver->cuIpcCloseMemHandle(opened);
		return status;
	}
	buffer->pointer = opened + answer->buffer.base_offset;
	return GPUSHARE_OK;
}

static int mapping_refused_fd(const struct driver *driver, cu_result result, const char *call,
			      const record *from)
{
	if (result == CU_NOT_SUPPORTED)
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "'%s' is memory of cuMemCreate, which this driver or GPU can't map: "
		    "%s is not supported; use a driver of CUDA 11 or later",
		    from->name, call);
	if (result == CU_OUT_OF_MEMORY)
		return api_fail_cuda(driver, result, call,
				     "no room to map the %" PRIu64 " bytes of '%s'",
				     from->base_size, from->name);
	return api_fail_cuda(driver, result, call, "'%s' of process %" PRId32 " can't be mapped",
			     from->name, from->owner_pid);
}

int mapping_place(struct gpushare_buffer *buffer, const record *from, int fd,
		  const struct vmm_wish *wish)
{
	const struct driver *driver = buffer->session->driver;
	const char *call = NULL;
	cu_result result;

	if (from->backing == GPUSHARE_BACKING_HOST)
		return unified_map(buffer, from, fd, wish->read_only);
	result = vmm_map(driver, fd, from->base_size, (cu_device)buffer->device, wish,
			 &buffer->mapping, &call);
	if (result == VMM_ADDRESS_TAKEN)
		return api_fail(
		    GPUSHARE_E_ADDRESS_TAKEN,
		    "'%s' can't be mapped at its owner's address, 0x%" PRIx64
		    ", which is taken here; attach it before other memory is allocated, or "
		    "without same_address",
		    from->name, from->address);
	if (mapping_is_unreached(buffer, result))
		return device_unreached(driver, from->device_uuid, buffer->device, call, result);
	if (result != CU_OK)
		return mapping_refused_fd(driver, result, call, from);
	vmm_links_keep(&buffer->session->links, driver, (cu_device)buffer->device);
	buffer->pointer = buffer->mapping.pointer + from->base_offset;
	buffer->read_only = wish->read_only;
	return GPUSHARE_OK;
}

static bool mapping_is_read_only(const gpushare_AttachReply *answer)
{
	return answer->read_only ||
	       ((answer->buffer.flags & GPUSHARE_FLAG_READONLY) && !answer->own);
}

/* The buffer's backing needs a file descriptor, but the registry sent none. */
static int mapping_missing_fd(const record *from)
{
	return api_fail(GPUSHARE_E_PROTOCOL, "the registry sent no file descriptor for '%s'",
			from->name);
}

static int mapping_import_fd(struct gpushare_buffer *buffer, const struct attach_answer *answer,
			     const struct gpushare_attach_options *options)
{
	const record *from = &answer->reply.buffer;
	bool there = options->same_address || options->prefer_same_address;
	bool known = from->address > from->base_offset;
	const struct vmm_wish wish = {
	    .address = there && known ? from->address - from->base_offset : 0,
	    .must = options->same_address,
	    .read_only = mapping_is_read_only(&answer->reply),
	    .hold = true, /* for gpushare_map(), and for a registry that lost the descriptor */
	};

	if (options->same_address && !known)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"the address of '%s' in its owner's process is unknown",
				from->name);
	return answer->got.fd < 0 ? mapping_missing_fd(from)
				  : mapping_place(buffer, from, answer->got.fd, &wish);
}

int mapping_open(struct gpushare_buffer *buffer, const struct attach_answer *answer,
		 const struct gpushare_attach_options *options)
{
	const record *from = &answer->reply.buffer;
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	int status =
	    device_retain(&buffer->session->devices, driver, buffer->device, &buffer->context);

	buffer->away = !device_is(driver, buffer->device, from->device_uuid);
	if (!status)
		status = device_enter(driver, buffer->context, &scope);
	if (!status)
		status = backing_is_fd(from->backing) ? mapping_import_fd(buffer, answer, options)
						      : mapping_import(buffer, &answer->reply);
	if (!status)
		buffer->kind = BUFFER_ATTACHED;
	return status;
}

int mapping_open_host(struct gpushare_buffer *buffer, const struct attach_answer *answer)
{
	const record *from = &answer->reply.buffer;

	if (!backing_is_fd(from->backing))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is cudaMalloc memory, which can't be mapped without CUDA; "
				"allocate it by a rule with 'map' or with GPUSHARE_FLAG_VMM",
				from->name);
	buffer->kind = BUFFER_ATTACHED;
	buffer->host_only = true;
	buffer->device = -1;
	buffer->read_only = mapping_is_read_only(&answer->reply);
	if (answer->got.fd < 0)
		return mapping_missing_fd(from);
	if (from->backing == GPUSHARE_BACKING_HOST &&
	    !vmm_host_is_file(answer->got.fd, from->base_size))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is unified memory that its owner's CUDA driver made "
				"(cuMemCreate at a NUMA node), which only CUDA can map; "
				"attach it without host_only",
				from->name);
	buffer->mapping.held = held_keep(answer->got.fd);
	return buffer->mapping.held
		   ? GPUSHARE_OK
		   : api_fail(GPUSHARE_E_LIMIT,
			      "'%s' can't be attached: no file descriptor is left; see 'ulimit -n'",
			      from->name);
}

/* This process owns the buffer: use its own address, and the context that it was made in. */
int mapping_own(struct gpushare_buffer *buffer, uint64_t address)
{
	const struct driver *driver = buffer->session->driver;

	buffer->kind = BUFFER_OWN;
	buffer->pointer = address;
	return device_context_of(&buffer->session->devices, driver, address, buffer->device,
				 &buffer->context);
}

int mapping_close(const struct gpushare_buffer *buffer)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	bool vmm = buffer->mapping.size;
	cu_result result;
	int status;

	if (buffer_is_event(buffer))
		return used_drop(buffer->pointer);
	if (buffer->host_only) {
		if (buffer->view)
			map_view_close(buffer->view);
		return GPUSHARE_OK;
	}
	if (buffer->info.backing == GPUSHARE_BACKING_HOST)
		return unified_drop(buffer->mapping.pointer);
	if (buffer->kind == BUFFER_ALLOCATED && !vmm)
		return alloc_free(driver, buffer->context, buffer->pointer);
	status = device_enter(driver, buffer->context, &scope);
	if (status)
		return status;
	result = vmm ? vmm_unmap(driver, &buffer->mapping)
		     : driver->cuIpcCloseMemHandle(buffer_base(buffer));
	if (result == CU_OK)
		return GPUSHARE_OK;
	return api_fail_cuda(driver, result, vmm ? "cuMemUnmap" : "cuIpcCloseMemHandle",
			     "'%s' can't be unmapped", buffer->info.name);
}
