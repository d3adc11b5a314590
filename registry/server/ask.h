/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_ASK_H
#define GPUSHARE_REGISTRY_SERVER_ASK_H
/*
 * One request, whichever socket it came to. It is answered at once or parked in registry->asks until its name
 * appears, its next piece is due, its user's next list is due, or there is a notice for it.
 */
#include "verbs/handlers.h"

/* The ids of a request: its own, and one for each of eight devices that forwarded it. */
#define ASK_IDS_MAX (9 * SP_ID_SIZE)

struct connection;

struct ask {
	struct session *session;
	struct connection *connection; /* NULL: it came to fds.sock */
	uint8_t ids[ASK_IDS_MAX];
	size_t ids_size;
	size_t size; /* of the encoded request */
	int fault;   /* a status: the bytes were no request */
	struct identity_group group;
	request request;

	bool counted; /* as a request */

	/* While it is parked: */
	int waits; /* HANDLE_WAIT, HANDLE_MORE, HANDLE_LISTEN */
	int64_t
	    due_ns;   /* HANDLE_WAIT: when it times out; HANDLE_MORE: when its next piece is due */
	bool ready;   /* its name appeared */
	bool audited; /* the audit says that it waits for a name that it may not see */
	struct list_rest *list_rest; /* of a List that is half made */
	struct ask *prev, *next;
};

/* Without the lock. true: it names a group, which is still to be found, or the request gets E_IO. */
bool ask_read(struct ask *ask, const uint8_t *bytes, size_t size);

/* With the lock, all below: */
/* The dispatcher of both sockets. The answer is in registry->reply if this returns OK, a failure or
 * HANDLE_ELSEWHERE; else the request is to be parked. */
int ask_serve(struct registry *registry, struct ask *ask);
/* Encode registry->reply, or if that fails an answer that says so. Returns the number of bytes. */
size_t ask_encode(struct registry *registry, uint8_t *to, size_t room);
/* Answer a request of registry.sock, which was allocated, or park it. */
void ask_handle(struct registry *registry, struct ask *ask);
/* Go on with parked requests that are due. Returns when the next one is, INT64_MAX: unknown. */
int64_t asks_resume(struct registry *registry);
/* Forget the parked requests of a session that ends. */
void asks_drop(struct registry *registry, const struct session *session);

#endif
