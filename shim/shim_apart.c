/* SPDX-License-Identifier: MIT */
#include "shim_apart.h"

#include <pthread.h>

#define APART_CONTEXTS 16

static struct {
	pthread_mutex_t lock; /* never held over a driver call */
	struct {
		cu_context context; /* NULL: free */
		cu_stream stream;
	} known[APART_CONTEXTS];
} apart = {.lock = PTHREAD_MUTEX_INITIALIZER};

static cu_stream find(cu_context context)
{
	cu_stream found = NULL;

	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS && !found; i++)
		if (apart.known[i].context == context)
			found = apart.known[i].stream;
	pthread_mutex_unlock(&apart.lock);
	return found;
}

/* False: no room, or another thread was quicker. */
static bool enter(cu_context context, cu_stream stream)
{
	int place = -1;

	pthread_mutex_lock(&apart.lock);
	for (int i = APART_CONTEXTS - 1; i >= 0; i--) {
		if (apart.known[i].context == context) {
			place = -1;
			break;
		}
		if (!apart.known[i].context)
			place = i;
	}
	if (place >= 0) {
		apart.known[place].context = context;
		apart.known[place].stream = stream;
	}
	pthread_mutex_unlock(&apart.lock);
	return place >= 0;
}

/* NULL: there is none, and none can be made. */
static cu_stream stream_of(const struct driver *driver, cu_context context)
{
	cu_stream stream = context ? find(context) : NULL; /* a free place keeps what it had */

	if (stream || !context || !driver->cuStreamCreate || !driver->cuStreamDestroy_v2 ||
	    !driver->cuMemFreeAsync ||
	    driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) != CU_OK)
		return stream;
	if (enter(context, stream))
		return stream;
	driver->cuStreamDestroy_v2(stream); /* nothing was done in it */
	return find(context);
}

cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer)
{
	cu_stream stream = driver->cuMemFreeAsync ? stream_of(driver, context) : NULL;

	return stream ? driver->cuMemFreeAsync(pointer, stream) : CU_NOT_SUPPORTED;
}

void apart_forget(cu_context context)
{
	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS; i++)
		if (apart.known[i].context == context)
			apart.known[i].context = NULL;
	pthread_mutex_unlock(&apart.lock);
}
