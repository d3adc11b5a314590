/* SPDX-License-Identifier: MIT */
#include "shim_apart.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "monotonic.h"
#include "shim_scope.h"

#define APART_CONTEXTS 16

/* From BEHIND on: as many of the program's streams may be held up and not hold up each other's. */
enum { ALONE, BEHIND, PURPOSES = BEHIND + 8 };

struct own_stream {
	cu_context context; /* NULL: free */
	int purpose;
	cu_stream stream;
	cu_event reached; /* what it was given to wait for last, or all that it was given */
	uint64_t follows; /* see id_of(): this one is left to it until all has come; 0: to nobody */
	bool owes;	  /* what was freed in it may be there still */
	/* of those that come behind others, which are not waited for and given to at once: */
	unsigned int giving; /* threads that do */
	bool settling;	     /* a thread waits for all of it */
};

static struct {
	pthread_mutex_t lock; /* never held over a driver call */
	atomic_uint count;
	struct own_stream known[APART_CONTEXTS * PURPOSES];
} apart = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool apart_any(void)
{
	return atomic_load_explicit(&apart.count, memory_order_acquire) != 0;
}

/* Under the lock. */
static struct own_stream *place_of(cu_context context, int purpose)
{
	for (int i = 0; i < APART_CONTEXTS * PURPOSES; i++)
		if (apart.known[i].context == context &&
		    (!context || apart.known[i].purpose == purpose))
			return &apart.known[i];
	return NULL;
}

static bool find(cu_context context, int purpose, struct own_stream *out)
{
	const struct own_stream *found;

	pthread_mutex_lock(&apart.lock);
	found = place_of(context, purpose);
	if (found)
		*out = *found;
	pthread_mutex_unlock(&apart.lock);
	return found != NULL;
}

/* False: no room, or another thread was quicker. */
static bool enter(const struct own_stream *made)
{
	struct own_stream *place = NULL;

	pthread_mutex_lock(&apart.lock);
	if (!place_of(made->context, made->purpose))
		place = place_of(NULL, 0);
	if (place) {
		*place = *made;
		atomic_fetch_add_explicit(&apart.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&apart.lock);
	return place != NULL;
}

static bool is_able(const struct driver *driver)
{
	return driver->cuStreamCreate && driver->cuStreamDestroy_v2 &&
	       driver->cuStreamSynchronize && driver->cuMemFreeAsync && driver->cuEventCreate &&
	       driver->cuEventRecord && driver->cuEventQuery && driver->cuEventDestroy_v2 &&
	       driver->cuStreamWaitEvent;
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

/* False: there is none, and none can be made. */
static bool open_one(const struct driver *driver, cu_context context, int purpose,
		     struct own_stream *out)
{
	struct own_stream made = {.context = context, .purpose = purpose};

	if (find(context, purpose, out))
		return true;
	if (!make(driver, &made))
		return false;
	if (enter(&made)) {
		*out = made;
		return true;
	}
	driver->cuEventDestroy_v2(made.reached);
	driver->cuStreamDestroy_v2(made.stream);
	return find(context, purpose, out);
}

static void set_owes(const struct own_stream *one, bool owes)
{
	struct own_stream *place;

	pthread_mutex_lock(&apart.lock);
	place = place_of(one->context, one->purpose);
	if (place)
		place->owes = owes;
	pthread_mutex_unlock(&apart.lock);
}

static cu_result free_in(const struct driver *driver, const struct own_stream *one,
			 cu_deviceptr pointer)
{
	cu_result result = driver->cuMemFreeAsync(pointer, one->stream);

	if (result == CU_OK)
		set_owes(one, true);
	return result;
}

cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer)
{
	struct own_stream alone;

	return context && is_able(driver) && open_one(driver, context, ALONE, &alone)
		   ? free_in(driver, &alone, pointer)
		   : CU_NOT_SUPPORTED;
}

#define PER_THREAD 2 /* CU_STREAM_PER_THREAD: the name that each thread has for its own */

/* Which stream that is: its handle may be another one's by now. 0: it can't be told. */
static uint64_t id_of(const struct driver *driver, cu_stream stream)
{
	unsigned long long id;

	if (driver->cuStreamGetId)
		return driver->cuStreamGetId(stream, &id) == CU_OK ? id + 1 : 0;
	return (uintptr_t)stream == PER_THREAD ? 0 : (uintptr_t)stream + 1;
}

static bool find_following(cu_context context, uint64_t id, struct own_stream *out)
{
	for (int i = BEHIND; id && i < PURPOSES && find(context, i, out); i++)
		if (out->follows == id)
			return true;
	return false;
}

static void follow(const struct own_stream *one, uint64_t id)
{
	struct own_stream *place;

	pthread_mutex_lock(&apart.lock);
	place = place_of(one->context, one->purpose);
	if (place)
		place->follows = id;
	pthread_mutex_unlock(&apart.lock);
}

/* Under the lock; NULL: its context was ended by another thread. */
static struct own_stream *place_still(const struct own_stream *one)
{
	struct own_stream *place = place_of(one->context, one->purpose);

	return place && place->stream == one->stream ? place : NULL;
}

/* To give it something, until it is let go of; not while it is waited for, which would become longer. */
static bool take(const struct own_stream *one)
{
	struct own_stream *place;
	bool taken;

	pthread_mutex_lock(&apart.lock);
	place = place_still(one);
	taken = place && !place->settling;
	if (taken)
		place->giving++;
	pthread_mutex_unlock(&apart.lock);
	return taken;
}

static void let_go(const struct own_stream *one)
{
	struct own_stream *place;

	pthread_mutex_lock(&apart.lock);
	place = place_still(one);
	if (place && place->giving)
		place->giving--;
	pthread_mutex_unlock(&apart.lock);
}

/* The one that follows `stream` already, or one that waits for nothing; only where there are no more of
 * them, one that waits for others. It is taken. */
static bool choose(const struct driver *driver, cu_context context, cu_stream stream,
		   struct own_stream *out)
{
	uint64_t id = id_of(driver, stream);

	if (find_following(context, id, out) && take(out))
		return true;
	for (int i = BEHIND; i < PURPOSES && open_one(driver, context, i, out); i++) {
		if (driver->cuEventQuery(out->reached) != CU_OK || !take(out))
			continue;
		follow(out, id);
		return true;
	}
	for (int i = PURPOSES; i-- > BEHIND;)
		if (find(context, i, out) && take(out))
			return true;
	return false;
}

/* Or not behind it at all, once all of it has come. One that is behind it is taken. */
static bool order(const struct driver *driver, cu_context context, cu_stream stream, cu_event event,
		  struct own_stream *out)
{
	if (driver->cuEventRecord(event, stream) != CU_OK)
		return false;
	if (driver->cuEventQuery(event) == CU_OK)
		return open_one(driver, context, ALONE, out);
	if (!choose(driver, context, stream, out))
		return false;
	if (driver->cuStreamWaitEvent(out->stream, event, 0) == CU_OK &&
	    driver->cuEventRecord(out->reached, out->stream) == CU_OK)
		return true;
	let_go(out);
	return false;
}

cu_result apart_free_behind(const struct driver *driver, cu_context context, cu_stream stream,
			    cu_deviceptr pointer)
{
	struct own_stream own;
	cu_event event = NULL;
	cu_result result = CU_NOT_SUPPORTED;

	if (!context || !is_able(driver) ||
	    driver->cuEventCreate(&event, CU_EVENT_NO_TIMING) != CU_OK)
		return CU_NOT_SUPPORTED;
	if (order(driver, context, stream, event, &own)) {
		result = free_in(driver, &own, pointer);
		if (own.purpose != ALONE)
			let_go(&own);
	}
	driver->cuEventDestroy_v2(event);
	return result;
}

/* That owes, behind `skip` such. */
static bool find_owing(size_t skip, struct own_stream *out)
{
	bool found = false;

	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS * PURPOSES && !found; i++) {
		*out = apart.known[i];
		found = out->context && out->owes && !skip--;
	}
	pthread_mutex_unlock(&apart.lock);
	return found;
}

static bool is_there(const struct own_stream *one)
{
	bool there;

	pthread_mutex_lock(&apart.lock);
	there = place_still(one) != NULL;
	pthread_mutex_unlock(&apart.lock);
	return there;
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

/* From then on nothing comes into it that would have to be waited for; false: something may just now. */
static bool set_settling(const struct own_stream *one, bool settling)
{
	struct own_stream *place;
	bool set;

	pthread_mutex_lock(&apart.lock);
	place = place_still(one);
	set = place && !place->giving && place->settling != settling;
	if (set)
		place->settling = settling;
	pthread_mutex_unlock(&apart.lock);
	return set;
}

/* What is behind in it is nothing by then, and so waited for at once. */
static bool settle(const struct driver *driver, const struct own_stream *one, int64_t until_ms)
{
	_scope_ struct scope scope = scope_enter(driver);
	bool settled = false;

	if (!scope_push(&scope, one->context) || !has_reached(driver, one, until_ms) ||
	    !set_settling(one, true))
		return false;
	if (has_reached(driver, one, 0)) { /* still */
		set_owes(one, false);
		settled = driver->cuStreamSynchronize(one->stream) == CU_OK;
	}
	set_settling(one, false);
	return settled;
}

/* Each is looked at once, whatever other threads free meanwhile. */
bool apart_drain(const struct driver *driver, int64_t until_ms)
{
	size_t settled = 0, left = 0;
	struct own_stream one;

	while (settled + left < APART_CONTEXTS * PURPOSES && find_owing(left, &one)) {
		if (settle(driver, &one, until_ms))
			settled++;
		else
			left++;
	}
	return settled != 0;
}

void apart_forget(cu_context context)
{
	struct own_stream *place;

	pthread_mutex_lock(&apart.lock);
	for (int i = 0; i < APART_CONTEXTS * PURPOSES; i++) {
		place = &apart.known[i];
		if (place->context != context)
			continue;
		place->context = NULL;
		atomic_fetch_sub_explicit(&apart.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&apart.lock);
}
