/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_FDS_H
#define GPUSHARE_TESTS_UNIT_RAW_FDS_H
/* Messages to fds.sock of raw_here without the client, and the daemon's number of descriptors. */
#include "raw.h"

extern int raw_fds_came; /* descriptor that came with the latest answer; -1: none */

/* raw_set_up(), and share a buffer: the daemon then has its connection to the keeper. */
int raw_fds_set_up(void **state);

/* How many descriptors the daemon of raw_here has open. */
int daemon_fds(void);
/* That number once it is stable: the daemon has closed the earlier connections. */
int raw_fds_settled(void);
/* Wait until the daemon has `wanted` descriptors open; return how long that took, in ms. */
long long raw_fds_await(int wanted);

int raw_fds_dial(void);
/* Dials fds.sock in the process of the connection `own`, see raw_peer.h. NULL: the test dials. */
extern int (*raw_fds_dialer)(int own);
/* A header that names the connection `own` to registry.sock; -1: none. */
struct fds_header raw_fds_header(int verb, int own);
/* Receive the answer's status (raw_answer's if it is a Reply); 1: the connection was closed. */
int raw_fds_hear(int fd);
/* Send a message without a body, with the descriptors `fds`; return raw_fds_hear(). */
int raw_fds_ask(int fd, struct fds_header what, const int *fds, size_t count);
/* Send a request of the connection `own` with the descriptors `fds`; return raw_fds_hear(). */
int raw_fds_say_with(int fd, int own, request what, const int *fds, size_t count);
/* The same over a new connection to fds.sock, with the descriptor `file` (-1: none). */
int raw_fds_say(int own, request what, int file);

int raw_fds_make(void); /* a memfd */
request raw_fds_share(const char *name);
/* Send the Share `what` with a new memfd; return its status. raw_fds_put() makes the Share. */
int raw_fds_give(int own, request what);
int raw_fds_put(int own, const char *name, uint32_t flags);
/* Attach `name` from `own` and close the received descriptor: raw_fds_came is then -1. */
int raw_fds_get(int own, const char *name);
/* A page that the daemon gives out for `verb`: its descriptor, or a read-only mapping. -1 or NULL:
 * the daemon does not support it here. */
int raw_fds_page_fd(int verb);
const void *raw_fds_page(int verb, size_t size);
/* Check that the descriptor of such a page can't be used to write it, then close it. */
void raw_fds_assert_read_only(int page);

#endif
