/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_ORDER_H
#define GPUSHARE_SHIM_API_ORDER_H
/*
 * The order of a buffer's publications, in one session: its page (order.h) and what this process is
 * to it. A session has one for each generation, whatever buffers stand for that. Once it is there no
 * call talks to the registry, but those that take a role for the first time or give it back.
 */
#include "api_session.h"
#include "api_turn.h"
#include "core/order/client_order.h"

/* What a stream of this process was given last, so that what comes next comes after it. */
struct order_lane {
	struct turn turn;
	_Atomic uint64_t last;
	unsigned long long stream; /* which one that was, if `known` */
	bool known;
};

struct ordering {
	struct ordering *next; /* of the session */
	struct gpushare_session *session;
	unsigned int users; /* buffers; under the session's lock */
	bool held;	    /* the same: tell_again() has it */
	bool ended;	    /* the same: its last buffer has gone, and the registry was told */
	unsigned int process;
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	int fd;
	struct order_page *page;
	_Atomic uint32_t roles;	 /* enum order_role */
	_Atomic uint32_t slot;	 /* a consumer's, from 1 on */
	unsigned int connection; /* over which the registry was told last */
	bool lost;		 /* the registry has another page of that buffer */
	struct turn telling;	 /* the registry of roles... */
	bool asking;		 /* ...under the lock: a thread does... */
	pthread_t teller;	 /* ...this one */
	uint32_t leaving;	 /* under the lock: what it did not hear the end of */

	/* api_order_stream.c */
	struct turn opening; /* what follows, by one thread */
	_Atomic(const struct driver *) driver;
	cu_context context;	    /* in which `view` is registered */
	_Atomic uint32_t means;	    /* enum gpushare_ordering; 0: no stream was used so far */
	struct order_page *view;    /* the page again, where GPUs see it */
	_Atomic cu_deviceptr at;    /* what that is for them; then the rest is there */
	struct ordering *next_view; /* of all that have one */
	bool retired;		    /* the session has it no more */
	bool kept;		    /* `context` is the primary one of `device`, retained */
	cu_device device;
	struct order_lane publishing, releasing;
	uint64_t
	    left[ORDER_SLOTS]; /* to what streams are to come in slots that were left; 0: nothing */
	_Atomic uint64_t waited;    /* the highest that a stream was to wait for */
	_Atomic uint64_t reclaimed; /* the same, of consumers */
	_Atomic uint32_t pending;   /* host functions that have not run */
	_Atomic bool captured;	    /* in a graph, which may be launched until the process ends */
	cu_event probe;		    /* tells of a context that has failed */
};

/* This buffer's, with those roles; asks the registry only for what is not there yet. Also where the
 * session is the parent's: E_FORKED. */
int ordering_of(struct gpushare_buffer *buffer, uint32_t roles, struct ordering **out_ordering);
/* The same if it is there already; NULL. */
struct ordering *ordering_seen(const struct gpushare_buffer *buffer);
/* Of one that is there: those roles, besides, in words to the registry whatever there is already. */
int ordering_ask(struct ordering *ordering, uint32_t roles);
/* Those roles end. */
int ordering_leave(struct ordering *ordering, uint32_t roles);
/* No registry has answered that. */
bool ordering_is_unheard(int status);
/* The registry hears of those that ended without it. In the turn. */
int ordering_tell_leave(struct ordering *ordering);
/* One thread at a time tells the registry of it, so that it hears in order what was done. E_TIMED_OUT:
 * another one is still at it. */
int ordering_take_turn(struct ordering *ordering);
void ordering_give_turn(struct ordering *ordering);
/* The buffer goes: before the registry hears of that. */
void ordering_end(struct gpushare_buffer *buffer);
/* Also in a forked child: nothing is told, nothing is given back but memory. */
void ordering_forget(struct gpushare_buffer *buffer);
/* A registry that was restarted is told of roles, and given pages that it has lost. No lock is held. */
void session_order_again(struct gpushare_session *session);

/* Memory and descriptor. */
void ordering_free(struct ordering *ordering);

/* One of its turns that are held over driver calls. E_TIMED_OUT: another thread has it for longer than
 * such a call may take. */
int ordering_take_at_driver(const struct ordering *ordering, struct turn *turn);
/* The same of the page's own turn, that order_give_turn() gives back. */
int ordering_take_page_turn(const struct ordering *ordering);
/* What both say. */
int ordering_fail_at_driver(const struct ordering *ordering);
int ordering_fail_gone(const struct ordering *ordering, uint64_t at_least);
/* Nothing can be published: it has ended, or what comes before will not come. */
int ordering_fail_publish(const struct ordering *ordering, int status);

/* api_order_stream.c, with the order.h names of gpushare_*(). */
int stream_publish(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t *out_sequence);
int stream_acquire(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t at_least);
int stream_release(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t sequence);
int stream_reclaim(const struct gpushare_buffer *buffer, struct ordering *ordering,
		   cu_stream stream, uint64_t sequence);
/* The CPU releases: after all that streams were to release before. */
int stream_release_host(struct ordering *ordering, uint32_t slot, uint64_t sequence);
/* For struct order_stuck; `ordering` is one. */
bool stream_has_failed(void *ordering);
/* The slot is this session's no more, or another one. Under the session's lock. */
void stream_leave_slot(struct ordering *ordering, uint32_t next);
/* Streams are to come to that in a slot that was left. Likewise. */
void stream_note_left(struct ordering *ordering, uint32_t slot, uint64_t last);
/* It is used no more, but for what streams were given. False: nothing was; else it is kept for them, and
 * given back some time. */
bool stream_keep(struct ordering *ordering);
/* The session ends: now, if it can be; what can't keeps its context. */
void stream_sweep(struct gpushare_session *session);

#endif
