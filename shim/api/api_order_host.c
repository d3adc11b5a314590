/* SPDX-License-Identifier: MIT */
/*
 * Ordering on GPUs without 64-bit stream memory operations. A host function stores each number when
 * the stream reaches it. Instead of letting a stream wait, the CPU waits before it enqueues
 * anything.
 */
#include "api_order_stream.h"

#include <stdlib.h>

/* The argument of store_here(). */
struct stored {
	struct ordering *ordering;
	uint32_t slot; /* the consumer's slot, from 1 on; 0: publish the number */
	uint64_t number;
};

int host_open(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	ordering->context = buffer->context;
	ordering->probe = view_probe(ordering->driver);
	view_add(ordering);
	atomic_store(&ordering->means, GPUSHARE_ORDERING_HOST_FUNCTION);
	return GPUSHARE_OK;
}

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

int host_store(struct ordering *ordering, cu_stream stream, uint32_t slot, uint64_t number)
{
	struct stored *stored = malloc(sizeof(*stored));
	int status;

	if (!stored)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to sync '%s'", ordering->name);
	*stored = (struct stored){ordering, slot, number};
	atomic_fetch_add(&ordering->pending, 1);
	status = stream_call(ordering, stream, store_here, stored);
	if (!status)
		return GPUSHARE_OK;
	atomic_fetch_sub(&ordering->pending, 1);
	free(stored);
	return status;
}

int host_await(struct ordering *ordering, uint32_t slot, uint64_t number)
{
	const struct order_stuck stuck = {stream_has_failed, ordering};
	struct order_page *page = ordering->page;

	return order_wait_number(order_word(page, slot), slot ? &page->reclaimers : &page->readers,
				 number, ORDER_FOR_EVER, &stuck);
}
