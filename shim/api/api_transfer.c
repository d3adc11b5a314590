/* SPDX-License-Identifier: MIT */
#include "api_session.h"

#include <string.h>

/*
 * Bytes of one copy. The GPU needs about 0.15 ms to copy 8 MiB, much longer than the CPU needs to
 * start the next copy. Pinning two chunks takes only a few milliseconds.
 */
#define CHUNK ((size_t)8 << 20)
#define CHUNK_STEP ((size_t)4096)

/* A transfer in progress. Its staging is borrowed from the session. */
struct transfer {
	struct gpushare_buffer *buffer;
	const struct driver *driver;
	uint64_t at; /* device address of the first byte */
	size_t length;
	struct staging staging;
};

int transfer_check(const struct gpushare_buffer *buffer, size_t offset, size_t length, bool write)
{
	int status = session_check_buffer(buffer);

	if (status)
		return status;
	if (write && buffer->asked_read_only)
		return api_fail(GPUSHARE_E_READ_ONLY,
				"'%s' is read-only here: it was attached with read_only; attach it "
				"without, or write it elsewhere",
				buffer->info.name);
	if (write && buffer->read_only)
		return api_fail(
		    GPUSHARE_E_READ_ONLY,
		    "'%s' is read-only here: its owner, %s (process %d), lets other processes "
		    "only read; write it there",
		    buffer->info.name, buffer->info.owner_command, (int)buffer->info.owner_pid);
	if (span_fits(offset, length, buffer->info.size))
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_RANGE,
			"%zu bytes from offset %zu run past the end of '%s', which has %zu bytes",
			length, offset, buffer->info.name, (size_t)buffer->info.size);
}

int transfer_check_access(const struct gpushare_buffer *buffer, size_t offset, size_t length,
			  unsigned int access)
{
	int status = transfer_check(buffer, offset, length, access & GPUSHARE_WRITE);

	if (status || (access && !(access & ~(unsigned int)(GPUSHARE_READ | GPUSHARE_WRITE))))
		return status;
	return api_fail(GPUSHARE_E_INVALID,
			"access 0x%x to '%s' is invalid; use GPUSHARE_READ, GPUSHARE_WRITE or both",
			access, buffer->info.name);
}

/* No copy uses the staging: transfer_run() has waited for its stream. */
void staging_finish(struct staging *staging, const struct driver *driver)
{
	_device_scope_ struct device_scope scope = {NULL};

	if (!staging->context)
		return;
	if (device_enter_relaxed(driver, staging->context, &scope) == GPUSHARE_OK) {
		for (int i = 0; i < 2; i++) {
			if (staging->host[i])
				driver->cuMemFreeHost(staging->host[i]);
			if (staging->done[i])
				driver->cuEventDestroy_v2(staging->done[i]);
		}
		if (staging->stream)
			driver->cuStreamDestroy_v2(staging->stream);
	}
	*staging = (struct staging){.context = NULL};
}

/* The stream is a blocking one: it is ordered after the legacy default stream, as cuMemcpy is. */
static int staging_init(struct staging *staging, const struct driver *driver, cu_context context,
			size_t size)
{
	const char *call = "cuStreamCreate";
	cu_result result;

	*staging = (struct staging){.context = context, .size = size};
	result = driver->cuStreamCreate(&staging->stream, 0);
	for (int i = 0; i < 2; i++) {
		if (result == CU_OK) {
			call = "cuMemHostAlloc";
			result = driver->cuMemHostAlloc(&staging->host[i], size, 0);
		}
		if (result == CU_OK) {
			call = "cuEventCreate";
			result = driver->cuEventCreate(&staging->done[i], CU_EVENT_NO_TIMING);
		}
	}
	if (result == CU_OK)
		return GPUSHARE_OK;
	staging_finish(staging, driver);
	return api_fail_cuda(driver, result, call, "two pinned buffers of %zu bytes can't be made",
			     size);
}

/* Take the session's staging if it fits, else make one. The buffer's context is current. */
static int transfer_begin(struct transfer *transfer)
{
	struct gpushare_session *session = transfer->buffer->session;
	cu_context context = transfer->buffer->context;
	size_t size = transfer->length < CHUNK ? transfer->length : CHUNK;
	struct staging old = {.context = NULL};

	pthread_mutex_lock(&session->lock);
	if (session->staging.context == context) {
		old = session->staging;
		session->staging = (struct staging){.context = NULL};
	}
	pthread_mutex_unlock(&session->lock);
	if (old.size >= size) {
		transfer->staging = old;
		return GPUSHARE_OK;
	}
	staging_finish(&old, transfer->driver);
	size = (size + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
	return staging_init(&transfer->staging, transfer->driver, context, size);
}

/* Keep the staging for the next transfer, unless its context may die before the session. */
static void transfer_end(struct transfer *transfer)
{
	struct gpushare_session *session = transfer->buffer->session;
	bool keep = device_retains(&session->devices, transfer->staging.context);
	struct staging old = transfer->staging;

	if (keep) {
		pthread_mutex_lock(&session->lock);
		old = session->staging;
		session->staging = transfer->staging;
		pthread_mutex_unlock(&session->lock);
	}
	staging_finish(&old, transfer->driver);
}

static int transfer_failed(const struct transfer *transfer, cu_result result, const char *call,
			   const char *verb)
{
	return api_fail_cuda(transfer->driver, result, call, "%s '%s' failed", verb,
			     transfer->buffer->info.name);
}

int transfer_cancelled(const struct gpushare_buffer *buffer, const char *verb, size_t done,
		       size_t length)
{
	return api_fail(GPUSHARE_E_CANCELLED,
			"%s '%s' was ended by its callback after %zu of %zu bytes", verb,
			buffer->info.name, done, length);
}

static size_t transfer_part(const struct transfer *transfer, size_t done)
{
	size_t left = transfer->length - done;

	return left < transfer->staging.size ? left : transfer->staging.size;
}

/* Start the copy of the chunk at `done` into its host buffer. */
static cu_result transfer_fetch(const struct transfer *transfer, size_t done, int slot)
{
	const struct staging *staging = &transfer->staging;
	cu_result result =
	    transfer->driver->cuMemcpyDtoHAsync_v2(staging->host[slot], transfer->at + done,
						   transfer_part(transfer, done), staging->stream);

	if (result != CU_OK)
		return result;
	return transfer->driver->cuEventRecord(staging->done[slot], staging->stream);
}

static int transfer_read(const struct transfer *transfer,
			 int (*sink)(const void *data, size_t size, void *user), void *user)
{
	const struct staging *staging = &transfer->staging;
	cu_result result = transfer_fetch(transfer, 0, 0);
	size_t part;
	int slot = 0;

	for (size_t done = 0; done < transfer->length; done += part, slot ^= 1) {
		part = transfer_part(transfer, done);
		if (result == CU_OK && done + part < transfer->length)
			result = transfer_fetch(transfer, done + part, slot ^ 1);
		if (result != CU_OK)
			return transfer_failed(transfer, result, "cuMemcpyDtoHAsync_v2", "reading");
		result = transfer->driver->cuEventSynchronize(staging->done[slot]);
		if (result != CU_OK)
			return transfer_failed(transfer, result, "cuEventSynchronize", "reading");
		if (sink(staging->host[slot], part, user))
			return transfer_cancelled(transfer->buffer, "reading", done,
						  transfer->length);
	}
	return GPUSHARE_OK;
}

static int transfer_write(const struct transfer *transfer,
			  int (*source)(void *data, size_t size, void *user), void *user)
{
	const struct staging *staging = &transfer->staging;
	const struct driver *driver = transfer->driver;
	cu_result result = CU_OK;
	size_t part;
	int slot = 0;

	for (size_t done = 0; done < transfer->length; done += part, slot ^= 1) {
		part = transfer_part(transfer, done);
		/* The previous copy from this host buffer must have ended; before its first use
		 * there was none. */
		if (done >= 2 * staging->size)
			result = driver->cuEventSynchronize(staging->done[slot]);
		if (result != CU_OK)
			return transfer_failed(transfer, result, "cuEventSynchronize", "writing");
		if (source(staging->host[slot], part, user))
			return transfer_cancelled(transfer->buffer, "writing", done,
						  transfer->length);
		result = driver->cuMemcpyHtoDAsync_v2(transfer->at + done, staging->host[slot],
						      part, staging->stream);
		if (result == CU_OK)
			result = driver->cuEventRecord(staging->done[slot], staging->stream);
		if (result != CU_OK)
			return transfer_failed(transfer, result, "cuMemcpyHtoDAsync_v2", "writing");
	}
	return GPUSHARE_OK;
}

/* CUDA crashes if it is given a destroyed context. So ask about the address first: the program may
 * have freed the memory, or destroyed the memory's context. */
static int transfer_enter(const struct gpushare_buffer *buffer, struct device_scope *scope)
{
	const struct driver *driver = buffer->session->driver;
	cu_context context = NULL;
	cu_result result =
	    driver->cuPointerGetAttribute(&context, CU_ATTRIBUTE_CONTEXT, buffer->pointer);

	if (result == CU_OK)
		return device_enter_relaxed(driver, buffer->context, scope);
	return api_fail_cuda(driver, result, "cuPointerGetAttribute",
			     "the memory of '%s' is no longer there: the program has freed it, or "
			     "destroyed its context",
			     buffer->info.name);
}

/* Either `sink` is set, to read, or `source`, to write. */
static int transfer_run(struct gpushare_buffer *buffer, size_t offset, size_t length,
			int (*sink)(const void *data, size_t size, void *user),
			int (*source)(void *data, size_t size, void *user), void *user)
{
	_device_scope_ struct device_scope scope = {NULL};
	struct transfer transfer = {.buffer = buffer, .length = length};
	cu_result result;
	int status = transfer_check(buffer, offset, length, source != NULL);

	if (!status && !sink && !source)
		status = api_fail(GPUSHARE_E_INVALID, "the callback is NULL");
	if (status || !length)
		return status;
	if (buffer->host_only)
		return map_stream(buffer, offset, length, sink, source, user);
	transfer.driver = buffer->session->driver;
	transfer.at = buffer->pointer + offset;
	status = transfer_enter(buffer, &scope);
	if (!status)
		status = transfer_begin(&transfer);
	if (status)
		return status;
	status =
	    sink ? transfer_read(&transfer, sink, user) : transfer_write(&transfer, source, user);
	/* Even after a failure, no copy may run when the host buffers are reused or freed. */
	result = transfer.driver->cuStreamSynchronize(transfer.staging.stream);
	if (!status && result != CU_OK)
		status = transfer_failed(&transfer, result, "cuStreamSynchronize", "copying");
	transfer_end(&transfer);
	return status;
}

API_PUBLIC int gpushare_read(struct gpushare_buffer *buffer, size_t offset, size_t length,
			     int (*sink)(const void *data, size_t size, void *user), void *user)
{
	API_CALL;
	return transfer_run(buffer, offset, length, sink, NULL, user);
}

API_PUBLIC int gpushare_write(struct gpushare_buffer *buffer, size_t offset, size_t length,
			      int (*source)(void *data, size_t size, void *user), void *user)
{
	API_CALL;
	return transfer_run(buffer, offset, length, NULL, source, user);
}

int transfer_dma(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		 size_t length)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	int status = transfer_enter(buffer, &scope);
	cu_result result;

	if (status)
		return status;
	result = to ? driver->cuMemcpyDtoH_v2(to, buffer->pointer + offset, length)
		    : driver->cuMemcpyHtoD_v2(buffer->pointer + offset, from, length);
	/* From pageable memory, cuMemcpyHtoD may return before the data has reached the device
	 * (CUDA Driver API, "API synchronization behavior"). A detach would then unmap the
	 * destination too early. */
	if (result == CU_OK && from)
		result = driver->cuStreamSynchronize(NULL);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, to ? "cuMemcpyDtoH_v2" : "cuMemcpyHtoD_v2",
				     "copying %zu bytes %s '%s' failed", length, to ? "from" : "to",
				     buffer->info.name);
	return GPUSHARE_OK;
}

/* Either `to` is set, to read, or `from`, to write. */
static int transfer_copy(struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
			 size_t length)
{
	int status = transfer_check(buffer, offset, length, !to);

	if (!status && length && !to && !from)
		status = api_fail(GPUSHARE_E_INVALID, "the host pointer is NULL");
	if (status || !length)
		return status;
	if (buffer->host_only)
		return map_copy(buffer, offset, to, from, length);
	if (map_copy_small(buffer, offset, to, from, length))
		return GPUSHARE_OK;
	return transfer_dma(buffer, offset, to, from, length);
}

API_PUBLIC int gpushare_copy_from(struct gpushare_buffer *buffer, size_t offset, void *host,
				  size_t length)
{
	API_CALL;
	return transfer_copy(buffer, offset, host, NULL, length);
}

API_PUBLIC int gpushare_copy_to(struct gpushare_buffer *buffer, size_t offset, const void *host,
				size_t length)
{
	API_CALL;
	return transfer_copy(buffer, offset, NULL, host, length);
}
