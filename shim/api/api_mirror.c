/* SPDX-License-Identifier: MIT */
/* Mirrors: copies of a part of a buffer in pinned host memory. */
#include "api_session.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/fork_check.h"

#define PAGE ((size_t)4096)

/*
 * The pinned host memory is made in a primary context that the session retains, so it outlives the
 * program's contexts. Any context can copy to and from it. A mirror that has ended stays pinned, as
 * a spare, for the next mirror that it is large enough for.
 */
struct gpushare_mirror {
	struct gpushare_mirror *prev,
	    *next; /* in the session's list of open mirrors or of spares */
	struct gpushare_buffer *buffer;
	size_t offset, length;
	unsigned int access;
	cu_context context;
	size_t size; /* bytes of data; 0: a mirror of 0 bytes, without data */
	void *data;
};

static void spares_free(const struct driver *driver, struct gpushare_mirror *spares)
{
	struct gpushare_mirror *spare, *next;

	LL_FOREACH_SAFE (spares, spare, next) {
		_device_scope_ struct device_scope scope = {NULL};

		if (device_enter_relaxed(driver, spare->context, &scope) == GPUSHARE_OK)
			driver->cuMemFreeHost(spare->data);
		free(spare);
	}
}

/* Take the smallest spare that is large enough. If there is none, free all spares and return NULL,
 * so that the session pins more memory only if all that it has pinned is in use. */
static struct gpushare_mirror *spare_take(struct gpushare_session *session, size_t length)
{
	struct gpushare_mirror *best = NULL, *useless = NULL, *each;

	pthread_mutex_lock(&session->lock);
	LL_FOREACH (session->spares, each) {
		if (each->size >= length && (!best || each->size < best->size))
			best = each;
	}
	if (best) {
		DL_DELETE(session->spares, best);
	} else {
		useless = session->spares;
		session->spares = NULL;
	}
	pthread_mutex_unlock(&session->lock);
	spares_free(session->driver, useless);
	return best;
}

static int mirror_pin(const struct gpushare_buffer *buffer, struct gpushare_mirror *mirror)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	int status =
	    device_retain(&buffer->session->devices, driver, buffer->device, &mirror->context);
	cu_result result;

	if (!status)
		status = device_enter_relaxed(driver, mirror->context, &scope);
	if (status)
		return status;
	result = driver->cuMemHostAlloc(&mirror->data, mirror->size, CU_HOST_ALLOC_PORTABLE);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemHostAlloc",
				     "no %zu bytes of pinned host memory to mirror '%s'; mirror it "
				     "in parts",
				     mirror->size, buffer->info.name);
	return GPUSHARE_OK;
}

/* A mirror with at least `length` bytes, for copies of `buffer`. */
static int mirror_make(const struct gpushare_buffer *buffer, size_t length,
		       struct gpushare_mirror **out_mirror)
{
	struct gpushare_mirror *mirror = length ? spare_take(buffer->session, length) : NULL;
	int status = GPUSHARE_OK;

	if (!mirror) {
		mirror = calloc(1, sizeof(*mirror));
		if (!mirror)
			return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to mirror '%s'",
					buffer->info.name);
		mirror->size = (length + PAGE - 1) / PAGE * PAGE;
		if (length)
			status = mirror_pin(buffer, mirror);
	}
	if (status)
		free(mirror);
	else
		*out_mirror = mirror;
	return status;
}

/* Keep the memory for later mirrors. `open`: the mirror is in the list of open ones. */
static void mirror_spare(struct gpushare_session *session, struct gpushare_mirror *mirror,
			 bool open)
{
	pthread_mutex_lock(&session->lock);
	if (open)
		DL_DELETE(session->mirrors, mirror);
	if (mirror->size)
		DL_PREPEND(session->spares, mirror);
	else
		free(mirror);
	pthread_mutex_unlock(&session->lock);
}

static int mirror_check(const struct gpushare_buffer *buffer, size_t offset, size_t length,
			unsigned int access, struct gpushare_mirror *const *out_mirror)
{
	int status = API_NEED(transfer_check_access(buffer, offset, length, access), out_mirror);

	if (status)
		return status;
	if (buffer->host_only)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is attached host_only, and a mirror needs CUDA; use "
				"gpushare_map()",
				buffer->info.name);
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_mirror_open(struct gpushare_buffer *buffer, size_t offset, size_t length,
				    unsigned int access, struct gpushare_mirror **out_mirror)
{
	API_CALL;
	struct gpushare_mirror *mirror = NULL;
	int status = mirror_check(buffer, offset, length, access, out_mirror);

	if (!status)
		status = mirror_make(buffer, length, &mirror);
	if (status)
		return status;
	mirror->buffer = buffer;
	mirror->offset = offset;
	mirror->length = length;
	mirror->access = access;
	if (length && (access & GPUSHARE_READ))
		status = transfer_dma(buffer, offset, mirror->data, NULL, length);
	if (status) {
		mirror_spare(buffer->session, mirror, false);
		return status;
	}
	session_use(buffer);
	pthread_mutex_lock(&buffer->session->lock);
	DL_PREPEND(buffer->session->mirrors, mirror);
	pthread_mutex_unlock(&buffer->session->lock);
	*out_mirror = mirror;
	return GPUSHARE_OK;
}

API_PUBLIC void *gpushare_mirror_data(const struct gpushare_mirror *mirror)
{
	static max_align_t none; /* the data of every mirror of 0 bytes; never written */

	if (!mirror)
		return NULL;
	return mirror->size ? mirror->data : &none;
}

API_PUBLIC size_t gpushare_mirror_size(const struct gpushare_mirror *mirror)
{
	return mirror ? mirror->length : 0;
}

static int mirror_check_open(const struct gpushare_mirror *mirror)
{
	if (!mirror)
		return api_fail(GPUSHARE_E_INVALID,
				"the mirror is NULL; get one from gpushare_mirror_open()");
	return session_check_buffer(mirror->buffer);
}

static int mirror_write(const struct gpushare_mirror *mirror)
{
	int status;

	if (!mirror->size)
		return GPUSHARE_OK;
	status = transfer_dma(mirror->buffer, mirror->offset, NULL, mirror->data, mirror->length);
	if (!status)
		return GPUSHARE_OK;
	return api_fail(status, "%s; the mirror is still open and has the bytes",
			gpushare_explain());
}

API_PUBLIC int gpushare_mirror_sync(struct gpushare_mirror *mirror)
{
	API_CALL;
	int status = mirror_check_open(mirror);

	if (status)
		return status;
	if (!(mirror->access & GPUSHARE_WRITE))
		return api_fail(GPUSHARE_E_INVALID,
				"the mirror of '%s' was opened without GPUSHARE_WRITE: there is "
				"nothing to write back",
				mirror->buffer->info.name);
	return mirror_write(mirror);
}

static void mirror_end(struct gpushare_mirror *mirror)
{
	struct gpushare_buffer *buffer = mirror->buffer;

	mirror_spare(buffer->session, mirror, true);
	session_unuse(buffer);
}

API_PUBLIC int gpushare_mirror_close(struct gpushare_mirror *mirror)
{
	API_CALL;
	int status;

	if (!mirror)
		return GPUSHARE_OK;
	status = mirror_check_open(mirror);
	if (!status && (mirror->access & GPUSHARE_WRITE))
		status = mirror_write(mirror);
	if (!status)
		mirror_end(mirror);
	return status;
}

/* In a forked child the mirror stays; gpushare_close() frees it there. */
API_PUBLIC void gpushare_mirror_drop(struct gpushare_mirror *mirror)
{
	API_CALL;
	if (mirror && mirror->buffer->session->process == fork_check_number())
		mirror_end(mirror);
}

API_PUBLIC void gpushare_mirror_scope_end(struct gpushare_mirror **mirror)
{
	gpushare_mirror_drop(*mirror);
}

void mirror_drop_all(struct gpushare_session *session)
{
	while (session->mirrors)
		mirror_end(session->mirrors);
	spares_free(session->driver, session->spares);
	session->spares = NULL;
}

void mirror_forget_all(struct gpushare_session *session)
{
	struct gpushare_mirror *mirror, *next;

	DL_CONCAT(session->mirrors, session->spares);
	LL_FOREACH_SAFE (session->mirrors, mirror, next) {
		free(mirror);
	}
}
