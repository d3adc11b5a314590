/* SPDX-License-Identifier: MIT */
#include "shim_async.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/monotonic.h"
#include "shim_attach.h"
#include "shim_linger.h"
#include "base/shim_lock.h"
#include "shim_lookup.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"

#define SWEEP_MAX 8 /* entries that one call of the program checks */

struct pending {
	struct pending *prev, *next;
	struct live entry;
	cu_context context; /* of the stream and the event */
	cu_event event;
	bool busy; /* a thread is working on this entry */
	bool told; /* the registry knows of the detach; the IPC handle is still open */
};

static struct {
	pthread_mutex_t lock;
	atomic_size_t count;
	atomic_size_t waiting; /* entries that wait for their streams */
	struct pending *first;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool async_any(void)
{
	return atomic_load_explicit(&queue.count, memory_order_acquire) != 0;
}

bool async_waits(void)
{
	return atomic_load_explicit(&queue.waiting, memory_order_acquire) != 0;
}

/* Must a resync report this entry? Yes for an attachment whose end the registry doesn't know. The
 * program's own buffers are not reported: the registry then ends their names, and their attachers
 * keep the memory. */
static bool is_reported(const struct pending *one)
{
	return !one->told && one->entry.kind != LIVE_OWN;
}

/* Under the lock. The entry was on no list until now. If a resync has read the lists meanwhile, it
 * has missed the entry and must be repeated. */
static void append(struct pending *made)
{
	DL_APPEND(queue.first, made);
	if (is_reported(made) && made->entry.name[0])
		resync_check(&live_resync, made->entry.reading);
	atomic_fetch_add_explicit(&queue.waiting, !made->told, memory_order_release);
	atomic_fetch_add_explicit(&queue.count, 1, memory_order_release);
}

/* Under the lock. */
static void unlink_one(struct pending *gone)
{
	DL_DELETE(queue.first, gone);
	atomic_fetch_sub_explicit(&queue.waiting, !gone->told, memory_order_release);
	atomic_fetch_sub_explicit(&queue.count, 1, memory_order_release);
}

/* Return the context of `stream`, else the current context. NULL: neither is known. */
static cu_context context_of(const struct driver *driver, cu_stream stream)
{
	cu_context context = NULL;

	if (driver->cuStreamGetCtx(stream, &context) == CU_OK && context)
		return context;
	driver->cuCtxGetCurrent(&context);
	return context;
}

static cu_result record_end(const struct driver *driver, struct pending *made, cu_stream stream)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_result result;

	made->context = context_of(driver, stream);
	if (!made->context || !scope_push(&scope, made->context))
		return CU_INVALID_CONTEXT;
	result = driver->cuEventCreate(&made->event, CU_EVENT_NO_TIMING);
	if (result != CU_OK)
		return result;
	result = driver->cuEventRecord(made->event, stream);
	if (result != CU_OK)
		driver->cuEventDestroy_v2(made->event);
	return result;
}

cu_result async_defer(const struct driver *driver, const struct live *entry, cu_stream stream)
{
	struct pending *made = calloc(1, sizeof(*made));
	cu_result result;

	if (!made)
		return CU_OUT_OF_MEMORY;
	made->entry = *entry;
	result = record_end(driver, made, stream);
	if (result == CU_OK && !lock_take(&queue.lock)) {
		driver->cuEventDestroy_v2(made->event);
		result = CU_OUT_OF_MEMORY;
	}
	if (result != CU_OK) {
		free(made);
		return result;
	}
	append(made);
	pthread_mutex_unlock(&queue.lock);
	return CU_OK;
}

/* Find the first entry that is not busy and whose `told` has this value. Mark it busy. */
static struct pending *pick(bool told)
{
	struct pending *one;

	if (!lock_take(&queue.lock))
		return NULL;
	LL_FOREACH (queue.first, one) {
		if (!one->busy && one->told == told)
			break;
	}
	if (one)
		one->busy = true;
	pthread_mutex_unlock(&queue.lock);
	return one;
}

/* Move the entry to the end of the list, so that all entries are checked in turn. */
static void put_back(struct pending *one)
{
	if (!lock_take(&queue.lock))
		return;
	one->busy = false;
	DL_DELETE(queue.first, one);
	DL_APPEND(queue.first, one);
	pthread_mutex_unlock(&queue.lock);
}

/* Unmap mapped memory of the program, or detach attached memory. A LIVE_OWN entry is here because
 * other processes have the memory attached: defer its free. If that fails, the memory stays
 * allocated until its context ends. */
static void end_entry(const struct driver *driver, const struct pending *one)
{
	if (one->entry.kind == LIVE_OWN) {
		linger_keep(&one->entry);
		return;
	}
	attach_close(driver, &one->entry);
	if (!one->told)
		share_left(&one->entry);
}

/* Take the entry off the list first: after the free the driver may reuse the address. */
static void finish(const struct driver *driver, struct pending *one)
{
	if (!lock_take(&queue.lock))
		return;
	unlink_one(one);
	one->entry.reading = resync_readings(&live_resync);
	pthread_mutex_unlock(&queue.lock);
	end_entry(driver, one);
	driver->cuEventDestroy_v2(one->event);
	free(one);
}

static bool set_told(struct pending *one, bool told)
{
	if (!lock_take(&queue.lock))
		return false;
	one->told = told;
	one->entry.reading = resync_readings(&live_resync);
	atomic_fetch_add_explicit(&queue.waiting, told ? (size_t)-1 : 1, memory_order_release);
	pthread_mutex_unlock(&queue.lock);
	return true;
}

/* Tell the registry that the attachment has ended, because the stream has reached its free.
 * `waits`: wait for the registry's answer. Return false if the registry can't be told now. */
static bool tell(struct pending *one, bool waits)
{
	static _Atomic int64_t failed_ms;

	if (!waits && monotonic_ms() - atomic_load(&failed_ms) < DEFERRED_PAUSE_MS)
		return false;
	if (!set_told(one, true))
		return false;
	if (waits)
		share_left(&one->entry);
	else if (!share_left_later(&one->entry)) {
		atomic_store(&failed_ms, monotonic_ms());
		set_told(one, false);
		return false;
	}
	return true;
}

/* cuIpcCloseMemHandle waits for all GPU work (measured). So an IPC mapping stays in the queue until
 * async_close(), which runs in a call that waits anyway. */
static bool end_if_due(const struct driver *driver, struct pending *one, bool waits)
{
	_scope_ struct scope scope = scope_enter(driver);
	bool due =
	    scope_push(&scope, one->context) && driver->cuEventQuery(one->event) != CU_NOT_READY;

	if (!due || (!live_is_own(&one->entry) && !tell(one, waits))) {
		put_back(one);
		return false;
	}
	if (one->entry.kind == LIVE_IPC)
		put_back(one);
	else
		finish(driver, one);
	return true;
}

static size_t sweep(size_t most, bool waits)
{
	const struct driver *driver = lookup_driver_to_end();
	size_t left = atomic_load(&queue.waiting), ended = 0;
	struct pending *one;

	if (left > most)
		left = most;
	while (driver && left-- && (one = pick(false)))
		ended += end_if_due(driver, one, waits);
	return ended;
}

void async_sweep(bool waits)
{
	if (async_waits())
		sweep(SWEEP_MAX, waits);
}

void async_close(void)
{
	const struct driver *driver = lookup_driver_to_end();
	struct pending *one;

	while (driver && (one = pick(true))) {
		_scope_ struct scope scope = scope_enter(driver);

		scope_push(&scope, one->context);
		finish(driver, one);
	}
}

bool async_drain(int64_t until_ms)
{
	_quiet_ struct quiet quiet = quiet_enter();
	size_t ended = 0;

	while (async_waits() && lookup_driver_to_end()) {
		/* only the entries that wait now, not later ones */
		size_t now = sweep(atomic_load(&queue.waiting), true);

		ended += now;
		if (monotonic_ms() >= until_ms)
			break;
		if (!now)
			poll(NULL, 0, 1);
	}
	return ended != 0;
}

bool async_holds(uint64_t pointer)
{
	const struct pending *one;

	if (!async_any() || !lock_take(&queue.lock))
		return false;
	LL_SEARCH_SCALAR(queue.first, one, entry.pointer, pointer);
	pthread_mutex_unlock(&queue.lock);
	return one != NULL;
}

uint64_t async_pooled(cu_mem_pool pool)
{
	const struct pending *one;
	uint64_t sum = 0;

	if (!async_any() || !lock_take(&queue.lock))
		return 0;
	LL_FOREACH (queue.first, one) {
		sum += !one->told && one->entry.pool == pool ? one->entry.size : 0;
	}
	pthread_mutex_unlock(&queue.lock);
	return sum;
}

bool async_list(struct resync *resync)
{
	const struct pending *one;
	bool added = true;

	if (!lock_take(&queue.lock))
		return false;
	LL_FOREACH (queue.first, one) {
		if (is_reported(one))
			added = live_list_one(resync, &one->entry) && added;
	}
	pthread_mutex_unlock(&queue.lock);
	return added;
}

void async_count(gpushare_Hold *out_hold)
{
	const struct pending *one;

	if (!async_any() || !lock_take(&queue.lock))
		return;
	LL_FOREACH (queue.first, one) {
		if (is_reported(one))
			live_count_one(&one->entry, 1, out_hold);
	}
	pthread_mutex_unlock(&queue.lock);
}

struct pending *async_take_of(cu_context context)
{
	struct pending *taken = NULL, *one, *next;

	if (!async_any() || !lock_take(&queue.lock))
		return NULL;
	LL_FOREACH_SAFE (queue.first, one, next) {
		if (one->busy || (one->context != context && one->entry.context != context))
			continue;
		unlink_one(one);
		one->entry.reading = resync_readings(&live_resync);
		LL_PREPEND(taken, one);
	}
	pthread_mutex_unlock(&queue.lock);
	return taken;
}

/* `context` has ended, and with it the entry's event or memory or both. Mapped memory belongs to no
 * context and still has to be unmapped. */
static void end_behind(const struct driver *driver, cu_context context, struct pending *one)
{
	_scope_ struct scope scope = scope_enter(driver);

	if (live_is_mapped(&one->entry) && one->entry.context == context)
		one->entry.context = NULL; /* CUDA crashes if it is given a destroyed context */
	if (live_is_mapped(&one->entry) || one->entry.context != context)
		end_entry(driver, one);
	else if (one->entry.kind == LIVE_OWN)
		share_end(one->entry.name, one->entry.generation);
	else if (one->entry.kind != LIVE_OWN && !one->told)
		share_left(&one->entry);
	if (one->context != context && scope_push(&scope, one->context))
		driver->cuEventDestroy_v2(one->event);
}

void async_end(const struct driver *driver, cu_context context, struct pending *taken)
{
	struct pending *one, *next;

	LL_FOREACH_SAFE (taken, one, next) {
		end_behind(driver, context, one);
		free(one);
	}
}

void async_return(struct pending *taken)
{
	struct pending *one, *next;

	if (!taken || !lock_take(&queue.lock))
		return;
	LL_FOREACH_SAFE (taken, one, next) {
		append(one);
	}
	pthread_mutex_unlock(&queue.lock);
}
