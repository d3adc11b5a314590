/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_ASK_H
#define GPUSHARE_REGISTRY_SERVER_ASK_H
/* A request in hand: it is answered at once, waits for a name, or is done piece by piece. */
#include "server/connection.h"

/* A request as it was read. */
struct question {
	size_t size; /* of its bytes */
	int fault;   /* why they are no request; OK: they are one */
	struct identity_group group;
	request request;
};

/* Without the lock. `waits`: a group's name may be asked for, which takes its time. */
void question_read(struct question *question, const uint8_t *bytes, size_t size, uint32_t uid,
		   bool waits);
/* With it, as all below want it: the answer that it gets whatever it asks, in registry->reply; OK: it is to be
 * handled. */
int question_refuse(struct registry *registry, struct session *session,
		    const struct question *question);
/* registry->reply as bytes; how many. Where it can't be made, one that says so. */
size_t question_encode(struct registry *registry, uint8_t *to, size_t room);
/* It was handled, and is answered: who waits for what it has shown is answered too. */
void question_shown(struct registry *registry, const struct question *question, int status,
		    struct connection **todo);

struct ask {
	struct connection *connection;
	uint8_t ids[SP_IDS_MAX];
	size_t ids_size;
	struct question question;
	struct waiter waiter;
	struct list_rest *list_rest; /* of a List that is half made: handlers.h */
	struct ask *prev, *next;     /* of its user's lists that wait */
};

void ask_begin(struct ask *ask, struct connection *connection, const uint8_t *ids, size_t ids_size);
/* What is to go on later is copied. */
void ask_handle(struct ask *ask, struct connection **todo);
/* One that waits for no name: its next piece. */
void ask_serve(struct ask *ask, struct connection **todo);
/* Nobody wants its answer. */
void ask_drop(struct waiter *waiter);
/* Those that wait and whose time is up are answered. */
void asks_time_out(struct registry *registry, int64_t now_ns, struct connection **todo);
/* Lists that are due; when the next one is, INT64_MAX: none waits. */
int64_t asks_list(struct registry *registry, struct connection **todo);
/* Those who wait for notices are answered, where there are some, a piece of them; when the next piece is due,
 * INT64_MAX: all are. */
int64_t asks_notify(struct registry *registry, struct connection **todo);
void asks_drop_watch(struct watcher *watcher);
/* The lists of that connection go. */
void asks_drop_lists(struct user *user, const struct connection *connection);

#endif
