/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_ORDER_H
#define GPUSHARE_SHIM_API_ORDER_H
/*
 * The ordering of a buffer's publications in one session: its stream-sync page (order_page.h) and
 * the roles of this process. A session has one ordering per generation, which all buffers of that
 * generation share. After it is opened, only calls that take a role for the first time or give it
 * back ask the registry.
 */
#include "api_session.h"
#include "api_turn.h"
#include "core/order/client_order.h"

/* The last number that a stream of this process was given to write. The next number is written
 * after it. */
struct order_lane {
	struct turn turn;
	_Atomic uint64_t last;
	unsigned long long stream; /* cuStreamGetId() of that stream, if `known` */
	bool known;
};

struct ordering {
	struct ordering *next; /* of the session */
	struct gpushare_session *session;
	unsigned int users; /* buffers that use it; under the session's lock */
	unsigned int refs;  /* under the same lock: one of all users, one of tell_again() */
	unsigned int process;
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	int fd;
	struct order_page *page;
	_Atomic uint32_t roles;	 /* enum order_role */
	_Atomic uint32_t slot;	 /* the slot of this consumer, from 1 on, or its last; 0: none */
	unsigned int connection; /* session_connections() when the registry was last told */
	bool lost;		 /* the registry has another page of that buffer */
	struct turn asking;	 /* held by the thread that asks the registry for roles */

	/* api_order_stream.c */
	struct turn opening; /* held by the thread that sets the next fields */
	_Atomic(const struct driver *) driver;
	cu_context context;	    /* in which `view` is registered */
	_Atomic uint32_t means;	    /* enum gpushare_ordering; 0: no stream was used so far */
	struct order_page *view;    /* a second mapping of the page, registered with CUDA */
	_Atomic cu_deviceptr at;    /* its device address; set last: if not 0, the view is ready */
	struct ordering *next_view; /* in api_order_retire.c's list */
	bool retired;		    /* the session no longer uses it */
	struct order_lane publishing, releasing;
	_Atomic uint64_t waited;    /* the highest number that a stream waits for */
	_Atomic uint64_t reclaimed; /* the highest release that a stream waits for */
	_Atomic uint32_t pending;   /* enqueued host functions that have not run */
	/* Streams may use this until the process ends: a graph does, or releases in an earlier slot
	 * were late. */
	_Atomic bool stays;
	cu_event probe; /* its query fails if the context has failed; NULL: none */
};

/* The buffer's ordering, with `roles`. Asks the registry only if the page or a role is missing.
 * E_INVALID: the buffer is NULL. E_FORKED: the session was opened before fork(). */
int ordering_of(struct gpushare_buffer *buffer, uint32_t roles, struct ordering **out_ordering);
/* The buffer's ordering if this process has opened it; else NULL. Never asks the registry. */
struct ordering *ordering_seen(const struct gpushare_buffer *buffer);
/* Add roles to an open ordering. Always asks the registry, and repeats the roles that it has
 * already. The caller has the turn (`asking`). */
int ordering_ask_in_turn(struct ordering *ordering, uint32_t roles);
/* Be a consumer no more. This takes effect in the page; the registry needn't answer. */
void ordering_leave(struct ordering *ordering);
/* Take the turn (`asking`), so that roles arrive in their order. E_TIMED_OUT: another thread still
 * has it. */
int ordering_take_turn(struct ordering *ordering);
/* The buffer ends, and with it the roles. Call this before the registry is told about its end. */
void ordering_end(struct gpushare_buffer *buffer);
/* Drop the buffer's ordering without telling the registry. In a forked child, this frees memory and
 * descriptor only. */
void ordering_forget(struct gpushare_buffer *buffer);
/* Tell a restarted registry about roles, and send it pages that it has lost. The caller holds no
 * lock. */
void session_order_again(struct gpushare_session *session);

/* Free the struct, unmap the page and close its descriptor. */
void ordering_free(struct ordering *ordering);

/* Take a turn of the ordering that is held over driver calls. E_TIMED_OUT: another thread did not
 * give it back within session->driver_ms. */
int ordering_take_at_driver(const struct ordering *ordering, struct turn *turn);
/* The same for the page's own turn; order_give_turn() gives it back. */
int ordering_take_page_turn(const struct ordering *ordering);
/* Set the error sentence of both; returns E_TIMED_OUT. */
int ordering_fail_at_driver(const struct ordering *ordering);
int ordering_fail_gone(const struct ordering *ordering, uint64_t at_least);
/* Set the error sentence if nothing can be published. E_OWNER_GONE: the ordering has ended. Any
 * other status: an earlier number will never be published. */
int ordering_fail_publish(const struct ordering *ordering, int status);

/* api_order_stream.c: gpushare_publish() and so on, after their checks. */
int stream_publish(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t *out_sequence);
int stream_acquire(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t at_least);
int stream_release(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t sequence);
int stream_reclaim(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t sequence);
/* Release by the CPU, after all that streams were given to release before. */
int stream_release_host(struct ordering *ordering, uint32_t slot, uint64_t sequence);
/* A callback of struct order_stuck; `ordering` is a struct ordering. True: its CUDA context has
 * failed. */
bool stream_has_failed(void *ordering);
/* The session no longer uses the ordering. True: streams have used it, so it is kept for them and
 * freed later. False: no stream has used it, and the caller frees it. */
bool stream_keep(struct ordering *ordering);
/* The session ends. Free the orderings that no stream needs. True: streams may still use some of
 * the session's, so its CUDA contexts must stay. */
bool stream_sweep(const struct gpushare_session *session);

#endif
