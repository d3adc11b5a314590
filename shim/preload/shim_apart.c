/* SPDX-License-Identifier: MIT */
#include "shim_apart.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/monotonic.h"
#include "shim_freed.h"
#include "cuda/shim_scope.h"

#define APART_CONTEXTS 64
#define APART_SETTLE_MS 20 /* least wait of apart_drain(), even past its deadline */

struct own_stream {
	cu_context context; /* NULL: this slot is free */
	cu_stream stream;
	cu_event reached; /* recorded behind all work of the stream */
	bool owes;	  /* memory freed in the stream may not have been released yet */
};

static struct {
	pthread_mutex_t lock; /* never held during a driver call */
	atomic_uint count;
	struct own_stream known[APART_CONTEXTS];
} apart = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool apart_any(void)
{
	return atomic_load_explicit(&apart.count, memory_order_acquire) != 0;
}

/* Under the lock. */
static struct own_stream *place_of(cu_context context)
{
	for (int i = 0; i < APART_CONTEXTS; i++)
		if (apart.known[i].context == context)
			return &apart.known[i];
	return NULL;
}

static bool find(cu_context context, struct own_stream *out)
{
	const struct own_stream *found;

	pthread_mutex_lock(&apart.lock);
	found = place_of(context);
	if (found)
		*out = *found;
	pthread_mutex_unlock(&apart.lock);
	return found != NULL;
}

/* Return false if the table is full, or if another thread has added that context first. */
static bool enter(const struct own_stream *made)
{
	struct own_stream *place = NULL;

	pthread_mutex_lock(&apart.lock);
	if (!place_of(made->context))
		place = place_of(NULL);
	if (place) {
		*place = *made;
		atomic_fetch_add_explicit(&apart.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&apart.lock);
	return place != NULL;
}

static bool make(const struct driver *driver, struct own_stream *made)
{
	if (driver->cuStreamCreate(&made->stream, CU_STREAM_NONBLOCKING) != CU_OK)
		return false;
	if (driver->cuEventCreate(&made->reached, CU_EVENT_NO_TIMING) == CU_OK)
		return true;
	driver->cuStreamDestroy_v2(made->stream);
	return false;
}

/* Find or make the stream of `context`. Return false if it can't be made. */
static bool open_one(const struct driver *driver, cu_context context, struct own_stream *out)
{
	struct own_stream made = {.context = context};

	if (!context)
		return false;
	if (find(context, out))
		return true;
	if (!make(driver, &made))
		return false;
	if (enter(&made)) {
		*out = made;
		return true;
	}
	driver->cuEventDestroy_v2(made.reached);
	driver->cuStreamDestroy_v2(made.stream);
	return find(context, out);
}

static void set_owes(const struct own_stream *one, bool owes)
{
	struct own_stream *place;

	pthread_mutex_lock(&apart.lock);
	place = place_of(one->context);
	if (place)
		place->owes = owes;
	pthread_mutex_unlock(&apart.lock);
}

bool apart_open(const struct driver *driver, cu_context context)
{
	struct own_stream alone;

	return open_one(driver, context, &alone);
}

cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer)
{
	struct own_stream alone;
	struct freed one;
	cu_result result;

	if (!open_one(driver, context, &alone))
		return CU_NOT_SUPPORTED;
	one = freed_put(driver, pointer);
	result = driver->cuMemFreeAsync(pointer, alone.stream);
	if (result == CU_OK)
		set_owes(&alone, true);
	else
		freed_forget(&one);
	return result;
}

static bool get_owing(int slot, struct own_stream *out)
{
	pthread_mutex_lock(&apart.lock);
	*out = apart.known[slot];
	pthread_mutex_unlock(&apart.lock);
	return out->context && out->owes;
}

/* Return false if another thread has ended the context meanwhile. */
static bool is_there(const struct own_stream *one)
{
	struct own_stream now;

	return find(one->context, &now) && now.stream == one->stream;
}

static bool has_reached(const struct driver *driver, const struct own_stream *one, int64_t until_ms)
{
	if (driver->cuEventRecord(one->reached, one->stream) != CU_OK)
		return false;
	while (driver->cuEventQuery(one->reached) == CU_NOT_READY) {
		if (monotonic_ms() >= until_ms)
			return false;
		poll(NULL, 0, 1);
		if (!is_there(one))
			return false;
	}
	return true;
}

/* Once `reached` is complete, the stream has no work left, and cuStreamSynchronize() returns at
 * once. */
static bool settle(const struct driver *driver, const struct own_stream *one, int64_t until_ms)
{
	_scope_ struct scope scope = scope_enter(driver);

	if (!scope_push(&scope, one->context) || !has_reached(driver, one, until_ms))
		return false;
	set_owes(one, false);
	return driver->cuStreamSynchronize(one->stream) == CU_OK;
}

/* Try each stream once, even if other threads free more memory meanwhile. */
bool apart_drain(const struct driver *driver, int64_t until_ms)
{
	int64_t least_ms = monotonic_ms() + APART_SETTLE_MS;
	bool settled = false;
	struct own_stream one;

	if (until_ms < least_ms)
		until_ms = least_ms;
	for (int slot = 0; slot < APART_CONTEXTS; slot++)
		if (get_owing(slot, &one) && settle(driver, &one, until_ms))
			settled = true;
	return settled;
}

void apart_forget(cu_context context)
{
	struct own_stream *place;

	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS; i++) {
		place = &apart.known[i];
		if (place->context != context)
			continue;
		place->context = NULL;
		atomic_fetch_sub_explicit(&apart.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&apart.lock);
}
