/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_ORDER_STREAM_H
#define GPUSHARE_SHIM_API_ORDER_STREAM_H
/* Between the files of what streams do with an order page. */
#include "api_order.h"

/*
 * A context is current and no capture of this thread forbids or is spoilt by what follows. Source:
 * cuThreadExchangeStreamCaptureMode.
 */
struct order_scope {
	struct device_scope device;
	const struct driver *driver; /* NULL: the mode is as it was */
	cu_capture_mode mode;
};
int order_enter(const struct driver *driver, cu_context context, struct order_scope *scope);
void order_leave(struct order_scope *scope);
#define _order_scope_ __attribute__((cleanup(order_leave)))

/* cuLaunchHostFunc; the function's code stays loaded. */
int stream_call(const struct ordering *ordering, cu_stream stream, void (*function)(void *),
		void *user);
int stream_fail(const struct ordering *ordering, cu_result result, const char *call);

/* api_order_view.c: the page is where the GPUs of the buffer's context reach it, or they can't use it
 * and means is HOST_FUNCTION. */
int stream_ready(const struct gpushare_buffer *buffer, struct ordering *ordering);

/* An event of the current context, which is never recorded: what fails that context fails its query.
 * NULL: it can't be had. */
cu_event view_probe(const struct driver *driver);
void view_drop(const struct driver *driver, struct order_page *view);

/* api_order_retire.c: what a stream may come to later is in one list until then. */
void view_add(struct ordering *ordering);
/* api_order_release.c. The slot is this session's still, and not another process's. */
int release_check(const struct ordering *ordering, uint32_t slot);
/* The turn in which nobody leaves the slot without saying that a stream may still come to it. */
int release_take(struct ordering *ordering, uint32_t slot);
/* Left meanwhile, it is none of what was released in the next one. */
void release_give(struct ordering *ordering, uint32_t slot);

/* What is published, or with a consumer's `slot`, from 1 on, what that one has released. */
static inline _Atomic uint64_t *order_word(struct order_page *page, uint32_t slot)
{
	return slot ? &page->slot[slot - 1].released : &page->published;
}

/* api_order_host.c: the same without stream memory operations; nothing of it can be captured. */
int host_open(const struct gpushare_buffer *buffer, struct ordering *ordering);
/* Of a consumer's `slot`, from 1 on; 0: it is published. Stored when the stream comes there. */
int host_store(struct ordering *ordering, cu_stream stream, uint32_t slot, uint64_t number);
/* This thread waits until that is there. OK; E_OWNER_GONE; E_CUDA: this process's context has failed. No sentence. */
int host_await(struct ordering *ordering, uint32_t slot, uint64_t number);

#endif
