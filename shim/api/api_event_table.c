/* SPDX-License-Identifier: MIT */
#include "api_event.h"

#include <stdlib.h>
#include <utlist.h>

struct used {
	struct used *prev, *next;
	unsigned int users;
	const struct driver *driver;
	cu_event event;
	cu_context context;
	bool kept; /* the context is a primary one, which a session retains */
};

static struct {
	pthread_mutex_t lock; /* never held over a CUDA call */
	struct used *first;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock. */
static struct used *find(uint64_t event)
{
	struct used *found;

	LL_SEARCH_SCALAR(table.first, found, event, (cu_event)(uintptr_t)event);
	return found;
}

int event_add(const struct driver *driver, cu_event event, cu_context context, bool kept)
{
	struct used *made = malloc(sizeof(*made));

	if (!made)
		return api_fail(GPUSHARE_E_NO_MEMORY,
				"no memory to add an event to the library's table");
	*made = (struct used){NULL, NULL, 1, driver, event, context, kept};
	pthread_mutex_lock(&table.lock);
	DL_PREPEND(table.first, made);
	pthread_mutex_unlock(&table.lock);
	return GPUSHARE_OK;
}

bool event_use(uint64_t event, cu_context *out_context, bool *out_kept)
{
	struct used *found;

	pthread_mutex_lock(&table.lock);
	found = find(event);
	if (found) {
		found->users++;
		*out_context = found->context;
		*out_kept = found->kept;
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

static int end(const struct used *used)
{
	const struct driver *driver = used->driver;
	_device_scope_ struct device_scope scope = {NULL};
	cu_result result;
	int status = device_enter(driver, used->context, &scope);

	if (status)
		return status;
	result = driver->cuEventDestroy_v2(used->event);
	if (result == CU_OK || result == CU_CONTEXT_IS_DESTROYED) /* cuDevicePrimaryCtxReset() */
		return GPUSHARE_OK;
	return api_fail_cuda(driver, result, "cuEventDestroy_v2", "the event can't be destroyed");
}

int event_drop(uint64_t event)
{
	struct used *last;
	int status;

	pthread_mutex_lock(&table.lock);
	last = find(event);
	if (last && --last->users)
		last = NULL;
	if (last)
		DL_DELETE(table.first, last);
	pthread_mutex_unlock(&table.lock);
	status = last ? end(last) : GPUSHARE_OK;
	free(last);
	return status;
}
