/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PEER_H
#define GPUSHARE_TESTS_UNIT_PEER_H
/* A registry without a socket, and peers that send it the requests of raw.h. */
#include "raw.h"
#include "verbs/handlers.h"

extern struct registry *peer_registry;
extern reply peer_answer; /* to the latest peer_ask() */
extern int
    peer_goes; /* descriptor to send with the next request; the registry closes it; -1: none */
extern int peer_came; /* descriptor of the latest answer; the registry closes it; -1: none */

/* For cmocka: each test has its own registry. */
int peer_set_up(void **state);
int peer_tear_down(void **state);

/* A session of uid 1000 after its Hello. */
struct session *peer_new(uint32_t id, int32_t pid, const char *command);
/* End the session, at once. */
void peer_end(struct session *session);
/* Send a request as over fds.sock. Return its status; the whole answer is in peer_answer. */
int peer_ask(struct session *session, const request *what);
/* Share `name` and return its generation. If the registry refuses, fail the test. */
uint64_t peer_share(struct session *session, const char *name);
int peer_attach(struct session *session, const char *name);
int peer_withdraw(struct session *session, const char *name, uint64_t generation);

#endif
