/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HANDLERS_H
#define GPUSHARE_REGISTRY_HANDLERS_H
/* The functions of verbs/ that server/ calls. Call all of them with the registry's lock held. */
#include "context/registry.h"

/* Results of handle_request() besides a status: */
#define HANDLE_WAIT 1	   /* no such name: call again when it appears, else handle_timeout() */
#define HANDLE_MORE 2	   /* a Resync or List is half done: call again after others had the lock */
#define HANDLE_LISTEN 3	   /* a Subscribe waits for notices, in session->subscribe */
#define HANDLE_ELSEWHERE 4 /* the answer only redirects the client to fds.sock */

/*
 * Carry out `ask` of `session`. Returns a status or one of the results above. *answer has the
 * status, the error message and the body. With HANDLE_WAIT, _MORE and _LISTEN there is nothing to
 * send. `again`: the request has waited, and is counted already.
 */
int handle_request(struct registry *registry, struct session *session, const request *ask,
		   bool again, reply *answer);
/* Refuse a request that is too long or could not be decoded. `size` is in bytes, `fault` is the
 * codec's status. OK: it is neither. */
int handle_fault(struct registry *registry, struct session *session, size_t size, int fault,
		 reply *answer);
/* Count and audit an answer that the caller has made. `ask` NULL: the request can't be decoded. */
void handle_answered(struct registry *registry, struct session *session, const request *ask,
		     const reply *answer);
/* Answer a waiting request whose time is up. */
void handle_timeout(struct registry *registry, struct session *session, const request *ask,
		    reply *answer);

/* How long a Lookup may wait for its name; 0: it does not wait. */
uint32_t handle_wait_ms(const request *ask);

/* Put an error message into the answer. Returns `status`. */
int explain(reply *answer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether this user may have one more descriptor. OK, or E_LIMIT with a message. */
int check_descriptor(struct registry *registry, struct user *user, reply *answer);

#endif
