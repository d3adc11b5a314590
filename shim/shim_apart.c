/* SPDX-License-Identifier: MIT */
#include "shim_apart.h"

#include <pthread.h>
#include <stdatomic.h>

#define APART_CONTEXTS 16

enum purpose { ALONE, BEHIND, PURPOSES };

static struct {
	pthread_mutex_t lock; /* never held over a driver call */
	atomic_uint count;
	struct {
		cu_context context; /* NULL: free */
		enum purpose purpose;
		cu_stream stream;
	} known[APART_CONTEXTS * PURPOSES];
} apart = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool apart_any(void)
{
	return atomic_load_explicit(&apart.count, memory_order_acquire) != 0;
}

static bool is_at(int place, cu_context context, enum purpose purpose)
{
	return apart.known[place].context == context && apart.known[place].purpose == purpose;
}

static cu_stream find(cu_context context, enum purpose purpose)
{
	cu_stream found = NULL;

	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS * PURPOSES && !found; i++)
		if (is_at(i, context, purpose))
			found = apart.known[i].stream;
	pthread_mutex_unlock(&apart.lock);
	return found;
}

/* False: no room, or another thread was quicker. */
static bool enter(cu_context context, enum purpose purpose, cu_stream stream)
{
	int place = -1;

	pthread_mutex_lock(&apart.lock);
	for (int i = APART_CONTEXTS * PURPOSES - 1; i >= 0; i--) {
		if (is_at(i, context, purpose)) {
			place = -1;
			break;
		}
		if (!apart.known[i].context)
			place = i;
	}
	if (place >= 0) {
		apart.known[place].context = context;
		apart.known[place].purpose = purpose;
		apart.known[place].stream = stream;
		atomic_fetch_add_explicit(&apart.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&apart.lock);
	return place >= 0;
}

/* NULL: there is none, and none can be made. */
static cu_stream stream_of(const struct driver *driver, cu_context context, enum purpose purpose)
{
	cu_stream stream =
	    context ? find(context, purpose) : NULL; /* a free place keeps what it had */

	if (stream || !context || !driver->cuStreamCreate || !driver->cuStreamDestroy_v2 ||
	    !driver->cuMemFreeAsync ||
	    driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) != CU_OK)
		return stream;
	if (enter(context, purpose, stream))
		return stream;
	driver->cuStreamDestroy_v2(stream); /* nothing was done in it */
	return find(context, purpose);
}

cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer)
{
	cu_stream stream = driver->cuMemFreeAsync ? stream_of(driver, context, ALONE) : NULL;

	return stream ? driver->cuMemFreeAsync(pointer, stream) : CU_NOT_SUPPORTED;
}

cu_stream apart_behind(const struct driver *driver, cu_context context, cu_stream stream)
{
	cu_event event = NULL;
	cu_stream behind;
	bool follows;

	if (!driver->cuEventCreate || !driver->cuEventRecord || !driver->cuEventDestroy_v2 ||
	    !driver->cuStreamWaitEvent)
		return NULL;
	behind = stream_of(driver, context, BEHIND);
	if (!behind || driver->cuEventCreate(&event, CU_EVENT_NO_TIMING) != CU_OK)
		return NULL;
	follows = driver->cuEventRecord(event, stream) == CU_OK &&
		  driver->cuStreamWaitEvent(behind, event, 0) == CU_OK;
	driver->cuEventDestroy_v2(event);
	return follows ? behind : NULL;
}

void apart_forget(cu_context context)
{
	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS * PURPOSES; i++) {
		if (apart.known[i].context != context)
			continue;
		apart.known[i].context = NULL;
		atomic_fetch_sub_explicit(&apart.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&apart.lock);
}
