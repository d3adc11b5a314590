/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_ORDER_STREAM_H
#define GPUSHARE_SHIM_API_ORDER_STREAM_H
/* Internal to the files that let streams use a stream-sync page. */
#include "api_order.h"

/* Enqueue a host function by cuLaunchHostFunc. This library stays loaded for it. */
int stream_call(const struct ordering *ordering, cu_stream stream, void (*function)(void *),
		void *user);
int stream_fail(const struct ordering *ordering, cu_result result, const char *call);

/* api_order_view.c: register the page with CUDA in the buffer's context. If the GPU has no stream
 * memory operations, set `means` to HOST_FUNCTION instead. */
int stream_ready(const struct gpushare_buffer *buffer, struct ordering *ordering);

/* Create an event in the current context, which is never recorded. If the context fails, a query of
 * the event fails. NULL: it can't be created. */
cu_event view_probe(const struct driver *driver);

/* api_order_retire.c: add an ordering to the list of those that streams may still use. */
void view_add(struct ordering *ordering);
/* The page's `published` if `slot` is 0; else `released` of consumer `slot`, from 1 on. */
static inline _Atomic uint64_t *order_word(struct order_page *page, uint32_t slot)
{
	return slot ? &page->slot[slot - 1].released : &page->published;
}

/* api_order_host.c: ordering without stream memory operations. It can't be captured into a
 * graph. */
int host_open(const struct gpushare_buffer *buffer, struct ordering *ordering);
/* Enqueue a host function that stores `number`: as released by consumer `slot`, from 1 on, or if
 * `slot` is 0, as published. */
int host_store(struct ordering *ordering, cu_stream stream, uint32_t slot, uint64_t number);
/* Block this thread until that word has reached `number`. OK; E_OWNER_GONE; E_CUDA: this process's
 * context has failed. No message is set. */
int host_await(struct ordering *ordering, uint32_t slot, uint64_t number);

#endif
