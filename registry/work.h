/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_WORK_H
#define GPUSHARE_REGISTRY_WORK_H
/* One nng context: takes a request, answers it, takes the next. */
#include "server.h"

enum work_state {
	WORK_RECEIVING,
	WORK_SENDING,
	WORK_PARKED,
	WORK_QUEUED, /* a List that waits for its user's turn; the aio of the first one sleeps */
	WORK_CLOSED
};

struct work {
	struct server *server;
	enum work_state state; /* under the registry's lock */
	nng_aio *aio;
	nng_ctx context;
	nng_pipe pipe;	   /* of the request in hand */
	struct user *user; /* whose the answer is, while it is queued or sent */
	nng_msg *message;  /* the request, then the answer */
	request request;
	struct waiter waiter;
	struct work *next;		    /* of the server */
	struct work *next_ready;	    /* of a list of answers to be sent */
	struct work *prev_list, *next_list; /* of a user's queued lists */
	struct list_rest *list_rest;	    /* of one that is half made: handlers.h */
};

/* NULL: nng or memory refuses. It begins to receive with work_receive(). */
struct work *work_new(struct server *server);
/* Only after the socket was closed. Waits for a callback that runs, which may use other works. */
void work_stop(struct work *work);
/* Only after work_stop() of all works. Returns NULL. */
struct work *work_free(struct work *work);

/* Neither is called with the registry's lock held: nng may run callbacks in them. */
void work_receive(struct work *work);
void work_send(struct work *ready);

/*
 * Answer a parked work, with the registry's lock held, and put it on *ready: with what it waited
 * for, or with its time being up. What is done in pieces may stay parked.
 */
void work_serve(struct work *work, struct work **ready);
void work_time_out(struct work *work, struct work **ready);

#endif
