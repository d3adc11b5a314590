/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_ASK_H
#define GPUSHARE_REGISTRY_SERVER_ASK_H
/* Requests of both sockets: decoding, answering, parking. */
#include "verbs/handlers.h"

/* Decode a request. Call it without the lock. true: the caller has to look up the group that the
 * request names by identity_find_group(). */
bool ask_read(struct ask *ask, const uint8_t *bytes, size_t size);

/* Call all functions below with the registry's lock held. */
/* The dispatcher of both sockets. HANDLE_WAIT, HANDLE_MORE, HANDLE_LISTEN: there is no answer yet,
 * and the caller has to park the request. Otherwise the answer is in registry->reply. */
int ask_serve(struct registry *registry, struct ask *ask);
/* Encode registry->reply. If that fails, encode an answer that says so. Returns its size in
 * bytes. */
size_t ask_encode(struct registry *registry, uint8_t *to, size_t room);
/* Answer a request of registry.sock, or park it. Takes `ask`, which was allocated with malloc(). */
void ask_handle(struct registry *registry, struct ask *ask);
/* Resume parked requests that are due, for one piece of work. Returns when the next one is due;
 * INT64_MAX: none has a time. */
int64_t asks_resume(struct registry *registry);
/* Forget the parked requests of a session that ends. */
void asks_drop(struct registry *registry, const struct session *session);

#endif
