/* SPDX-License-Identifier: MIT */
/* Shares memory of this process under a name: finds out what the registry must know about the
 * memory. */
#include "api_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/rights.h"

static bool source_attribute_set(const struct driver *driver, cu_pointer_attribute attribute,
				 uint64_t pointer)
{
	uint64_t value = 0; /* room for a pointer, an int or a bool */

	return driver->cuPointerGetAttribute(&value, attribute, pointer) == CU_OK && value;
}

/* For an error message: the kind of memory for which the driver has refused an IPC handle. */
static const char *source_kind(const struct driver *driver, uint64_t pointer)
{
	unsigned int type = 0;

	if (source_attribute_set(driver, CU_ATTRIBUTE_IS_MANAGED, pointer))
		return "managed memory (cudaMallocManaged)";
	if (source_attribute_set(driver, CU_ATTRIBUTE_MEMPOOL, pointer))
		return "stream-ordered memory (cudaMallocAsync)";
	if (driver->cuPointerGetAttribute(&type, CU_ATTRIBUTE_MEMORY_TYPE, pointer) == CU_OK &&
	    type == CU_MEMORY_HOST)
		return "host memory";
	if (!source_attribute_set(driver, CU_ATTRIBUTE_CONTEXT, pointer))
		return "stream-ordered memory (cudaMallocAsync), or virtual memory";
	return "memory that cudaMalloc did not make (stream-ordered or virtual)";
}

static int source_refuse(const struct gpushare_buffer *buffer)
{
	return api_fail(GPUSHARE_E_NOT_SHAREABLE,
			"the memory at 0x%" PRIx64
			" is %s, which has no CUDA IPC handle; allocate it "
			"with cudaMalloc, cudaMallocPitch or gpushare_alloc()",
			buffer->pointer, source_kind(buffer->session->driver, buffer->pointer));
}

/* Find device and context from `pointer`. Memory without a context gets its device's primary
 * one. */
static int source_locate(struct gpushare_buffer *buffer)
{
	const struct driver *driver = buffer->session->driver;
	cu_result result = driver->cuPointerGetAttribute(
	    &buffer->device, CU_ATTRIBUTE_DEVICE_ORDINAL, buffer->pointer);

	if (result == CU_INVALID_VALUE)
		return api_fail(GPUSHARE_E_NOT_SHAREABLE,
				"CUDA does not know 0x%" PRIx64
				" in this process: it is plain host memory, or "
				"was freed; allocate with cudaMalloc or gpushare_alloc()",
				buffer->pointer);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuPointerGetAttribute",
				     "can't find the GPU of 0x%" PRIx64, buffer->pointer);
	return device_context_of(&buffer->session->devices, driver, buffer->pointer, buffer->device,
				 &buffer->context);
}

/* E_NOT_SHAREABLE if the memory was attached from another process: that process has to share it. */
static int source_check_foreign(struct gpushare_session *session, uint64_t pointer)
{
	char name[GPUSHARE_NAME_MAX + 1] = "";

	pthread_mutex_lock(&session->lock);
	for (struct gpushare_buffer *seen = session->buffers; seen && !*name; seen = seen->next)
		if (seen->kind == BUFFER_ATTACHED && !seen->host_only &&
		    pointer >= buffer_base(seen) &&
		    pointer - buffer_base(seen) < seen->info.base_size)
			memcpy(name, seen->info.name, sizeof(name));
	pthread_mutex_unlock(&session->lock);
	if (!*name)
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_NOT_SHAREABLE,
			"the memory at 0x%" PRIx64 " is '%s' of another process; share it there",
			pointer, name);
}

static int source_measure(struct gpushare_buffer *buffer)
{
	const struct driver *driver = buffer->session->driver;
	struct gpushare_info *info = &buffer->info;
	cu_deviceptr base = 0;
	size_t size = 0;
	cu_result result = driver->cuMemGetAddressRange_v2(&base, &size, buffer->pointer);

	if (result == CU_INVALID_VALUE || result == CU_NOT_FOUND)
		return source_refuse(buffer);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemGetAddressRange_v2",
				     "can't find the allocation of 0x%" PRIx64, buffer->pointer);
	info->base_offset = buffer->pointer - base;
	info->base_size = size;
	if (!span_fits(info->base_offset, info->size, size))
		return api_fail(GPUSHARE_E_RANGE,
				"%" PRIu64 " bytes from offset %" PRIu64
				" do not fit the allocation of %zu "
				"bytes at 0x%llx",
				info->size, info->base_offset, size, base);
	return GPUSHARE_OK;
}

/* cuMemCreate memory has no IPC handle, but it may have a file descriptor. */
static int source_export_fd(struct gpushare_buffer *buffer, int *out_fd)
{
	const struct driver *driver = buffer->session->driver;
	bool mapped;
	cu_result result = vmm_export_at(driver, buffer->pointer, out_fd, &mapped);

	if (result == CU_OK) {
		buffer->info.backing = GPUSHARE_BACKING_VMM;
		return GPUSHARE_OK;
	}
	if (!mapped)
		return source_refuse(buffer);
	if (result != CU_INVALID_VALUE && result != CU_NOT_SUPPORTED && result != CU_NOT_PERMITTED)
		return api_fail_cuda(driver, result, "cuMemExportToShareableHandle",
				     "no file descriptor for the memory at 0x%" PRIx64,
				     buffer->pointer);
	return api_fail(GPUSHARE_E_NOT_SHAREABLE,
			"the memory at 0x%" PRIx64 " is cuMemCreate memory without a POSIX file "
			"descriptor handle; request one: requestedHandleTypes = "
			"CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
			buffer->pointer);
}

int share_export(struct gpushare_buffer *buffer, int *out_fd)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	cu_result result;
	int status = device_enter(driver, buffer->context, &scope);

	if (!status)
		status = source_measure(buffer);
	if (!status)
		status = device_uuid(driver, buffer->device, buffer->info.device_uuid);
	if (status)
		return status;
	buffer->info.backing = GPUSHARE_BACKING_IPC;
	result =
	    driver->cuIpcGetMemHandle(&buffer->handle, buffer->pointer - buffer->info.base_offset);
	if (result == CU_INVALID_VALUE)
		return source_export_fd(buffer, out_fd);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuIpcGetMemHandle",
				     "no handle for the memory at 0x%" PRIx64, buffer->pointer);
	return GPUSHARE_OK;
}

void share_keep_rights(struct gpushare_buffer *buffer)
{
	struct api_rights *rights = &buffer->rights;

	if (!rights->mode)
		rights->mode = buffer->info.mode;
	if (!*rights->group)
		rights_name_group(buffer->info.owner_gid, &rights->mode, rights->group,
				  sizeof(rights->group));
}

void share_describe(const struct gpushare_buffer *buffer, gpushare_Share *share)
{
	const struct gpushare_info *info = &buffer->info;
	record *wanted = &share->buffer;

	share->has_buffer = true;
	memcpy(wanted->name, info->name, sizeof(wanted->name));
	wanted->size = info->size;
	wanted->base_offset = info->base_offset;
	wanted->base_size = info->base_size;
	memcpy(wanted->device_uuid, info->device_uuid, sizeof(wanted->device_uuid));
	wanted->backing = info->backing;
	wanted->address = buffer->address ? buffer->address : buffer->pointer;
	wanted->flags = info->flags & ~(uint32_t)GPUSHARE_FLAG_STAGED;
	if (buffer->staged && !buffer->committing)
		wanted->flags |= GPUSHARE_FLAG_STAGED;
	wanted->ttl_s = info->ttl_s;
	share->mode = buffer->rights.mode;
	memcpy(share->group, buffer->rights.group, sizeof(share->group));
}

int share_enter(struct gpushare_buffer *buffer, int fd)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	struct gpushare_info *info = &buffer->info;
	gpushare_ShareReply answer;
	struct session_answer got;
	int status;

	info->isolated = backing_is_isolated(info->backing, info->base_size);
	share_describe(buffer, &ask.verb.share);
	if (!backing_is_fd(info->backing))
		memcpy(ask.verb.share.handle, &buffer->handle, sizeof(ask.verb.share.handle));
	status = session_ask_passing(buffer->session, &ask, BODY(share, &answer), fd, &got);
	fds_close(&got.fd, got.fd >= 0);
	if (status)
		return status;
	info->generation = answer.generation;
	info->mode = answer.mode;
	info->owner_gid = answer.owner_gid;
	session_add(buffer->session, buffer, got.readings);
	return GPUSHARE_OK;
}

int share_check(const struct gpushare_session *session, const char *name, size_t size,
		struct gpushare_buffer *const *out_buffer)
{
	int status = API_NEED(session_check_name(session, name), out_buffer);

	if (!status && !size)
		status = api_fail(GPUSHARE_E_INVALID, "the size of '%s' is 0; share 1 byte or more",
				  name);
	return status;
}

static int check_rights(const char *name, uint32_t mode, const char *group)
{
	if (mode & ~0666u)
		return api_fail(GPUSHARE_E_INVALID,
				"'%s': mode %04o is invalid; use only read and write bits, such as "
				"0600, 0640 or 0666",
				name, mode);
	if (strlen(group) >= sizeof(((struct api_rights *)0)->group))
		return api_fail(GPUSHARE_E_INVALID, "'%s': the group's name is too long", name);
	return GPUSHARE_OK;
}

int share_new(struct gpushare_session *session, const char *name, enum buffer_kind kind,
	      uint32_t mode, const char *group, struct gpushare_buffer **out_buffer)
{
	int status = check_rights(name, mode, group ? group : "");
	struct gpushare_buffer *buffer;
	struct gpushare_info *info;
	struct timespec now;
	gpushare_Self self;
	FILE *file;

	if (status)
		return status;
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "out of host memory while sharing '%s'",
				name);
	buffer->session = session;
	buffer->kind = kind;
	buffer->count = 1;
	buffer->rights.mode = mode;
	strcpy(buffer->rights.group, group ? group : "");
	info = &buffer->info;
	strcpy(info->name, name);
	client_self(&self);
	info->owner_alive = 1;
	info->owner_uid = geteuid();
	info->owner_pid = self.pid;
	info->owner_started = self.started;
	file = fopen("/proc/self/comm", "re");
	if (file) {
		if (fgets(info->owner_command, sizeof(info->owner_command), file))
			info->owner_command[strcspn(info->owner_command, "\n")] = '\0';
		fclose(file);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	info->created_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	*out_buffer = buffer;
	return GPUSHARE_OK;
}

/* If the memory is part of a read-only buffer that this session allocated, share it as
 * read-only. */
static uint32_t share_inherited(struct gpushare_session *session, uint64_t pointer)
{
	uint32_t flags = 0;

	pthread_mutex_lock(&session->lock);
	for (const struct gpushare_buffer *own = session->buffers; own && !flags; own = own->next)
		if (own->kind == BUFFER_ALLOCATED && pointer >= own->pointer &&
		    pointer - own->pointer < own->info.size)
			flags = own->info.flags & GPUSHARE_FLAG_READONLY;
	pthread_mutex_unlock(&session->lock);
	return flags;
}

API_PUBLIC int gpushare_share_with(struct gpushare_session *session, const char *name,
				   uint64_t pointer, size_t size,
				   const struct gpushare_share_options *options,
				   struct gpushare_buffer **out_buffer)
{
	API_CALL;
	static const struct gpushare_share_options defaults;
	_cleanup_free_ struct gpushare_buffer *buffer = NULL;
	_cleanup_close_ int fd = -1;
	int status = share_check(session, name, size, out_buffer);

	if (!options)
		options = &defaults;
	if (!status)
		status =
		    share_new(session, name, BUFFER_SHARED, options->mode, options->group, &buffer);
	if (!status && !pointer)
		status = api_fail(GPUSHARE_E_INVALID, "the pointer to share as '%s' is NULL", name);
	if (!status)
		status = source_check_foreign(session, pointer);
	if (status)
		return status;
	buffer->pointer = pointer;
	buffer->info.size = size;
	if (!session_driver(session))
		return GPUSHARE_E_NO_DRIVER;
	session_deferred_sweep(session);
	status = source_locate(buffer);
	if (status)
		return status;
	buffer->info.flags = share_inherited(session, pointer);
	buffer->staged = options->staged;
	if (options->staged)
		buffer->info.flags |= GPUSHARE_FLAG_STAGED;
	status = share_export(buffer, &fd);
	if (!status)
		status = share_enter(buffer, fd);
	if (status)
		return status;
	*out_buffer = buffer;
	buffer = NULL;
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_share(struct gpushare_session *session, const char *name, uint64_t pointer,
			      size_t size, struct gpushare_buffer **out_buffer)
{
	return gpushare_share_with(session, name, pointer, size, NULL, out_buffer);
}

int session_end_shared(struct gpushare_buffer *buffer)
{
	struct gpushare_session *session = buffer->session;
	/* Not used: a withdrawal names the generation, so repeating it is harmless. */
	unsigned int readings;

	parts_end(buffer);
	ordering_end(buffer);
	session_use(buffer); /* until the name is withdrawn */
	session_release(session, buffer, &readings);
	session_deferred_sweep(session);
	if (buffer->kind == BUFFER_ALLOCATED && !buffer->mapping.size)
		buffer->deferred = session_deferred_leave(session, buffer);
	else
		session_tell_withdraw(session, &buffer->info);
	return session_unuse(buffer);
}

API_PUBLIC int gpushare_free(struct gpushare_buffer *buffer)
{
	API_CALL;
	int status;

	if (!buffer)
		return GPUSHARE_OK;
	status = session_check_buffer(buffer);
	if (status)
		return status;
	if (buffer->kind != BUFFER_SHARED && buffer->kind != BUFFER_ALLOCATED)
		return api_fail(GPUSHARE_E_INVALID,
				"'%s' came from gpushare_attach(); give it back with "
				"gpushare_detach()",
				buffer->info.name);
	return session_end_shared(buffer);
}

/* During the commit, the session may share the buffer again with a new registry: as not staged, and
 * perhaps under another generation. If such a registry answers E_NOT_FOUND, ask again with the
 * present generation. If several threads commit the same buffer, each of them asks: the registry
 * does nothing the second time. */
static int commit(struct gpushare_buffer *buffer)
{
	request ask = {.which_verb = gpushare_Request_commit_tag};
	struct gpushare_session *session = buffer->session;
	unsigned int before, tries = CLIENT_ENDINGS;
	bool staged;
	int status;

	memcpy(ask.verb.commit.name, buffer->info.name, sizeof(ask.verb.commit.name));
	do {
		before = session_connections(session);
		pthread_mutex_lock(&session->lock);
		staged = buffer->staged;
		buffer->committing += staged;
		ask.verb.commit.generation = buffer->info.generation;
		pthread_mutex_unlock(&session->lock);
		if (!staged)
			return GPUSHARE_OK;
		status = session_ask(session, &ask, NO_BODY);
		pthread_mutex_lock(&session->lock);
		buffer->committing--;
		if (!status) {
			buffer->staged = false;
			buffer->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
		}
		pthread_mutex_unlock(&session->lock);
	} while (status == GPUSHARE_E_NOT_FOUND && session_connections(session) != before &&
		 --tries);
	return status;
}

API_PUBLIC int gpushare_commit(struct gpushare_buffer *buffer)
{
	API_CALL;
	int status = session_check_buffer(buffer);

	if (!status && buffer_is_attached(buffer))
		status =
		    api_fail(GPUSHARE_E_INVALID, "'%s' is attached here; its owner can commit it",
			     buffer->info.name);
	return status ? status : commit(buffer);
}
