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

/* Room for a request's ids: its own, and one for each of up to eight devices that forwarded it. */
#define ASK_IDS_MAX (9 * SP_ID_SIZE)

struct connection;

/*
 * A request of either socket. The registry answers it at once or parks it in registry->asks. It
 * stays parked until its name appears, its next piece is due, or there is a notice for it.
 */
struct ask {
	struct session *session;
	struct connection *connection; /* NULL: the request came to fds.sock */
	uint8_t ids[ASK_IDS_MAX];
	size_t ids_size;
	size_t size; /* bytes of the encoded request */
	int fault;   /* the codec's status; not OK: the bytes were no valid request */
	struct identity_group group; /* that a Share names; looked up without the lock */
	request request;

	/* Since it was parked for the first time: */
	int waits; /* HANDLE_WAIT, HANDLE_MORE, HANDLE_LISTEN; 0: it was not */
	/* HANDLE_WAIT: when the request times out; HANDLE_MORE: when its next piece is due */
	int64_t due_ns;
	bool ready;   /* its name appeared */
	bool audited; /* the audit has a line that the peer may not see the name */
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
