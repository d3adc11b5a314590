/* SPDX-License-Identifier: MIT */
#include "api_session.h"
#include "api_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"

/* Field 22 of /proc/self/stat; the command in field 2 may hold spaces and brackets. */
static uint64_t share_started(void)
{
	char line[1024];
	uint64_t started = 0;
	const char *at;
	FILE *file = fopen("/proc/self/stat", "re");

	if (!file)
		return 0;
	at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	if (at)
		sscanf(
		    at + 1,
		    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		    "%" SCNu64,
		    &started);
	return started;
}

static void share_describe(struct gpushare_buffer *buffer, const char *name,
			   const struct source *source)
{
	struct gpushare_info *info = &buffer->info;
	struct timespec now;
	FILE *file = fopen("/proc/self/comm", "re");

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
	info->owner_uid = getuid();
	info->owner_pid = getpid();
	info->owner_started = share_started();
	if (file) {
		if (fgets(info->owner_command, sizeof(info->owner_command), file))
			info->owner_command[strcspn(info->owner_command, "\n")] = '\0';
		fclose(file);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	info->created_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int share_register(struct gpushare_session *session, const struct source *source,
			  struct gpushare_info *info)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	record *wanted = &ask.verb.share.buffer;
	gpushare_ShareReply answer;
	int status;

	ask.verb.share.has_buffer = true;
	memcpy(wanted->name, info->name, sizeof(wanted->name));
	wanted->size = info->size;
	wanted->base_offset = info->base_offset;
	wanted->base_size = info->base_size;
	memcpy(wanted->device_uuid, info->device_uuid, sizeof(wanted->device_uuid));
	wanted->backing = info->backing;
	wanted->address = source->pointer;
	wanted->flags = info->flags;
	wanted->ttl_s = info->ttl_s;
	if (backing_is_fd(source->backing)) {
		status = session_deposit(session, source->fd, ask.verb.share.ticket);
		if (status)
			return status;
	} else {
		memcpy(ask.verb.share.handle, &source->handle, sizeof(ask.verb.share.handle));
	}
	status = session_ask(session, &ask, gpushare_Reply_share_tag, &answer, sizeof(answer));
	if (!status)
		info->generation = answer.generation;
	return status;
}

int share_enter(struct gpushare_session *session, const char *name, enum buffer_kind kind,
		const struct source *source, struct gpushare_buffer **out_buffer)
{
	_cleanup_free_ struct gpushare_buffer *buffer = calloc(1, sizeof(*buffer));
	int status;

	if (!buffer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to share '%s'", name);
	buffer->session = session;
	buffer->fd = -1;
	buffer->kind = kind;
	buffer->count = 1;
	buffer->pointer = source->pointer;
	buffer->device = source->device;
	buffer->context = source->context;
	buffer->mapping = source->mapping;
	share_describe(buffer, name, source);
	status = share_register(session, source, &buffer->info);
	if (status)
		return status;
	session_add(session, buffer);
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
	int status = api_check_name(name);

	if (!status)
		status = session_check(session);
	if (!status && !out_buffer)
		status = api_fail(GPUSHARE_E_INVALID, "out_buffer is NULL");
	if (!status && !size)
		status = api_fail(GPUSHARE_E_INVALID, "the size of '%s' is 0; share 1 byte or more",
				  name);
	return status;
}

API_PUBLIC int gpushare_share(struct gpushare_session *session, const char *name, uint64_t pointer,
			      size_t size, struct gpushare_buffer **out_buffer)
{
	struct source source = {.pointer = pointer, .size = size, .fd = -1};
	const struct driver *driver;
	int status = share_check(session, name, size, out_buffer);

	if (!status && !pointer)
		status = api_fail(GPUSHARE_E_INVALID, "the pointer to share as '%s' is NULL", name);
	if (!status)
		status = source_check_foreign(session, pointer);
	if (status)
		return status;
	driver = session_driver(session);
	if (!driver)
		return GPUSHARE_E_NO_DRIVER;
	status = source_locate(session, driver, &source);
	if (status)
		return status;
	return share_source(session, driver, name, BUFFER_SHARED, &source, out_buffer);
}

API_PUBLIC int gpushare_free(struct gpushare_buffer *buffer)
{
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
	session_tell_withdraw(buffer->session, &buffer->info);
	if (session_release(buffer->session, buffer) == RELEASE_HELD)
		return GPUSHARE_OK;
	if (buffer->kind == BUFFER_ALLOCATED)
		status = share_release(buffer);
	buffer_free(buffer);
	return status;
}
