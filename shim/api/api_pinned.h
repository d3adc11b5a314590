/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_PINNED_H
#define GPUSHARE_SHIM_API_PINNED_H
/*
 * Pinned host memory of a session. It lives in a primary context that the session keeps, so that it
 * outlives a context of the program's; any context can copy to and from it. What is given back stays
 * pinned for the next who wants that much.
 */
#include "api_session.h"

struct pinned {
	struct pinned *next;
	cu_context context;
	size_t size; /* bytes of data */
	void *data;
};

/* At least `size` bytes, for copies of `buffer`; `size` is not 0. */
int pinned_take(const struct gpushare_buffer *buffer, size_t size, struct pinned **out_pinned);
void pinned_give(struct gpushare_session *session, struct pinned *pinned);

/* Unpin all that was given back. */
void pinned_finish(struct gpushare_session *session);

#endif
