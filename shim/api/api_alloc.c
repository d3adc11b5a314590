/* SPDX-License-Identifier: MIT */
/* Allocating memory that has a name from the beginning. */
#include "api_share.h"
#include "api_used.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define ADOPT_NONE 1 /* not a status of gpushare.h */
#define X(name, value, text) | value
#define FLAGS_KNOWN ((uint32_t)(0 GPUSHARE_FLAGS(X)))
#define FLAGS_SENT (uint32_t)(GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY | GPUSHARE_FLAG_STAGED)

/* Allocate whole driver blocks: attachers map whole blocks, and no unrelated memory should be in
 * them. If there is no room for that, allocate the requested size. */
static cu_result alloc_blocks(const struct driver *driver, cu_deviceptr *pointer, size_t size)
{
	size_t rest = size % API_BLOCK;
	cu_result result = CU_OUT_OF_MEMORY;

	if (rest && size <= SIZE_MAX - API_BLOCK)
		result = driver->cuMemAlloc_v2(pointer, size - rest + API_BLOCK);
	if (result == CU_OUT_OF_MEMORY)
		result = driver->cuMemAlloc_v2(pointer, size);
	return result;
}

static int alloc_plain(struct gpushare_session *session, const struct driver *driver,
		       struct source *source, const char *name)
{
	_device_scope_ struct device_scope scope = {NULL};
	cu_deviceptr pointer = 0;
	cu_result result;
	int status = device_enter(driver, source->context, &scope);

	if (status)
		return status;
	result = alloc_blocks(driver, &pointer, source->size);
	if (result == CU_OUT_OF_MEMORY && session_deferred_empty(session, false))
		result = alloc_blocks(driver, &pointer, source->size);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemAlloc_v2",
				     "can't allocate %zu bytes on device %d for '%s'", source->size,
				     source->device, name);
	source->pointer = pointer;
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
static int alloc_vmm(struct gpushare_session *session, const struct driver *driver,
		     struct source *source, const char *name)
{
	_device_scope_ struct device_scope scope = {NULL};
	bool unified = source->backing == GPUSHARE_BACKING_HOST;
	cu_device device = (cu_device)source->device;
	const char *call;
	cu_result result;
	int status = device_enter(driver, source->context, &scope);

	if (!status)
		status = device_uuid(driver, source->device, source->uuid);
	if (status)
		return status;
	result = vmm_make(driver, source->size, device, unified, &source->mapping, &call);
	if (result == CU_OUT_OF_MEMORY && !unified && session_deferred_empty(session, false))
		result = vmm_make(driver, source->size, device, false, &source->mapping, &call);
	if (result == CU_NOT_SUPPORTED)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"this driver or device %d can't make %s memory, which '%s' asks "
				"for: %s is not supported",
				source->device, unified ? "unified" : "mapped", name, call);
	if (result != CU_OK)
		return api_fail_cuda(
		    driver, result, call, "can't allocate %zu bytes on %s %d for '%s'",
		    source->size, unified ? "the host of device" : "device", source->device, name);
	if (!unified)
		vmm_links_keep(&session->links, driver, device);
	source->pointer = source->base = source->mapping.pointer;
	source->base_size = source->mapping.size;
	result = vmm_host_export(driver, &source->mapping, &source->fd);
	if (result != CU_OK)
		status = api_fail_cuda(driver, result, "cuMemExportToShareableHandle",
				       "no file descriptor for the memory of '%s'", name);
	else if (unified)
		status = unified_add(driver, source->context, &source->mapping, 0);
	if (!status)
		return GPUSHARE_OK;
	source_finish(source);
	vmm_unmap(driver, &source->mapping);
	return status;
}

int alloc_unmap(const struct driver *driver, cu_context context, const struct vmm_mapping *mapping)
{
	_device_scope_ struct device_scope scope = {NULL};
	cu_result result;
	int status = device_enter(driver, context, &scope);

	if (status)
		return status;
	result = vmm_unmap(driver, mapping);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemUnmap",
				     "the %" PRIu64 " bytes at 0x%" PRIx64 " can't be freed",
				     mapping->size, mapping->pointer);
	return GPUSHARE_OK;
}

/* Free the memory, but keep the error sentence of what failed before. */
static void alloc_undo(const struct driver *driver, const struct source *source)
{
	char why[API_SENTENCE_MAX];

	snprintf(why, sizeof(why), "%s", gpushare_explain());
	if (source->backing == GPUSHARE_BACKING_HOST)
		unified_drop(source->mapping.pointer);
	else if (source->mapping.size)
		alloc_unmap(driver, source->context, &source->mapping);
	else
		alloc_free(driver, source->context, source->pointer);
	api_fail(GPUSHARE_OK, "%s", why);
}

static int alloc_new(struct gpushare_session *session, const struct driver *driver,
		     const char *name, struct source *source, struct gpushare_buffer **out_buffer)
{
	bool vmm = backing_is_fd(source->backing);
	struct gpushare_buffer *buffer;
	int status = vmm ? alloc_vmm(session, driver, source, name)
			 : alloc_plain(session, driver, source, name);

	if (status)
		return status;
	if (vmm) {
		status = share_enter(session, name, BUFFER_ALLOCATED, source, &buffer);
		source_finish(source);
	} else {
		status = share_source(session, driver, name, BUFFER_ALLOCATED, source, &buffer);
	}
	if (status) {
		alloc_undo(driver, source);
		return status;
	}
	if (source->backing == GPUSHARE_BACKING_HOST)
		used_rename(source->mapping.pointer, 0, buffer->info.generation);
	*out_buffer = buffer;
	return GPUSHARE_OK;
}

/* Become the owner of the kept buffer of that name, and map it at the address that the last owner
 * had, if it is free: pointers into the buffer stay valid. ADOPT_NONE: there is none, or it is of
 * another kind. */
static int adopt(struct gpushare_buffer *buffer, unsigned int *out_readings)
{
	_device_scope_ struct device_scope scope = {NULL};
	_cleanup_close_ int fd = -1;
	request ask = {.which_verb = gpushare_Request_share_tag};
	gpushare_ShareReply answer;
	const record *from = &answer.buffer;
	struct vmm_wish wish = {.hold = true};
	int status;

	share_describe(buffer, &ask.verb.share);
	ask.verb.share.adopt = true;
	status = session_ask_passing(buffer->session, &ask, gpushare_Reply_share_tag, &answer,
				     sizeof(answer), out_readings, -1, &fd);
	if (status)
		return status == GPUSHARE_E_NOT_FOUND ? ADOPT_NONE : status;
	if (fd < 0 || !answer.adopted || !answer.has_buffer || from->size != buffer->info.size ||
	    !span_fits(from->base_offset, from->size, from->base_size))
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry answered with another buffer than '%s'",
				buffer->info.name);
	query_info(from, &buffer->info);
	share_keep_rights(buffer);
	if (from->address > from->base_offset)
		wish.address = from->address - from->base_offset;
	status = device_enter(buffer->session->driver, buffer->context, &scope);
	if (!status)
		status = mapping_place(buffer, from, fd, &wish);
	if (status) /* the registry keeps the buffer, for another adopter */
		session_tell_withdraw(buffer->session, &buffer->info);
	return status;
}

/* ADOPT_NONE: there is nothing to adopt. */
static int alloc_adopt(struct gpushare_session *session, const struct driver *driver,
		       const char *name, struct source *source, struct gpushare_buffer **out_buffer)
{
	_cleanup_free_ struct gpushare_buffer *buffer = NULL;
	unsigned int readings;
	int status = device_uuid(driver, source->device, source->uuid);

	if (status)
		return status;
	source->base_size = source->size;
	buffer = share_new(session, name, BUFFER_ALLOCATED, source);
	if (!buffer)
		return GPUSHARE_E_NO_MEMORY;
	buffer->adopted = true;
	status = adopt(buffer, &readings);
	if (status)
		return status;
	session_add(session, buffer, readings);
	*out_buffer = buffer;
	buffer = NULL;
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
	struct source source = {.size = size, .fd = -1};
	const struct driver *driver;
	int status = share_check(session, name, size, out_buffer);

	if (!options)
		options = &defaults;
	if (!status)
		status = alloc_check(name, options);
	if (!status)
		status = share_check_rights(name, options->mode, options->group, &source.rights);
	if (status)
		return status;
	driver = session_driver(session);
	if (!driver)
		return GPUSHARE_E_NO_DRIVER;
	session_deferred_sweep(session);
	source.flags = options->flags & FLAGS_SENT;
	source.ttl_s = options->ttl_s;
	source.backing = options->flags & GPUSHARE_FLAG_UNIFIED		    ? GPUSHARE_BACKING_HOST
			 : options->flags & ~(uint32_t)GPUSHARE_FLAG_STAGED ? GPUSHARE_BACKING_VMM
									    : GPUSHARE_BACKING_IPC;
	status = device_choose(driver, options->device, &source.device);
	if (!status)
		status = device_retain(&session->devices, driver, source.device, &source.context);
	if (status)
		return status;
	if (options->adopt) {
		status = alloc_adopt(session, driver, name, &source, out_buffer);
		if (status != ADOPT_NONE)
			return status;
	}
	return alloc_new(session, driver, name, &source, out_buffer);
}

API_PUBLIC int gpushare_alloc(struct gpushare_session *session, const char *name, int device,
			      size_t size, struct gpushare_buffer **out_buffer)
{
	API_CALL;
	const struct gpushare_alloc_options options = {.device = device};

	return gpushare_alloc_with(session, name, size, &options, out_buffer);
}

API_PUBLIC int gpushare_alloc_array(struct gpushare_session *session, const char *name,
				    size_t count, size_t element_size,
				    const struct gpushare_alloc_options *options,
				    struct gpushare_buffer **out_buffer)
{
	API_CALL;
	size_t size;

	if (!__builtin_mul_overflow(count, element_size, &size) && size)
		return gpushare_alloc_with(session, name, size, options, out_buffer);
	return api_fail(GPUSHARE_E_INVALID, "%zu elements of %zu bytes are %s", count, element_size,
			count && element_size ? "more than an address space can hold" : "0 bytes");
}
