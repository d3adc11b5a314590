/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PEER_H
#define GPUSHARE_TESTS_UNIT_PEER_H
/* A registry without a socket, and peers that ask it. */
#include "handlers.h"

extern struct registry *peer_registry;
extern reply peer_answer; /* to the latest peer_ask() */

/* For cmocka: a registry of one test's own. */
int peer_set_up(void **state);
int peer_tear_down(void **state);

/* A connection of uid 1000 that has said hello. */
struct lease *peer_new(uint32_t id, int32_t pid, const char *command);
/* The status; the rest is in peer_answer. */
int peer_ask(struct lease *lease, const request *what);
request peer_share_of(const char *name);
/* The generation. Fails the test where it is refused. */
uint64_t peer_share(struct lease *lease, const char *name);
int peer_lookup(struct lease *lease, const char *name, uint32_t wait_ms);
int peer_attach(struct lease *lease, const char *name);
int peer_detach(struct lease *lease, const char *name, uint64_t generation);
int peer_withdraw(struct lease *lease, const char *name, uint64_t generation);
uint32_t peer_attachers(struct lease *lease, const char *name);
void peer_assert_sentence(const char *part);

#endif
