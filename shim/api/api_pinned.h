/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_PINNED_H
#define GPUSHARE_SHIM_API_PINNED_H
/*
 * Pinned host memory of a session. It is made in a primary context that the session retains, so it
 * outlives the program's contexts. Any context can copy to and from it. Memory that is given back
 * stays pinned, for the next mirror that it is large enough for.
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
