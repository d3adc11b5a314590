/* SPDX-License-Identifier: MIT */
/*
 * Streams and stream-sync pages: a stream writes a number when it reaches that point, or waits for
 * one. On GPUs without 64-bit stream memory operations, a host function stores each number when the
 * stream reaches it. There, instead of letting a stream wait, the CPU waits before it enqueues
 * anything, and nothing can be captured into a graph.
 */
#include "api_order.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/fork_check.h"
#include "base/shim_lock.h"
#include "base/stay_loaded.h"

#define FIRST_HANDLE 3 /* lower handles name default streams, those of the current context */
/* Orderings are freed in batches of this size: freeing one waits for the GPU, as cuMemFree does. */
#define RETIRED_MANY 32

/* All orderings that streams have used, in use and retired. */
static struct {
	pthread_mutex_t lock; /* never held over a CUDA call */
	unsigned int process; /* the owner of the orderings: a forked child has none */
	struct ordering *first;
} views = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* GPUSHARE_OK, or the status of a failed call, with its sentence. */
static int stream_status(const struct ordering *ordering, cu_result result, const char *call)
{
	return result == CU_OK ? GPUSHARE_OK
			       : api_fail_cuda(ordering->driver, result, call,
					       "ordering '%s' failed", ordering->name);
}

static void view_add(struct ordering *ordering)
{
	pthread_mutex_lock(&views.lock);
	if (views.process != fork_check_number()) {
		views.process = fork_check_number();
		views.first = NULL;
	}
	DL_PREPEND2(views.first, ordering, prev_view, next_view);
	pthread_mutex_unlock(&views.lock);
}

/* Does the GPU have 64-bit stream memory operations? With GPUSHARE_ORDERING=host-functions the
 * answer is no, to test host functions on any GPU. */
static bool gpu_has_words(const struct driver *driver)
{
	const char *wanted = secure_getenv("GPUSHARE_ORDERING");
	cu_device device;

	return driver->cuStreamWaitValue64_v2 && driver->cuStreamWriteValue64_v2 &&
	       !(wanted && !strcmp(wanted, "host-functions")) &&
	       driver->cuCtxGetDevice(&device) == CU_OK &&
	       driver_attribute(driver, device, CU_DEVICE_STREAM_WORDS, 0);
}

/* The buffer's context is current. */
static int register_page(const struct ordering *ordering, cu_deviceptr *out_at)
{
	const struct driver *driver = ordering->driver;
	const char *call = "cuMemHostRegister_v2";
	cu_result result = driver->cuMemHostRegister_v2(
	    ordering->page, ORDER_PAGE_SIZE, CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED);

	if (result == CU_OK) {
		call = "cuMemHostGetDevicePointer_v2";
		result = driver->cuMemHostGetDevicePointer_v2(out_at, ordering->page, 0);
		if (result != CU_OK)
			driver->cuMemHostUnregister(ordering->page);
	}
	return stream_status(ordering, result, call);
}

static int open_here(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	cu_deviceptr at = 0;
	bool words;
	int status = device_enter_relaxed(driver, buffer->context, &scope);

	if (status)
		return status;
	atomic_store(&ordering->driver, driver);
	words = gpu_has_words(driver);
	if (words)
		status = register_page(ordering, &at);
	if (status)
		return status;
	if (driver->cuEventCreate(&ordering->probe, CU_EVENT_NO_TIMING) != CU_OK)
		ordering->probe = NULL;
	ordering->context = buffer->context;
	view_add(ordering);
	atomic_store(&ordering->at, at);
	atomic_store(&ordering->means,
		     words ? GPUSHARE_ORDERING_STREAM : GPUSHARE_ORDERING_HOST_FUNCTION);
	return GPUSHARE_OK;
}

/* Take a lock of the ordering that is held over driver calls. */
static int take_lock(const struct ordering *ordering, pthread_mutex_t *lock)
{
	return lock_take_within(lock, ordering->session->driver_ms)
		   ? GPUSHARE_OK
		   : ordering_fail_at_driver(ordering);
}

static bool is_ready(const struct ordering *ordering)
{
	return atomic_load_explicit(&ordering->means, memory_order_acquire);
}

/* Let streams use the page. Only one thread registers it, as a page can be registered once. If that
 * fails, the next caller tries again. */
static int stream_ready(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	int status;

	if (is_ready(ordering))
		return GPUSHARE_OK;
	status = take_lock(ordering, &ordering->opening);
	if (status)
		return status;
	if (!is_ready(ordering))
		status = open_here(buffer, ordering);
	pthread_mutex_unlock(&ordering->opening);
	return status;
}

bool stream_has_failed(void *user)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct ordering *ordering = user;
	cu_result result;

	if (!is_ready(ordering) || !ordering->probe)
		return false;
	if (device_enter_relaxed(ordering->driver, ordering->context, &scope))
		return true;
	result = ordering->driver->cuEventQuery(ordering->probe);
	return result != CU_OK && result != CU_NOT_READY;
}

/* The stream's context. CUDA may answer only if a context is current. NULL: a default stream, or
 * CUDA doesn't answer. */
static cu_context context_of(const struct driver *driver, cu_stream stream)
{
	cu_context its = NULL;

	if ((uintptr_t)stream >= FIRST_HANDLE && driver->cuStreamGetCtx(stream, &its) == CU_OK)
		return its;
	return NULL;
}

/* Make the stream's context current if it is not. A default stream belongs to the current context;
 * if there is none, take the buffer's. */
static int stream_enter(const struct gpushare_buffer *buffer, cu_stream stream,
			struct device_scope *scope)
{
	const struct driver *driver = buffer->session->driver;
	cu_context current = NULL, its;

	if (driver->cuCtxGetCurrent(&current) != CU_OK || !current) {
		int status = device_enter(driver, buffer->context, scope);

		if (status)
			return status;
		current = buffer->context;
	}
	its = context_of(driver, stream);
	if (!its || its == current)
		return GPUSHARE_OK;
	device_leave(scope);
	return device_enter(driver, its, scope);
}

static cu_deviceptr stream_word(const struct ordering *ordering, const _Atomic uint64_t *word)
{
	cu_deviceptr at = atomic_load_explicit(&ordering->at, memory_order_acquire);

	return at + (cu_deviceptr)((const char *)word - (const char *)ordering->page);
}

static int wait_word(const struct ordering *ordering, cu_stream stream,
		     const _Atomic uint64_t *word, uint64_t number)
{
	return stream_status(ordering,
			     ordering->driver->cuStreamWaitValue64_v2(
				 stream, stream_word(ordering, word), number, CU_WAIT_GEQ),
			     "cuStreamWaitValue64_v2");
}

/* Wait by the word's lower half, which has nothing but the number. So ORDER_GONE_BIT, which ends
 * other waits, does not end this one. */
static int wait_number(const struct ordering *ordering, cu_stream stream,
		       const _Atomic uint64_t *word, uint64_t number)
{
	if (!ordering->driver->cuStreamWaitValue32_v2 || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		return wait_word(ordering, stream, word, number);
	return stream_status(
	    ordering,
	    ordering->driver->cuStreamWaitValue32_v2(stream, stream_word(ordering, word),
						     (uint32_t)number, CU_WAIT_GEQ),
	    "cuStreamWaitValue32_v2");
}

static int write_word(const struct ordering *ordering, cu_stream stream,
		      const _Atomic uint64_t *word, uint64_t number)
{
	return stream_status(ordering,
			     ordering->driver->cuStreamWriteValue64_v2(
				 stream, stream_word(ordering, word), number, 0),
			     "cuStreamWriteValue64_v2");
}

/* The page's `published` if `slot` is 0; else `released` of consumer `slot`, from 1 on. */
static _Atomic uint64_t *order_word(struct order_page *page, uint32_t slot)
{
	return slot ? &page->slot[slot - 1].released : &page->published;
}

/* Whether streams use memory operations; else they use host functions. */
static bool has_words(const struct ordering *ordering)
{
	return atomic_load_explicit(&ordering->at, memory_order_relaxed);
}

/* Whether the stream is being captured. A graph may be launched at any time, so `captured` keeps
 * the ordering from being freed. */
static int see_capture(struct ordering *ordering, cu_stream stream, bool *out_captured)
{
	cu_capture_status status = CU_CAPTURE_NONE;
	int failed = stream_status(ordering, ordering->driver->cuStreamIsCapturing(stream, &status),
				   "cuStreamIsCapturing");

	if (failed)
		return failed;
	*out_captured = status == CU_CAPTURE_ACTIVE;
	if (*out_captured && !has_words(ordering))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"this GPU has no 64-bit stream memory operations, so the stream "
				"sync of '%s' can't be captured into a graph",
				ordering->name);
	if (*out_captured)
		atomic_store(&ordering->captured, true);
	return GPUSHARE_OK;
}

/* Prepare for enqueuing ordering work on the stream. Its context is current until the caller's
 * `scope` ends. */
static int stream_begin(const struct gpushare_buffer *buffer, struct ordering *ordering,
			cu_stream stream, struct device_scope *scope, bool *out_captured)
{
	int status = stream_ready(buffer, ordering);

	if (!status)
		status = stream_enter(buffer, stream, scope);
	return status ? status : see_capture(ordering, stream, out_captured);
}

static bool is_same_stream(const struct order_tail *tail, unsigned long long id, uint64_t before)
{
	return tail->known && tail->stream == id &&
	       atomic_load_explicit(&tail->last, memory_order_relaxed) == before;
}

/* An id that distinguishes a stream from an earlier one with the same handle. False: the driver has
 * none. */
static bool stream_id(const struct ordering *ordering, cu_stream stream, unsigned long long *out_id)
{
	return ordering->driver->cuStreamGetId &&
	       ordering->driver->cuStreamGetId(stream, out_id) == CU_OK;
}

/* Enqueue a host function. This library stays loaded for it. */
static int stream_call(const struct ordering *ordering, cu_stream stream,
		       void (*function)(void *user), void *user)
{
	if (!stay_loaded())
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' can't use a host function: gpushare's library can't be kept "
				"loaded for it",
				ordering->name);
	return stream_status(ordering, ordering->driver->cuLaunchHostFunc(stream, function, user),
			     "cuLaunchHostFunc");
}

/* The same for a function that runs once and then decrements `pending`. */
static int stream_call_once(struct ordering *ordering, cu_stream stream,
			    void (*function)(void *user), void *user)
{
	int status;

	atomic_fetch_add(&ordering->pending, 1);
	status = stream_call(ordering, stream, function, user);
	if (status)
		atomic_fetch_sub(&ordering->pending, 1);
	return status;
}

/* The argument of store_here(). */
struct stored {
	struct ordering *ordering;
	uint32_t slot; /* the consumer's slot, from 1 on; 0: publish the number */
	uint64_t number;
};

static void store_here(void *user)
{
	struct stored *stored = user;
	struct ordering *ordering = stored->ordering;

	if (stored->slot) {
		order_release(ordering->page, stored->slot - 1, stored->number);
	} else {
		order_raise(&ordering->page->published, stored->number);
		order_wake_readers(ordering->page);
	}
	free(stored);
	atomic_fetch_sub(&ordering->pending, 1);
}

/* Let a host function store `number` in the word of `slot`. */
static int host_store(struct ordering *ordering, cu_stream stream, uint32_t slot, uint64_t number)
{
	struct stored *stored = malloc(sizeof(*stored));
	int status;

	if (!stored)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to sync '%s'", ordering->name);
	*stored = (struct stored){ordering, slot, number};
	status = stream_call_once(ordering, stream, store_here, stored);
	if (status)
		free(stored);
	return status;
}

/* Block this thread until the word of `slot` has reached `number`. OK; E_OWNER_GONE; E_CUDA: this
 * process's context has failed. No sentence is set. */
static int host_await(struct ordering *ordering, uint32_t slot, uint64_t number)
{
	const struct order_stuck stuck = {stream_has_failed, ordering};
	struct order_page *page = ordering->page;

	return order_wait_number(order_word(page, slot), slot ? &page->reclaimers : &page->readers,
				 number, ORDER_FOR_EVER, &stuck);
}

/* Let the stream write `number` to the word of `slot` (0: `published`), after its earlier work and
 * after `before`. The caller holds the lock for `tail`. E_NOT_READY: release the lock, wait for
 * `before` on the CPU, and try again. */
static int write_next(struct ordering *ordering, struct order_tail *tail, cu_stream stream,
		      uint32_t slot, uint64_t before, uint64_t number)
{
	_Atomic uint64_t *word = order_word(ordering->page, slot);
	unsigned long long id = 0;
	bool known = stream_id(ordering, stream, &id), words = has_words(ordering);
	int status = GPUSHARE_OK;

	if (!order_reaches(atomic_load(word), before) &&
	    !(known && is_same_stream(tail, id, before)))
		status = words ? wait_number(ordering, stream, word, before) : GPUSHARE_E_NOT_READY;
	if (!status)
		status = words ? write_word(ordering, stream, word, number)
			       : host_store(ordering, stream, slot, number);
	if (status)
		return status;
	tail->known = known;
	tail->stream = id;
	atomic_store(&tail->last, number);
	return GPUSHARE_OK;
}

/* A host function: publish the next number, if this process still publishes. */
static void publish_here(void *user)
{
	struct ordering *ordering = user;

	if (atomic_load(&ordering->roles) & ORDER_PUBLISHES)
		order_publish_late(ordering->page);
}

static void publish_here_once(void *user)
{
	struct ordering *ordering = user;

	publish_here(user);
	atomic_fetch_sub(&ordering->pending, 1);
}

/* Wait on the CPU, as streams can't wait without memory operations. */
static int await_published(struct ordering *ordering, uint64_t number)
{
	int status = host_await(ordering, 0, number);

	return status ? ordering_fail_publish(ordering, status) : GPUSHARE_OK;
}

/* A host function takes the number when the stream reaches it: see order_page.late. */
static int publish_late(struct ordering *ordering, cu_stream stream, bool captured,
			uint64_t *out_sequence)
{
	struct order_page *page = ordering->page;
	uint64_t after = atomic_load(&page->late_after);
	int status = GPUSHARE_OK;

	if (!order_reaches(atomic_load(&page->published), after))
		status = has_words(ordering) ? wait_word(ordering, stream, &page->published, after)
					     : await_published(ordering, after);
	if (status)
		return status;
	status = captured ? stream_call(ordering, stream, publish_here, ordering)
			  : stream_call_once(ordering, stream, publish_here_once, ordering);
	if (!status && out_sequence)
		*out_sequence = 0;
	return status;
}

/* Only the publishing process takes the page's turn (see client_order.h), and holds it only while
 * the driver enqueues. E_NOT_READY: number *out_before must be published first. */
static int publish_in_turn(struct ordering *ordering, cu_stream stream, bool captured,
			   uint64_t *out_before, uint64_t *out_sequence)
{
	struct order_page *page = ordering->page;
	uint64_t before;
	bool late;
	int status = GPUSHARE_OK;

	if (!order_take_turn(page, ordering->session->driver_ms))
		return ordering_fail_at_driver(ordering);
	*out_before = before = atomic_load(&page->next);
	late = atomic_load(&page->late);
	if (captured && !late) {
		atomic_store(&page->late_after, before);
		atomic_store(&page->late, 1);
		late = true;
	}
	if (!late)
		status = write_next(ordering, &ordering->publishing, stream, 0, before, before + 1);
	if (!late && !status)
		atomic_store(&page->next, before + 1);
	order_give_turn(page);
	if (late)
		return publish_late(ordering, stream, captured, out_sequence);
	if (!status && out_sequence)
		*out_sequence = before + 1;
	return status;
}

static int publish_next(struct ordering *ordering, cu_stream stream, bool captured,
			uint64_t *out_sequence)
{
	uint64_t before = 0;
	int status;

	do {
		status = publish_in_turn(ordering, stream, captured, &before, out_sequence);
		if (status != GPUSHARE_E_NOT_READY)
			return status;
		status = await_published(ordering, before);
	} while (!status);
	return status;
}

int stream_publish(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t *out_sequence)
{
	_device_scope_ struct device_scope scope = {NULL};
	bool captured;
	int status;

	if (order_is_gone(ordering->page))
		return ordering_fail_publish(ordering, GPUSHARE_E_OWNER_GONE);
	status = stream_begin(buffer, ordering, stream, &scope, &captured);
	if (!status)
		status = publish_next(ordering, stream, captured, out_sequence);
	if (!status)
		atomic_store_explicit(&ordering->page->means, ordering->means,
				      memory_order_relaxed);
	return status;
}

/* If the CPU has seen the number published, no wait is needed: work that it enqueues afterwards
 * sees the data too. */
int stream_acquire(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t at_least)
{
	_device_scope_ struct device_scope scope = {NULL};
	struct order_page *page = ordering->page;
	bool gone = order_is_gone(page), captured;
	int status;

	if (order_reaches(atomic_load(&page->published), at_least))
		return GPUSHARE_OK;
	if (gone)
		return ordering_fail_gone(ordering, at_least);
	status = stream_begin(buffer, ordering, stream, &scope, &captured);
	if (status)
		return status;
	order_raise(&ordering->waited, at_least);
	if (has_words(ordering))
		return wait_word(ordering, stream, &page->published, at_least);
	status = host_await(ordering, 0, at_least);
	if (status == GPUSHARE_E_OWNER_GONE)
		return ordering_fail_gone(ordering, at_least);
	return status ? ordering_fail_publish(ordering, status) : GPUSHARE_OK;
}

/* Check that the slot is still this session's: after this session left it, another process may have
 * it. */
static int release_check(const struct ordering *ordering, uint32_t slot)
{
	return atomic_load(&ordering->slot) == slot
		   ? GPUSHARE_OK
		   : api_fail(GPUSHARE_E_INVALID, "another thread has just left '%s'",
			      ordering->name);
}

/* Take the lock for releasing in `slot`, and check the slot. */
static int release_take(struct ordering *ordering, uint32_t slot)
{
	int status = take_lock(ordering, &ordering->release);

	if (status)
		return status;
	status = release_check(ordering, slot);
	if (status)
		pthread_mutex_unlock(&ordering->release);
	return status;
}

/* Whether the slot shows that publication `last` is released; true for slot 0 (none). */
static bool has_come(const struct ordering *ordering, uint32_t slot, uint64_t last)
{
	return !slot || order_reaches(atomic_load(&ordering->page->slot[slot - 1].released), last);
}

/* Under the session's lock: record that streams will still release up to `last` in a slot that was
 * left. */
static void note_left(struct ordering *ordering, uint32_t slot, uint64_t last)
{
	if (!has_come(ordering, slot, last) && last > ordering->left[slot - 1])
		ordering->left[slot - 1] = last;
}

void stream_leave_slot(struct ordering *ordering, uint32_t next)
{
	uint32_t slot = atomic_exchange(&ordering->slot, next);

	note_left(ordering, slot, atomic_exchange(&ordering->releasing.last, 0));
}

/* Give the lock back. If the session left the slot meanwhile, record in ordering->left the last
 * release that streams still have to write to it, and reset releasing.last for the next slot of
 * this ordering. */
static void release_give(struct ordering *ordering, uint32_t slot)
{
	struct order_tail *tail = &ordering->releasing;
	struct gpushare_session *session = ordering->session;

	/* If the slot is left later, the thread that leaves it reads `last`. */
	if (atomic_load(&ordering->slot) != slot) {
		pthread_mutex_lock(&session->lock);
		note_left(ordering, slot, atomic_exchange(&tail->last, 0));
		pthread_mutex_unlock(&session->lock);
	}
	pthread_mutex_unlock(&ordering->release);
}

/* First wait until streams have written their numbers: a late write of a lower number would undo
 * this release. If another thread enqueues a release meanwhile, wait for that too, unless it covers
 * `sequence`. */
int stream_release_host(struct ordering *ordering, uint32_t slot, uint64_t sequence)
{
	struct order_tail *tail = &ordering->releasing;
	uint64_t last, now = atomic_load(&tail->last);
	int status;

	for (;;) {
		last = now;
		host_await(ordering, slot, last);
		status = release_take(ordering, slot);
		if (status)
			return status;
		now = atomic_load(&tail->last);
		if (now == last || now >= sequence)
			break;
		release_give(ordering, slot);
	}
	if (now == last) {
		if (last)
			order_raise(&tail->last, sequence);
		order_release(ordering->page, slot - 1, sequence);
	}
	release_give(ordering, slot);
	return GPUSHARE_OK;
}

/* E_NOT_READY: number *out_before must be released first. */
static int release_in_turn(struct ordering *ordering, uint32_t slot, cu_stream stream,
			   uint64_t sequence, uint64_t *out_before)
{
	struct order_tail *tail = &ordering->releasing;
	uint64_t before;
	int status = release_take(ordering, slot);

	if (status)
		return status;
	/* If no stream has released anything in this slot, begin after the CPU's last release. */
	if (!atomic_load(&tail->last))
		order_raise(&tail->last,
			    order_number(atomic_load(order_word(ordering->page, slot))));
	*out_before = before = atomic_load(&tail->last);
	if (before < sequence)
		status = write_next(ordering, tail, stream, slot, before, sequence);
	if (!status)
		order_raise(&tail->last, sequence);
	release_give(ordering, slot);
	return status;
}

static int release_next(struct ordering *ordering, uint32_t slot, cu_stream stream,
			uint64_t sequence)
{
	uint64_t before = 0;
	int status;

	do {
		status = release_in_turn(ordering, slot, stream, sequence, &before);
		if (status != GPUSHARE_E_NOT_READY)
			return status;
		status = host_await(ordering, slot, before);
	} while (!status);
	if (status == GPUSHARE_E_OWNER_GONE && release_check(ordering, slot))
		return GPUSHARE_E_INVALID; /* another thread has left the slot */
	return api_fail(status,
			"an earlier release of '%s' by a stream will not come: its CUDA "
			"context has failed",
			ordering->name);
}

int stream_release(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t sequence)
{
	_device_scope_ struct device_scope scope = {NULL};
	uint32_t slot = atomic_load_explicit(&ordering->slot, memory_order_relaxed);
	bool captured;
	int status;

	if (!slot)
		return GPUSHARE_OK;
	status = stream_begin(buffer, ordering, stream, &scope, &captured);
	if (status)
		return status;
	if (!captured)
		return release_next(ordering, slot, stream, sequence);
	status = release_check(ordering, slot);
	return status ? status
		      : write_word(ordering, stream, order_word(ordering->page, slot), sequence);
}

int stream_reclaim(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t sequence)
{
	_device_scope_ struct device_scope scope = {NULL};
	struct order_page *page = ordering->page;
	const struct order_slot *slot;
	bool captured;
	uint32_t at = 0;
	int status;

	order_stop_joins(page, sequence);
	if (!order_next_behind(page, sequence, &at))
		return GPUSHARE_OK;
	status = stream_begin(buffer, ordering, stream, &scope, &captured);
	if (!status && !has_words(ordering)) {
		order_reclaim(page, sequence, ORDER_FOR_EVER);
		return GPUSHARE_OK;
	}
	order_raise(&ordering->reclaimed, sequence);
	for (; !status && (slot = order_next_behind(page, sequence, &at)); at++)
		status = wait_word(ordering, stream, &slot->released, sequence);
	return status;
}

/*
 * CUDA can't tell whether a stream still uses an ordering. So an ordering that its session no
 * longer uses is only marked as retired. Retired ones are freed later, in batches, when no stream
 * waits on any page and none has still to write to a retired one. An ordering that a graph has
 * captured is never freed: the graph may be launched at any time.
 */

/* Whether a stream still has to write a number. Graphs don't count. */
static bool is_written_to(const struct ordering *ordering)
{
	bool late = atomic_load(&ordering->pending) ||
		    !order_reaches(atomic_load(&ordering->page->published),
				   atomic_load(&ordering->publishing.last)) ||
		    !has_come(ordering, atomic_load(&ordering->slot),
			      atomic_load(&ordering->releasing.last));

	for (uint32_t at = 0; !late && at < ORDER_SLOTS; at++)
		late = ordering->left[at] && !has_come(ordering, at + 1, ordering->left[at]);
	return late;
}

/* Whether no stream waits on this page for another participant. */
static bool is_quiet(const struct ordering *ordering)
{
	uint64_t published = atomic_load(&ordering->page->published);
	uint32_t at = 0;

	return ((published & ORDER_GONE_BIT) || /* this bit ends all waits for `published` */
		order_reaches(published, atomic_load(&ordering->waited))) &&
	       !order_next_behind(ordering->page, atomic_load(&ordering->reclaimed), &at);
}

/* Whether this ordering forbids freeing any ordering. A free waits for the whole GPU, so also for
 * streams that wait on this ordering's page, or have still to write to it. Those streams may need
 * this thread to go on. */
static bool is_held_up(const struct ordering *ordering)
{
	return !is_quiet(ordering) || (ordering->retired && is_written_to(ordering));
}

/* Under views.lock: take an ordering to free, of `session` (NULL: any) or of a closed session.
 * NULL: fewer than `many` can be freed, or an ordering in the list is held up. */
static struct ordering *take_quiet(const struct gpushare_session *session, unsigned int many)
{
	struct ordering *each, *quiet = NULL;
	unsigned int count = 0;

	LL_FOREACH2 (views.first, each, next_view) {
		if (is_held_up(each))
			return NULL;
		if (!each->retired || atomic_load(&each->captured))
			continue;
		count++;
		if (!quiet && (!session || !each->session || each->session == session))
			quiet = each;
	}
	if (!quiet || count < many)
		return NULL;
	DL_DELETE2(views.first, quiet, prev_view, next_view);
	return quiet;
}

static void view_close(struct ordering *ordering)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = ordering->driver;
	bool registered = atomic_load(&ordering->at);

	if (device_enter_relaxed(driver, ordering->context, &scope) == GPUSHARE_OK) {
		if (registered)
			registered = driver->cuMemHostUnregister(ordering->page) != CU_OK;
		if (ordering->probe)
			driver->cuEventDestroy_v2(ordering->probe);
	}
	if (registered)
		ordering->page = NULL; /* it stays mapped */
	ordering_free(ordering);
}

/* Free orderings if at least `many` can be freed. Freeing one waits for the GPU, and streams may
 * get more work meanwhile. So each round looks at all orderings again. */
static void sweep(const struct gpushare_session *session, unsigned int many)
{
	struct ordering *taken;

	if (views.process != fork_check_number())
		return;
	do {
		pthread_mutex_lock(&views.lock);
		taken = take_quiet(session, many);
		pthread_mutex_unlock(&views.lock);
		if (taken)
			view_close(taken);
		many = 1;
	} while (taken);
}

void stream_end(struct ordering *ordering)
{
	if (!atomic_load(&ordering->means)) {
		ordering_free(ordering);
		return;
	}
	pthread_mutex_lock(&views.lock);
	ordering->retired = true;
	pthread_mutex_unlock(&views.lock);
	sweep(NULL, RETIRED_MANY);
}

/* An ordering that is freed later still needs its context, to unregister the page. So that context
 * stays retained until the process ends. An ordering that a graph has captured is never freed, and
 * its context is not retained for it. */
void stream_sweep(struct gpushare_session *session)
{
	struct ordering *each;

	sweep(session, 1);
	if (views.process != fork_check_number())
		return;
	pthread_mutex_lock(&views.lock);
	LL_FOREACH2 (views.first, each, next_view) {
		if (each->session != session)
			continue;
		each->session = NULL;
		if (!atomic_load(&each->captured))
			device_keep(&session->devices, each->context);
	}
	pthread_mutex_unlock(&views.lock);
}
