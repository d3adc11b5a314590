/* SPDX-License-Identifier: MIT */
/* gpushare_publish() and related calls: check arguments and roles, then do the work on the CPU or
 * on a stream. */
#include "api_order.h"

#include <inttypes.h>

static int check_stream(const struct gpushare_buffer *buffer)
{
	if (!buffer->host_only)
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_INVALID,
			"'%s' is attached host_only, so CUDA streams can't use it; use the call "
			"that ends in _host",
			buffer->info.name);
}

/* Join as a consumer, unless the buffer is passive or this process has a role. A publisher that
 * consumed too would wait for its own releases. */
static int consumer_of(struct gpushare_buffer *buffer, struct ordering **out_ordering)
{
	struct ordering *ordering = buffer ? ordering_seen(buffer) : NULL;
	bool alone;

	if (ordering && atomic_load_explicit(&ordering->roles, memory_order_acquire)) {
		*out_ordering = ordering;
		return GPUSHARE_OK;
	}
	alone = buffer && atomic_load_explicit(&buffer->passive, memory_order_relaxed);
	return ordering_of(buffer, alone ? 0 : ORDER_CONSUMES, out_ordering);
}

API_PUBLIC int gpushare_publish(struct gpushare_buffer *buffer, void *stream,
				uint64_t *out_sequence)
{
	API_CALL;
	struct ordering *ordering;
	int status = ordering_of(buffer, ORDER_PUBLISHES, &ordering);

	if (!status)
		status = check_stream(buffer);
	return status ? status : stream_publish(buffer, ordering, stream, out_sequence);
}

API_PUBLIC int gpushare_publish_host(struct gpushare_buffer *buffer, uint64_t *out_sequence)
{
	API_CALL;
	struct ordering *ordering;
	struct order_stuck stuck = {.ask = stream_has_failed};
	int status = ordering_of(buffer, ORDER_PUBLISHES, &ordering);

	if (status)
		return status;
	stuck.user = ordering;
	status = order_publish(ordering->page, ordering->session->driver_ms, &stuck, out_sequence);
	if (status == GPUSHARE_E_TIMED_OUT)
		return ordering_fail_at_driver(ordering);
	if (status)
		return ordering_fail_publish(ordering, status);
	if (!atomic_load_explicit(&ordering->page->means, memory_order_relaxed))
		atomic_store(&ordering->page->means, GPUSHARE_ORDERING_HOST);
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_acquire(struct gpushare_buffer *buffer, void *stream, uint64_t at_least)
{
	API_CALL;
	struct ordering *ordering;
	int status = consumer_of(buffer, &ordering);

	if (!status)
		status = check_stream(buffer);
	return status ? status : stream_acquire(buffer, ordering, stream, at_least);
}

API_PUBLIC int gpushare_acquire_host(struct gpushare_buffer *buffer, uint64_t at_least,
				     int timeout_ms, uint64_t *out_sequence)
{
	API_CALL;
	struct ordering *ordering;
	int status = consumer_of(buffer, &ordering);

	if (status)
		return status;
	status = order_wait(ordering->page, at_least, timeout_ms, out_sequence);
	if (status == GPUSHARE_E_OWNER_GONE)
		return ordering_fail_gone(ordering, at_least);
	if (status)
		return api_fail(status,
				"publication %" PRIu64
				" of '%s' did not come within %d ms; the last was %" PRIu64,
				at_least, buffer->info.name, timeout_ms,
				order_published(ordering->page));
	return GPUSHARE_OK;
}

/* Find the buffer's ordering (its stream-sync page and roles) for a release. Fails if this process
 * is no consumer: without gpushare_join() it has nothing to release. */
static int releaser_of(struct gpushare_buffer *buffer, uint64_t sequence,
		       struct ordering **out_ordering)
{
	struct ordering *ordering;
	int status = ordering_of(buffer, 0, &ordering);

	if (status)
		return status;
	if (!(atomic_load_explicit(&ordering->roles, memory_order_acquire) & ORDER_CONSUMES))
		return api_fail(GPUSHARE_E_INVALID,
				"this process has not joined '%s', so there is nothing to release; "
				"see gpushare_join()",
				buffer->info.name);
	if (!order_reaches(atomic_load(&ordering->page->published), sequence) &&
	    sequence > atomic_load(&ordering->waited))
		return api_fail(GPUSHARE_E_RANGE,
				"publication %" PRIu64
				" of '%s' was neither published nor waited for, "
				"so it can't be released",
				sequence, buffer->info.name);
	*out_ordering = ordering;
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_release(struct gpushare_buffer *buffer, void *stream, uint64_t sequence)
{
	API_CALL;
	struct ordering *ordering;
	int status = releaser_of(buffer, sequence, &ordering);

	if (!status)
		status = check_stream(buffer);
	return status ? status : stream_release(buffer, ordering, stream, sequence);
}

API_PUBLIC int gpushare_release_host(struct gpushare_buffer *buffer, uint64_t sequence)
{
	API_CALL;
	struct ordering *ordering;
	uint32_t slot;
	int status = releaser_of(buffer, sequence, &ordering);

	if (status)
		return status;
	slot = atomic_load_explicit(&ordering->slot, memory_order_relaxed);
	return slot ? stream_release_host(ordering, slot, sequence) : GPUSHARE_OK;
}

API_PUBLIC int gpushare_reclaim(struct gpushare_buffer *buffer, void *stream, uint64_t sequence)
{
	API_CALL;
	struct ordering *ordering;
	int status = ordering_of(buffer, ORDER_PUBLISHES, &ordering);

	if (!status)
		status = check_stream(buffer);
	return status ? status : stream_reclaim(buffer, ordering, stream, sequence);
}

API_PUBLIC int gpushare_reclaim_host(struct gpushare_buffer *buffer, uint64_t sequence,
				     int timeout_ms)
{
	API_CALL;
	struct ordering *ordering;
	int status = ordering_of(buffer, ORDER_PUBLISHES, &ordering);

	if (status)
		return status;
	status = order_reclaim(ordering->page, sequence, timeout_ms);
	if (status)
		return api_fail(status,
				"publication %" PRIu64
				" of '%s' was not released by all its consumers "
				"within %d ms",
				sequence, buffer->info.name, timeout_ms);
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_join(struct gpushare_buffer *buffer, uint64_t *out_first)
{
	API_CALL;
	struct ordering *ordering;
	uint32_t slot;
	int status = ordering_of(buffer, ORDER_CONSUMES, &ordering);

	if (status)
		return status;
	slot = atomic_load(&ordering->slot);
	if (!slot)
		return api_fail(GPUSHARE_E_INVALID, "another thread has just left '%s'",
				buffer->info.name);
	if (out_first)
		*out_first =
		    order_number(atomic_load(&ordering->page->slot[slot - 1].released)) + 1;
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_leave(struct gpushare_buffer *buffer)
{
	API_CALL;
	struct ordering *ordering;
	int status = ordering_of(buffer, 0, &ordering);

	return status ? status : ordering_leave(ordering, ORDER_CONSUMES);
}

API_PUBLIC int gpushare_sequence(struct gpushare_buffer *buffer, uint64_t *out_published)
{
	API_CALL;
	struct ordering *ordering;
	int status = API_NEED(ordering_of(buffer, 0, &ordering), out_published);

	if (!status)
		*out_published = order_published(ordering->page);
	return status;
}

API_PUBLIC int gpushare_order_status(struct gpushare_buffer *buffer)
{
	API_CALL;
	struct ordering *ordering;
	int status = ordering_of(buffer, 0, &ordering);

	if (!status && order_is_gone(ordering->page))
		return ordering_fail_gone(ordering, order_published(ordering->page) + 1);
	return status;
}

API_PUBLIC enum gpushare_ordering gpushare_ordering(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = buffer ? ordering_seen(buffer) : NULL;
	uint32_t means;

	if (!ordering)
		return GPUSHARE_ORDERING_NONE;
	means = atomic_load(&ordering->means);
	return (enum gpushare_ordering)(means ? means : atomic_load(&ordering->page->means));
}

API_TEXTS(gpushare_ordering_text, enum gpushare_ordering, ordering, GPUSHARE_ORDERINGS)
