/* SPDX-License-Identifier: MIT */
/* Sharing memory of this process: what the registry needs to know of it, and its name. */
#include "api_order.h"
#include "api_share.h"

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

/* Find device and context from `pointer`. Memory without a context gets its device's primary
 * one. */
static int source_locate(struct gpushare_session *session, const struct driver *driver,
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

/* E_NOT_SHAREABLE if the memory was attached from another process: that process has to share it. */
static int source_check_foreign(struct gpushare_session *session, uint64_t pointer)
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

static void share_note(struct gpushare_buffer *buffer, const char *name,
		       const struct source *source)
{
	struct gpushare_info *info = &buffer->info;
	struct timespec now;
	gpushare_Self self;
	FILE *file = fopen("/proc/self/comm", "re");

	client_self(&self);
	memcpy(info->name, name, strlen(name) + 1);
	info->size = source->size;
	info->base_offset = source->pointer - source->base;
	info->base_size = source->base_size;
	memcpy(info->device_uuid, source->uuid, GPUSHARE_UUID_SIZE);
	info->backing = source->backing;
	info->isolated = query_isolated(info);
	info->flags = source->flags;
	info->ttl_s = source->ttl_s;
	info->owner_alive = 1;
	info->owner_uid = geteuid();
	info->owner_gid = getegid();
	info->mode = source->rights.mode ? source->rights.mode : 0600;
	info->owner_pid = self.pid;
	info->owner_started = self.started;
	if (file) {
		if (fgets(info->owner_command, sizeof(info->owner_command), file))
			info->owner_command[strcspn(info->owner_command, "\n")] = '\0';
		fclose(file);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	info->created_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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
	wanted->flags = info->flags;
	wanted->ttl_s = info->ttl_s;
	share->mode = buffer->rights.mode;
	memcpy(share->group, buffer->rights.group, sizeof(share->group));
}

static int share_register(struct gpushare_session *session, const struct source *source,
			  struct gpushare_buffer *buffer, unsigned int *out_readings)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	gpushare_ShareReply answer;
	int status;

	share_describe(buffer, &ask.verb.share);
	if (!backing_is_fd(source->backing))
		memcpy(ask.verb.share.handle, &source->handle, sizeof(ask.verb.share.handle));
	status = session_ask_passing(session, &ask, gpushare_Reply_share_tag, &answer,
				     sizeof(answer), out_readings,
				     backing_is_fd(source->backing) ? source->fd : -1, NULL);
	if (status)
		return status;
	buffer->info.generation = answer.generation;
	if (answer.mode) { /* 0: an older registry, which does not report it */
		buffer->info.mode = answer.mode;
		buffer->info.owner_gid = answer.owner_gid;
	}
	return GPUSHARE_OK;
}

struct gpushare_buffer *share_new(struct gpushare_session *session, const char *name,
				  enum buffer_kind kind, const struct source *source)
{
	struct gpushare_buffer *buffer = calloc(1, sizeof(*buffer));

	if (!buffer) {
		api_fail(GPUSHARE_E_NO_MEMORY, "out of host memory while sharing '%s'", name);
		return NULL;
	}
	buffer->session = session;
	buffer->kind = kind;
	buffer->count = 1;
	buffer->pointer = source->pointer;
	buffer->device = source->device;
	buffer->context = source->context;
	buffer->mapping = source->mapping;
	if (source->backing == GPUSHARE_BACKING_EVENT)
		buffer->handle = source->handle;
	buffer->rights = source->rights;
	buffer->staged = source->flags & GPUSHARE_FLAG_STAGED;
	share_note(buffer, name, source);
	return buffer;
}

int share_enter(struct gpushare_session *session, const char *name, enum buffer_kind kind,
		const struct source *source, struct gpushare_buffer **out_buffer)
{
	_cleanup_free_ struct gpushare_buffer *buffer = share_new(session, name, kind, source);
	unsigned int readings = 0;
	int status = GPUSHARE_E_NO_MEMORY;

	if (buffer)
		status = share_register(session, source, buffer, &readings);
	if (status)
		return status;
	session_add(session, buffer, readings);
	*out_buffer = buffer;
	buffer = NULL;
	return GPUSHARE_OK;
}

int share_source(struct gpushare_session *session, const struct driver *driver, const char *name,
		 enum buffer_kind kind, struct source *source, struct gpushare_buffer **out_buffer)
{
	int status = source_export(driver, source);

	if (!status)
		status = share_enter(session, name, kind, source, out_buffer);
	source_finish(source);
	return status;
}

int share_check(const struct gpushare_session *session, const char *name, size_t size,
		struct gpushare_buffer *const *out_buffer)
{
	int status = session_check_name(session, name);

	if (!status && !out_buffer)
		status = api_fail(GPUSHARE_E_INVALID, "out_buffer is NULL");
	if (!status && !size)
		status = api_fail(GPUSHARE_E_INVALID, "the size of '%s' is 0; share 1 byte or more",
				  name);
	return status;
}

int share_check_rights(const char *name, uint32_t mode, const char *group,
		       struct api_rights *out_rights)
{
	*out_rights = (struct api_rights){.mode = mode};
	if (mode & ~0666u)
		return api_fail(GPUSHARE_E_INVALID,
				"'%s': mode %04o is invalid; use only read and write bits, such as "
				"0600, 0640 or 0666",
				name, mode);
	if (!group || !*group)
		return GPUSHARE_OK;
	if (strlen(group) >= sizeof(out_rights->group))
		return api_fail(GPUSHARE_E_INVALID, "'%s': the group's name is too long", name);
	strcpy(out_rights->group, group);
	return GPUSHARE_OK;
}

/* If the memory is part of a read-only buffer that this session allocated, share it as
 * read-only. */
static uint32_t share_inherited(struct gpushare_session *session, uint64_t pointer)
{
	uint32_t flags = 0;

	session_lock(session);
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
	struct source source = {.pointer = pointer, .size = size, .fd = -1};
	const struct driver *driver;
	int status = share_check(session, name, size, out_buffer);

	if (!options)
		options = &defaults;
	if (!status)
		status = share_check_rights(name, options->mode, options->group, &source.rights);
	if (!status && !pointer)
		status = api_fail(GPUSHARE_E_INVALID, "the pointer to share as '%s' is NULL", name);
	if (!status)
		status = source_check_foreign(session, pointer);
	if (status)
		return status;
	driver = session_driver(session);
	if (!driver)
		return GPUSHARE_E_NO_DRIVER;
	session_deferred_sweep(session);
	status = source_locate(session, driver, &source);
	if (status)
		return status;
	source.flags = share_inherited(session, pointer);
	if (options->staged)
		source.flags |= GPUSHARE_FLAG_STAGED;
	return share_source(session, driver, name, BUFFER_SHARED, &source, out_buffer);
}

API_PUBLIC int gpushare_share(struct gpushare_session *session, const char *name, uint64_t pointer,
			      size_t size, struct gpushare_buffer **out_buffer)
{
	API_CALL;
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

/* The flag is cleared before the request. So a new registry, to which the session shares the buffer
 * again, gets it as not staged, and may give it another generation. If such a registry answers
 * E_NOT_FOUND, try again with the present generation. Threads that commit the same buffer ask each:
 * the registry does nothing the second time. */
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
		session_lock(session);
		staged = buffer->staged;
		buffer->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
		ask.verb.commit.generation = buffer->info.generation;
		pthread_mutex_unlock(&session->lock);
		if (!staged)
			return GPUSHARE_OK;
		status = session_ask(session, &ask, 0, NULL, 0);
		session_lock(session);
		if (!status)
			buffer->staged = false;
		if (buffer->staged)
			buffer->info.flags |= GPUSHARE_FLAG_STAGED;
		else /* another thread's commit may have failed meanwhile */
			buffer->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
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
