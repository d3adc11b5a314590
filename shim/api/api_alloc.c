/* SPDX-License-Identifier: MIT */
/* Allocating memory that has a name from the beginning. */
#include "api_session.h"
#include "api_used.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define ADOPT_NONE 1 /* see adopt(); not a status of gpushare.h */
#define X(name, value, text) | value
#define FLAGS_KNOWN ((uint32_t)(0 GPUSHARE_FLAGS(X)))
#define FLAGS_SENT (uint32_t)(GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY | GPUSHARE_FLAG_STAGED)

/* Allocate whole driver blocks: attachers map whole blocks, and no unrelated memory should be in
 * them. If there is no room for that, allocate the requested size. */
static cu_result alloc_blocks(const struct driver *driver, cu_deviceptr *pointer, size_t size)
{
	size_t rest = size % DRIVER_BLOCK;
	cu_result result = CU_OUT_OF_MEMORY;

	if (rest && size <= SIZE_MAX - DRIVER_BLOCK)
		result = driver->cuMemAlloc_v2(pointer, size - rest + DRIVER_BLOCK);
	if (result == CU_OUT_OF_MEMORY)
		result = driver->cuMemAlloc_v2(pointer, size);
	return result;
}

static int alloc_plain(struct gpushare_buffer *buffer)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	size_t size = buffer->info.size;
	cu_deviceptr pointer = 0;
	cu_result result;
	int status = device_enter(driver, buffer->context, &scope);

	if (status)
		return status;
	result = alloc_blocks(driver, &pointer, size);
	if (result == CU_OUT_OF_MEMORY && session_deferred_empty(buffer->session, false))
		result = alloc_blocks(driver, &pointer, size);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemAlloc_v2",
				     "can't allocate %zu bytes on device %d for '%s'", size,
				     buffer->device, buffer->info.name);
	buffer->pointer = pointer;
	return GPUSHARE_OK;
}

int alloc_free(const struct driver *driver, cu_context context, uint64_t pointer)
{
	_device_scope_ struct device_scope scope = {NULL};
	cu_result result;
	int status = device_enter(driver, context, &scope);

	if (status)
		return status;
	result = driver->cuMemFree_v2(pointer);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemFree_v2",
				     "the memory at 0x%" PRIx64 " can't be freed", pointer);
	return GPUSHARE_OK;
}

/* Make memory by cuMemCreate (or unified memory), map it, and export its descriptor. */
static int alloc_vmm(struct gpushare_buffer *buffer, int *out_fd)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	const char *call, *name = buffer->info.name;
	bool unified = buffer->info.backing == GPUSHARE_BACKING_HOST;
	cu_device device = (cu_device)buffer->device;
	size_t size = buffer->info.size;
	cu_result result;
	int status = device_enter(driver, buffer->context, &scope);

	if (!status)
		status = device_uuid(driver, buffer->device, buffer->info.device_uuid);
	if (status)
		return status;
	result = vmm_make(driver, size, device, unified, &buffer->mapping, &call);
	if (result == CU_OUT_OF_MEMORY && !unified &&
	    session_deferred_empty(buffer->session, false))
		result = vmm_make(driver, size, device, false, &buffer->mapping, &call);
	if (result == CU_NOT_SUPPORTED)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"this driver or device %d can't make %s memory, which '%s' asks "
				"for: %s is not supported",
				buffer->device, unified ? "unified" : "mapped", name, call);
	if (result != CU_OK)
		return api_fail_cuda(
		    driver, result, call, "can't allocate %zu bytes on %s %d for '%s'", size,
		    unified ? "the host of device" : "device", buffer->device, name);
	if (!unified)
		vmm_links_keep(&buffer->session->links, driver, device);
	buffer->pointer = buffer->mapping.pointer;
	buffer->info.base_size = buffer->mapping.size;
	result = vmm_host_export(driver, &buffer->mapping, out_fd);
	if (result != CU_OK)
		status = api_fail_cuda(driver, result, "cuMemExportToShareableHandle",
				       "no file descriptor for the memory of '%s'", name);
	else if (unified)
		status = unified_add(driver, buffer->context, &buffer->mapping, 0);
	if (status)
		vmm_unmap(driver, &buffer->mapping);
	return status;
}

static int alloc_new(struct gpushare_buffer *buffer)
{
	_cleanup_close_ int fd = -1;
	bool vmm = backing_is_fd(buffer->info.backing);
	int status = vmm ? alloc_vmm(buffer, &fd) : alloc_plain(buffer);

	if (status)
		return status;
	if (!vmm)
		status = share_export(buffer, &fd);
	if (!status)
		status = share_enter(buffer, fd);
	if (status) {
		API_KEEP_SENTENCE;

		mapping_close(buffer);
		return status;
	}
	if (buffer->info.backing == GPUSHARE_BACKING_HOST)
		used_rename(buffer->pointer, 0, buffer->info.generation);
	return GPUSHARE_OK;
}

/* Become the owner of the kept buffer of that name. Map it at its last owner's address if that is
 * free: then pointers into the buffer stay valid. ADOPT_NONE: there is none, or it has another
 * size, backing or GPU. */
static int adopt(struct gpushare_buffer *buffer)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	request ask = {.which_verb = gpushare_Request_share_tag};
	gpushare_ShareReply answer;
	const record *from = &answer.buffer;
	struct vmm_wish wish = {.hold = true};
	_cleanup_close_ int fd = -1;
	struct session_answer got;
	int status = device_uuid(driver, buffer->device, buffer->info.device_uuid);

	if (status)
		return status;
	buffer->info.base_size = buffer->info.size;
	share_describe(buffer, &ask.verb.share);
	ask.verb.share.adopt = true;
	status = session_ask_passing(buffer->session, &ask, BODY(share, &answer), -1, &got);
	if (status)
		return status == GPUSHARE_E_NOT_FOUND ? ADOPT_NONE : status;
	fd = got.fd;
	if (fd < 0 || !answer.adopted || !answer.has_buffer || from->size != buffer->info.size ||
	    !span_fits(from->base_offset, from->size, from->base_size))
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry's answer is about another buffer than '%s'; are "
				"registry and library of the same version?",
				buffer->info.name);
	codec_read_info(from, &buffer->info);
	share_keep_rights(buffer);
	if (from->address > from->base_offset)
		wish.address = from->address - from->base_offset;
	status = device_enter(driver, buffer->context, &scope);
	if (!status)
		status = mapping_place(buffer, from, fd, &wish);
	if (status) { /* the registry keeps the buffer, for another adopter */
		session_tell_withdraw(buffer->session, &buffer->info);
		return status;
	}
	buffer->adopted = true;
	session_add(buffer->session, buffer, got.readings);
	return GPUSHARE_OK;
}

static int alloc_check(const char *name, const struct gpushare_alloc_options *options)
{
	bool keep = options->flags & GPUSHARE_FLAG_KEEP;

	if (options->flags & ~FLAGS_KNOWN)
		return api_fail(GPUSHARE_E_INVALID, "'%s': unknown flags 0x%" PRIx32, name,
				options->flags & ~FLAGS_KNOWN);
	if (options->flags & GPUSHARE_FLAG_VMM && options->flags & GPUSHARE_FLAG_UNIFIED)
		return api_fail(GPUSHARE_E_INVALID,
				"'%s': VMM is the GPU's memory and UNIFIED the host's; use one of "
				"the two flags",
				name);
	if (options->adopt && options->flags & GPUSHARE_FLAG_STAGED)
		return api_fail(GPUSHARE_E_INVALID,
				"'%s': others already see an adopted buffer, so it can't be STAGED",
				name);
	if (!keep && (options->ttl_s || options->adopt))
		return api_fail(GPUSHARE_E_INVALID, "'%s': %s needs GPUSHARE_FLAG_KEEP", name,
				options->adopt ? "adopt" : "ttl_s");
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_alloc_with(struct gpushare_session *session, const char *name, size_t size,
				   const struct gpushare_alloc_options *options,
				   struct gpushare_buffer **out_buffer)
{
	API_CALL;
	static const struct gpushare_alloc_options defaults = {.device = -1};
	_cleanup_free_ struct gpushare_buffer *buffer = NULL;
	int status = share_check(session, name, size, out_buffer);

	if (!options)
		options = &defaults;
	if (!status)
		status = alloc_check(name, options);
	if (!status)
		status = share_new(session, name, BUFFER_ALLOCATED, options->mode, options->group,
				   &buffer);
	if (status)
		return status;
	if (!session_driver(session))
		return GPUSHARE_E_NO_DRIVER;
	session_deferred_sweep(session);
	buffer->info.size = size;
	buffer->info.flags = options->flags & FLAGS_SENT;
	buffer->info.ttl_s = options->ttl_s;
	buffer->info.backing = options->flags & GPUSHARE_FLAG_UNIFIED ? GPUSHARE_BACKING_HOST
			       : options->flags & ~(uint32_t)GPUSHARE_FLAG_STAGED
				   ? GPUSHARE_BACKING_VMM
				   : GPUSHARE_BACKING_IPC;
	buffer->staged = options->flags & GPUSHARE_FLAG_STAGED;
	status = device_choose(session->driver, options->device, &buffer->device);
	if (!status)
		status = device_retain(&session->devices, session->driver, buffer->device,
				       &buffer->context);
	if (!status)
		status = options->adopt ? adopt(buffer) : ADOPT_NONE;
	if (status == ADOPT_NONE)
		status = alloc_new(buffer);
	if (status)
		return status;
	*out_buffer = buffer;
	buffer = NULL;
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_alloc(struct gpushare_session *session, const char *name, int device,
			      size_t size, struct gpushare_buffer **out_buffer)
{
	const struct gpushare_alloc_options options = {.device = device};

	return gpushare_alloc_with(session, name, size, &options, out_buffer);
}

API_PUBLIC int gpushare_alloc_array(struct gpushare_session *session, const char *name,
				    size_t count, size_t element_size,
				    const struct gpushare_alloc_options *options,
				    struct gpushare_buffer **out_buffer)
{
	size_t size;

	if (!__builtin_mul_overflow(count, element_size, &size) && size)
		return gpushare_alloc_with(session, name, size, options, out_buffer);
	return api_fail(GPUSHARE_E_INVALID, "%zu elements of %zu bytes are %s", count, element_size,
			count && element_size ? "more than an address space can hold" : "0 bytes");
}
