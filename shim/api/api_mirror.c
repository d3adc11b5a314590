/* SPDX-License-Identifier: MIT */
/* Mirrors: copies of a part of a buffer in pinned host memory. */
#include "api_session.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/fork_check.h"

#define PAGE ((size_t)4096)

/*
 * Pinned host memory. It is made in a primary context that the session retains, so it outlives the
 * program's contexts. Any context can copy to and from it. Memory that is given back stays pinned,
 * for the next mirror that it is large enough for.
 */
struct pinned {
	struct pinned *prev, *next;
	cu_context context;
	size_t size; /* bytes of data */
	void *data;
};

struct gpushare_mirror {
	struct gpushare_mirror *prev, *next; /* in the session's list */
	struct gpushare_buffer *buffer;
	size_t offset, length;
	unsigned int access;
	struct pinned *host; /* NULL: the mirror has 0 bytes */
};

static void pinned_unpin(const struct driver *driver, struct pinned *list)
{
	struct pinned *pinned, *next;

	LL_FOREACH_SAFE (list, pinned, next) {
		_device_scope_ struct device_scope scope = {NULL};

		if (device_enter_relaxed(driver, pinned->context, &scope) == GPUSHARE_OK)
			driver->cuMemFreeHost(pinned->data);
		free(pinned);
	}
}

/* Take the smallest spare that is large enough. If there is none, return NULL, and all spares in
 * *out_useless, to be unpinned. So when the session pins more memory, all that it has pinned is in
 * use. */
static struct pinned *pinned_find(struct gpushare_session *session, size_t size,
				  struct pinned **out_useless)
{
	struct pinned *best = NULL, *each;

	*out_useless = NULL;
	session_lock(session);
	LL_FOREACH (session->spares, each) {
		if (each->size >= size && (!best || each->size < best->size))
			best = each;
	}
	if (best) {
		DL_DELETE(session->spares, best);
	} else {
		*out_useless = session->spares;
		session->spares = NULL;
	}
	pthread_mutex_unlock(&session->lock);
	return best;
}

static int pinned_make(const struct gpushare_buffer *buffer, struct pinned *pinned)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	int status =
	    device_retain(&buffer->session->devices, driver, buffer->device, &pinned->context);
	cu_result result;

	if (!status)
		status = device_enter_relaxed(driver, pinned->context, &scope);
	if (status)
		return status;
	result = driver->cuMemHostAlloc(&pinned->data, pinned->size, CU_HOST_ALLOC_PORTABLE);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemHostAlloc",
				     "no %zu bytes of pinned host memory to mirror '%s'; mirror it "
				     "in parts",
				     pinned->size, buffer->info.name);
	return GPUSHARE_OK;
}

/* At least `size` bytes, for copies of `buffer`; `size` is not 0. */
static int pinned_take(const struct gpushare_buffer *buffer, size_t size,
		       struct pinned **out_pinned)
{
	struct pinned *useless;
	struct pinned *pinned = pinned_find(buffer->session, size, &useless);
	int status;

	pinned_unpin(buffer->session->driver, useless);
	if (pinned) {
		*out_pinned = pinned;
		return GPUSHARE_OK;
	}
	pinned = calloc(1, sizeof(*pinned));
	if (!pinned)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to mirror '%s'",
				buffer->info.name);
	pinned->size = (size + PAGE - 1) / PAGE * PAGE;
	status = pinned_make(buffer, pinned);
	if (status) {
		free(pinned);
		return status;
	}
	*out_pinned = pinned;
	return GPUSHARE_OK;
}

static int mirror_check(const struct gpushare_buffer *buffer, size_t offset, size_t length,
			unsigned int access, struct gpushare_mirror *const *out_mirror)
{
	int status = transfer_check_access(buffer, offset, length, access);

	if (status)
		return status;
	if (!out_mirror)
		return api_fail(GPUSHARE_E_INVALID, "out_mirror is NULL");
	if (buffer->host_only)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is attached host_only, and a mirror needs CUDA; use "
				"gpushare_map()",
				buffer->info.name);
	return GPUSHARE_OK;
}

/* End a use of pinned memory: NULL, or memory that is kept for later mirrors. `mirror` is taken off
 * the session's list; NULL: it is not there. */
static void mirror_give(struct gpushare_session *session, struct gpushare_mirror *mirror,
			struct pinned *pinned)
{
	session_lock(session);
	if (mirror)
		DL_DELETE(session->mirrors, mirror);
	if (pinned)
		DL_PREPEND(session->spares, pinned);
	pthread_mutex_unlock(&session->lock);
}

API_PUBLIC int gpushare_mirror_open(struct gpushare_buffer *buffer, size_t offset, size_t length,
				    unsigned int access, struct gpushare_mirror **out_mirror)
{
	API_CALL;
	_cleanup_free_ struct gpushare_mirror *mirror = NULL;
	int status = mirror_check(buffer, offset, length, access, out_mirror);

	if (status)
		return status;
	mirror = calloc(1, sizeof(*mirror));
	if (!mirror)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to mirror '%s'",
				buffer->info.name);
	*mirror = (struct gpushare_mirror){
	    .buffer = buffer, .offset = offset, .length = length, .access = access};
	if (length)
		status = pinned_take(buffer, length, &mirror->host);
	if (!status && length && (access & GPUSHARE_READ)) {
		status = transfer_dma(buffer, offset, mirror->host->data, NULL, length);
		if (status)
			mirror_give(buffer->session, NULL, mirror->host);
	}
	if (status)
		return status;
	session_use(buffer);
	session_lock(buffer->session);
	DL_PREPEND(buffer->session->mirrors, mirror);
	pthread_mutex_unlock(&buffer->session->lock);
	*out_mirror = mirror;
	mirror = NULL;
	return GPUSHARE_OK;
}

API_PUBLIC void *gpushare_mirror_data(const struct gpushare_mirror *mirror)
{
	static max_align_t none; /* the data of every mirror of 0 bytes; never written */

	if (!mirror)
		return NULL;
	return mirror->host ? mirror->host->data : &none;
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

	if (!mirror->host)
		return GPUSHARE_OK;
	status =
	    transfer_dma(mirror->buffer, mirror->offset, NULL, mirror->host->data, mirror->length);
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

	mirror_give(buffer->session, mirror, mirror->host);
	free(mirror);
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
	pinned_unpin(session->driver, session->spares);
	session->spares = NULL;
}

void mirror_forget_all(struct gpushare_session *session)
{
	struct gpushare_mirror *mirror, *next_mirror;
	struct pinned *pinned, *next_pinned;

	LL_FOREACH_SAFE (session->mirrors, mirror, next_mirror) {
		free(mirror->host);
		free(mirror);
	}
	LL_FOREACH_SAFE (session->spares, pinned, next_pinned) {
		free(pinned);
	}
	session->mirrors = NULL;
	session->spares = NULL;
}
