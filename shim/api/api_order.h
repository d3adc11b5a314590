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
#include "core/order/client_order.h"

/* The last number whose write was enqueued in a stream of this process. The next number is written
 * after it. */
struct order_tail {
	_Atomic uint64_t last;
	unsigned long long stream; /* cuStreamGetId() of that stream, if `known` */
	bool known;
};

struct ordering {
	struct ordering *prev, *next; /* of the session */
	struct gpushare_session *session;
	unsigned int users; /* buffers that use it; under the session's lock */
	bool held;	    /* under that lock: tell_again() uses the ordering; don't free it */
	bool ended;	    /* under that lock: the registry was told of the end, if needed */
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	uint64_t held_fd; /* held_keep() of the page's fd, for a registry that lost the page */
	struct order_page *page;
	_Atomic uint32_t roles;	 /* enum order_role */
	_Atomic uint32_t slot;	 /* the consumer's slot, from 1 on; 0: none */
	unsigned int connection; /* session_connections() when the registry was last told */
	bool lost;		 /* the registry has another page of that buffer */
	pthread_mutex_t telling; /* held by the thread that tells the registry about roles */
	/* Under the session's lock: roles that this process has ended, unknown to the registry. */
	uint32_t leaving;

	/* api_order_stream.c */
	pthread_mutex_t opening; /* held by the thread that sets the fields from here to `means` */
	_Atomic(const struct driver *) driver;
	cu_context context;	 /* in which the page is registered */
	_Atomic cu_deviceptr at; /* the page's device address; 0: it is not registered */
	_Atomic uint32_t means;	 /* enum gpushare_ordering; 0: no stream was used so far */
	struct ordering *prev_view, *next_view; /* in `views` of api_order_stream.c */
	bool retired;				/* the session no longer uses it */
	struct order_tail publishing, releasing;
	pthread_mutex_t release; /* held by the thread that uses `releasing` */
	/* Per slot that this session has left: the last number that streams still have to release;
	 * 0: none. */
	uint64_t left[ORDER_SLOTS];
	_Atomic uint64_t waited; /* the highest publication for which a stream wait was enqueued */
	_Atomic uint64_t
	    reclaimed; /* the highest number for whose release a stream wait was enqueued */
	_Atomic uint32_t pending; /* enqueued host functions that have not run */
	_Atomic bool captured;	  /* a graph uses the page; it may be launched at any time */
	cu_event probe;		  /* its query fails if the context has failed; NULL: none */
};

/* The buffer's ordering, with `roles`. Asks the registry only if the page or a role is missing.
 * E_INVALID: the buffer is NULL. E_FORKED: the session was opened before fork(). */
int ordering_of(struct gpushare_buffer *buffer, uint32_t roles, struct ordering **out_ordering);
/* The buffer's ordering if this process has opened it; else NULL. Never asks the registry. */
struct ordering *ordering_seen(const struct gpushare_buffer *buffer);
/* End roles. If the registry doesn't answer, they end all the same, and a later request reports
 * that. */
int ordering_leave(struct ordering *ordering, uint32_t roles);
/* The buffer no longer uses its ordering. Call this before the registry is told that the buffer
 * ends. */
void ordering_end(struct gpushare_buffer *buffer);
/* The two halves of ordering_end(). ordering_drop(): the caller holds the session's lock. Returns
 * the ordering if this was its last buffer, else NULL. ordering_finish(): `ordering` may be NULL.
 * `memory_stays`: the registry is told about the buffer's end only later. */
struct ordering *ordering_drop(struct gpushare_buffer *buffer);
void ordering_finish(struct ordering *ordering, bool memory_stays);
/* In a forked child, where ordering_end() is not called: free the ordering's memory and descriptor
 * with its last buffer. */
void ordering_forget(struct gpushare_buffer *buffer);
/* Tell a restarted registry about roles, and send it pages that it has lost. The caller holds no
 * lock. */
void session_order_again(struct gpushare_session *session);

/* Free the struct, unmap the page and drop its descriptor. */
void ordering_free(struct ordering *ordering);

/* Set the error sentence: another thread has held a lock of the ordering for session->driver_ms.
 * Returns E_TIMED_OUT. */
int ordering_fail_at_driver(const struct ordering *ordering);
/* Set the error sentence: publication `at_least` will not come. Returns E_OWNER_GONE. */
int ordering_fail_gone(const struct ordering *ordering, uint64_t at_least);
/* Set the error sentence for a failed publication, and return `status`. E_OWNER_GONE: the ordering
 * has ended. Any other status: an earlier number will never be published. */
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
/* Release by the CPU, after all releases that streams have to write. */
int stream_release_host(struct ordering *ordering, uint32_t slot, uint64_t sequence);
/* A callback of struct order_stuck; `ordering` is a struct ordering. True: its CUDA context has
 * failed. */
bool stream_has_failed(void *ordering);
/* Leave the session's slot, and take slot `next`; 0: none. The caller holds the session's lock. */
void stream_leave_slot(struct ordering *ordering, uint32_t next);
/* The session no longer uses the ordering. Free it at once, or later if streams have used it. */
void stream_end(struct ordering *ordering);
/* The session ends. Free its orderings that no stream needs. An ordering that can only be freed
 * later keeps its CUDA context. */
void stream_sweep(struct gpushare_session *session);

#endif
