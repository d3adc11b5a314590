/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PEER_H
#define GPUSHARE_TESTS_UNIT_PEER_H
/* A registry without a socket, and peers that ask it: requests are raw.h's. */
#include "raw.h"
#include "verbs/handlers.h"

extern struct registry *peer_registry;
extern reply peer_answer; /* to the latest peer_ask() */
extern int peer_goes;	  /* goes beside the next one, and is the registry's then; -1: nothing */
extern int peer_came;	  /* came beside the latest answer, and is the registry's; -1: nothing */

/* For cmocka: a registry of one test's own. */
int peer_set_up(void **state);
int peer_tear_down(void **state);

/* A connection of uid 1000 that has said hello. */
struct session *peer_new(uint32_t id, int32_t pid, const char *command);
/* As by fds.sock: the status; the rest is in peer_answer. */
int peer_ask(struct session *session, const request *what);
/* One that brings a descriptor: that is a memfd, from here on in peer_goes. */
request peer_share_fd(const char *name);
/* A descriptor that the registry gave back is closed by another thread: whether it is, soon. */
bool peer_is_closed(int fd);
/* The generation. Fails the test where it is refused. */
uint64_t peer_share(struct session *session, const char *name);
int peer_lookup(struct session *session, const char *name, uint32_t wait_ms);
int peer_attach(struct session *session, const char *name);
int peer_withdraw(struct session *session, const char *name, uint64_t generation);
void peer_assert_sentence(const char *part);

#endif
