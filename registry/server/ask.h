/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_ASK_H
#define GPUSHARE_REGISTRY_SERVER_ASK_H
/* Requests of both sockets: decoding, answering, parking. */
#include "verbs/handlers.h"

/* Decode a request. Call this without the lock. true: the request names a group, and the caller has
 * to look that up by identity_find_group(). */
bool ask_read(struct ask *ask, const uint8_t *bytes, size_t size);

/* Call all functions below with the registry's lock held. */
/* Handle a request of either socket. HANDLE_WAIT, HANDLE_MORE, HANDLE_LISTEN: there is no answer
 * yet, and the caller has to park the request. Otherwise the answer is in registry->reply. */
int ask_serve(struct registry *registry, struct ask *ask);
/* Encode registry->reply or, if that fails, an "out of memory" answer. Returns its size in
 * bytes. */
size_t ask_encode(struct registry *registry, uint8_t *to, size_t room);
/* Answer a request of registry.sock, or park it. Frees `ask` by free(), now or later. */
void ask_handle(struct registry *registry, struct ask *ask);
/* Resume parked requests that are due, for PIECE_NS at most. Returns when the next request is due;
 * INT64_MAX: none has a deadline. */
int64_t asks_resume(struct registry *registry);
/* Free the parked requests of a session that ends, without an answer. */
void asks_drop(struct registry *registry, const struct session *session);

#endif
