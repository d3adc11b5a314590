/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_FDS_H
#define GPUSHARE_TESTS_UNIT_RAW_FDS_H
/* fds.sock of raw_here, spoken to by hand, and how many descriptors the daemon has. */
#include "raw.h"

extern int raw_fds_came; /* with the latest answer; -1: nothing */

/* raw_set_up(), with a keeper: the connection to it is open from the first share on. */
int raw_fds_set_up(void **state);

/* How many descriptors the daemon of raw_here has. */
int daemon_fds(void);
/* What it has open once all who came before are gone. */
int raw_fds_settled(void);
/* The least that it has within so long. */
int raw_fds_least(int ms);
/* What it has open becomes `wanted`; how long that took, in ms. */
long long raw_fds_await(int wanted);

int raw_fds_dial(void);
/* Who dials for the connection `own`, where that is another process's: raw_peer.h. NULL: the test. */
extern int (*raw_fds_dialer)(int own);
/* As of the connection `own` to registry.sock; -1: of none. */
struct fds_header raw_fds_header(int verb, int own);
/* The answer's status, raw_answer's where it is a Reply; 1: the connection was closed instead. */
int raw_fds_hear(int fd);
/* A message without a body, with these beside it. */
int raw_fds_ask(int fd, struct fds_header what, const int *fds, size_t count);
/* A request of the connection `own`, with these beside it. */
int raw_fds_say_with(int fd, int own, request what, const int *fds, size_t count);
/* The same over a connection of its own, with `file` (-1: nothing). */
int raw_fds_say(int own, request what, int file);

int raw_fds_make(void); /* a memfd */
request raw_fds_share(const char *name);
/* A share with a memfd; the status. The same, under that name with those flags. */
int raw_fds_give(int own, request what);
int raw_fds_put(int own, const char *name, uint32_t flags);
/* Attached by `own`, and its descriptor put away: raw_fds_came is -1 afterwards. */
int raw_fds_get(int own, const char *name);
/* A page that it gives: its descriptor, -1: none is to be had here; mapped for reading, NULL: the same. */
int raw_fds_page_fd(int verb);
const void *raw_fds_page(int verb, size_t size);
/* Of a page that it gave: no way leads to writing it. Closes it. */
void raw_fds_assert_read_only(int page);

#endif
