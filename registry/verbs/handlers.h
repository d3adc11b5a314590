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

/* bytes of a request's ids: its own, and one for each nng device that forwarded it, up to eight */
#define ASK_IDS_MAX (9 * SP_ID_SIZE)

struct connection;

/* A request that came to either socket. The registry answers the request at once or parks it in
 * registry->asks, until its name appears, its next piece of work is due, or there is a notice for
 * it. */
struct ask {
	struct session *session;
	struct connection *connection; /* NULL: the request came to fds.sock */
	uint8_t ids[ASK_IDS_MAX];
	size_t ids_size;
	size_t size; /* bytes of the encoded request */
	int fault;   /* status of codec_decode_request(); not OK: the bytes were no valid request */
	struct identity_group group; /* the group that a Share names, looked up without the lock */
	request request;

	/* Set when the request is parked for the first time: */
	int waits; /* HANDLE_WAIT, HANDLE_MORE or HANDLE_LISTEN; 0: never parked */
	/* HANDLE_WAIT: when the request times out; HANDLE_MORE: when its next piece is due */
	int64_t due_ns;
	bool ready;   /* the name that the request waits for has appeared */
	bool audited; /* an audit line says that the peer may not see the name */
	struct ask *prev, *next;
};

/* Carry out a request. Returns a status or one of the results above. registry->reply has the
 * status, the error message and the body. With HANDLE_WAIT, _MORE and _LISTEN there is nothing to
 * send. */
int handle_request(struct registry *registry, struct ask *ask);
/* Count and audit the answer in registry->reply. */
void handle_answered(struct registry *registry, const struct ask *ask);
/* Answer a waiting request whose time is up. */
void handle_timeout(struct registry *registry, const struct ask *ask);

/* How long a Lookup may wait for its name; 0: it does not wait. */
uint32_t handle_wait_ms(const request *ask);

/* Put an error message into the answer. Returns `status`. */
int explain(reply *answer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether this user may have one more descriptor. OK, or E_LIMIT with a message. */
int check_descriptor(struct registry *registry, struct user *user);

#endif
