/* SPDX-License-Identifier: MIT */
/* Streams and stream-sync pages: a stream writes a number when it reaches that point, or waits for
 * one. */
#include "api_order_stream.h"
#include "base/stay_loaded.h"

#define FIRST_HANDLE 3 /* lower handles name default streams, those of the current context */

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
	cu_result result = ordering->driver->cuStreamWaitValue64_v2(
	    stream, stream_word(ordering, word), number, CU_WAIT_GEQ);

	return result == CU_OK ? GPUSHARE_OK
			       : stream_fail(ordering, result, "cuStreamWaitValue64_v2");
}

/* Wait by the word's lower half, which has nothing but the number. So ORDER_GONE_BIT, which ends
 * other waits, does not end this one. */
static int wait_number(const struct ordering *ordering, cu_stream stream,
		       const _Atomic uint64_t *word, uint64_t number)
{
	cu_result result;

	if (!ordering->driver->cuStreamWaitValue32_v2 || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		return wait_word(ordering, stream, word, number);
	result = ordering->driver->cuStreamWaitValue32_v2(stream, stream_word(ordering, word),
							  (uint32_t)number, CU_WAIT_GEQ);
	return result == CU_OK ? GPUSHARE_OK
			       : stream_fail(ordering, result, "cuStreamWaitValue32_v2");
}

static int write_word(const struct ordering *ordering, cu_stream stream,
		      const _Atomic uint64_t *word, uint64_t number)
{
	cu_result result = ordering->driver->cuStreamWriteValue64_v2(
	    stream, stream_word(ordering, word), number, 0);

	return result == CU_OK ? GPUSHARE_OK
			       : stream_fail(ordering, result, "cuStreamWriteValue64_v2");
}

/* Whether streams use memory operations; else they use host functions. */
static bool has_words(const struct ordering *ordering)
{
	return atomic_load_explicit(&ordering->at, memory_order_relaxed);
}

/* A graph that captures this may be launched at any time, so `captured` keeps the ordering. */
static int see_capture(struct ordering *ordering, cu_stream stream, bool *out_captured)
{
	cu_capture_status status = CU_CAPTURE_NONE;
	cu_result result = ordering->driver->cuStreamIsCapturing(stream, &status);

	if (result != CU_OK)
		return stream_fail(ordering, result, "cuStreamIsCapturing");
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

int stream_call(const struct ordering *ordering, cu_stream stream, void (*function)(void *),
		void *user)
{
	cu_result result;

	if (!stay_loaded())
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' can't use a host function: gpushare's library can't be kept "
				"loaded for it",
				ordering->name);
	result = ordering->driver->cuLaunchHostFunc(stream, function, user);
	return result == CU_OK ? GPUSHARE_OK : stream_fail(ordering, result, "cuLaunchHostFunc");
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
	if (!captured)
		atomic_fetch_add(&ordering->pending, 1);
	status =
	    stream_call(ordering, stream, captured ? publish_here : publish_here_once, ordering);
	if (!status && out_sequence)
		*out_sequence = 0;
	if (status && !captured)
		atomic_fetch_sub(&ordering->pending, 1);
	return status;
}

/* Only the publishing process takes the page's turn, and holds it only while the driver enqueues.
 * E_NOT_READY: number *out_before must be published first. */
static int publish_in_turn(struct ordering *ordering, cu_stream stream, bool captured,
			   uint64_t *out_before, uint64_t *out_sequence)
{
	struct order_page *page = ordering->page;
	uint64_t before;
	bool late;
	int status = ordering_take_page_turn(ordering);

	if (status)
		return status;
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

static void raise_to(_Atomic uint64_t *highest, uint64_t number)
{
	uint64_t before = atomic_load_explicit(highest, memory_order_relaxed);

	while (before < number && !atomic_compare_exchange_weak(highest, &before, number))
		;
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
	raise_to(&ordering->waited, at_least);
	if (has_words(ordering))
		return wait_word(ordering, stream, &page->published, at_least);
	status = host_await(ordering, 0, at_least);
	if (status == GPUSHARE_E_OWNER_GONE)
		return ordering_fail_gone(ordering, at_least);
	return status ? ordering_fail_publish(ordering, status) : GPUSHARE_OK;
}

/* Check that the slot is still this session's: once left, another process may have it. */
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
	int status = ordering_take_at_driver(ordering, &ordering->release);

	if (status)
		return status;
	status = release_check(ordering, slot);
	if (status)
		pthread_mutex_unlock(&ordering->release);
	return status;
}

/* Give the lock back. If the session left the slot meanwhile, record in ordering->left the last
 * release that streams still have to write to it, and reset releasing.last for the next slot of
 * this ordering. */
static void release_give(struct ordering *ordering, uint32_t slot)
{
	struct order_tail *tail = &ordering->releasing;
	struct gpushare_session *session = ordering->session;

	/* If the slot is not left, the thread that leaves it later reads `last`. */
	if (atomic_load(&ordering->slot) != slot) {
		session_lock(session);
		stream_note_left(ordering, slot, atomic_exchange(&tail->last, 0));
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
		raise_to(&tail->last, order_number(atomic_load(order_word(ordering->page, slot))));
	*out_before = before = atomic_load(&tail->last);
	if (before < sequence)
		status = write_next(ordering, tail, stream, slot, before, sequence);
	if (!status)
		raise_to(&tail->last, sequence);
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
	raise_to(&ordering->reclaimed, sequence);
	for (; !status && (slot = order_next_behind(page, sequence, &at)); at++)
		status = wait_word(ordering, stream, &slot->released, sequence);
	return status;
}
