/* SPDX-License-Identifier: MIT */
#include "api_pinned.h"

#include <stdlib.h>
#include <utlist.h>

#define PAGE ((size_t)4096)

static void pinned_unpin(const struct driver *driver, struct pinned *list)
{
	struct pinned *pinned, *next;

	LL_FOREACH_SAFE (list, pinned, next) {
		_device_scope_ struct device_scope scope = {NULL};

		if (device_enter(driver, pinned->context, &scope) == GPUSHARE_OK)
			driver->cuMemFreeHost(pinned->data);
		free(pinned);
	}
}

/* Take the smallest spare that is large enough. If there is none, return NULL, and all spares in
 * *out_useless, to be unpinned. A session thus never has more memory pinned than it used at one
 * time. */
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
		LL_DELETE(session->spares, best);
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
		status = device_enter(driver, pinned->context, &scope);
	if (status)
		return status;
	result = driver->cuMemHostAlloc(&pinned->data, pinned->size, CU_HOST_ALLOC_PORTABLE);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuMemHostAlloc",
				     "there are no %zu bytes of pinned host memory to mirror '%s' "
				     "in; mirror it in parts",
				     pinned->size, buffer->info.name);
	return GPUSHARE_OK;
}

int pinned_take(const struct gpushare_buffer *buffer, size_t size, struct pinned **out_pinned)
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

void pinned_give(struct gpushare_session *session, struct pinned *pinned)
{
	session_lock(session);
	LL_PREPEND(session->spares, pinned);
	pthread_mutex_unlock(&session->lock);
}

void pinned_finish(struct gpushare_session *session)
{
	struct pinned *spares = session->spares;

	session->spares = NULL;
	pinned_unpin(session->driver, spares);
}
