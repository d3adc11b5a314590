/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_FDS_H
#define GPUSHARE_TESTS_UNIT_RAW_FDS_H
/* fds.sock of raw_here, spoken to by hand, and how many descriptors the daemon has. */
#include "raw.h"

extern struct fds_message raw_fds_answered; /* the latest answer, and what came with it */
extern int raw_fds_received[FDS_MAX];
extern size_t raw_fds_received_count;

/* raw_set_up(), with a keeper: the connection to it is open from the first share on. */
int raw_fds_set_up(void **state);

/* What the daemon has open once all who came before are gone. */
int raw_fds_settled(void);
/* The least that it has within so long. */
int raw_fds_least(int ms);
/* What it has open becomes `wanted`; how long that took, in ms. */
long long raw_fds_await(int wanted);

int raw_fds_dial(void);
struct fds_message raw_fds_message(int verb, size_t count);
/* The answer's status; 1: the connection was closed instead. */
int raw_fds_hear(int fd);
int raw_fds_ask(int fd, struct fds_message what, const int *fds, size_t count);

void raw_fds_make(int *fds, size_t count);
int raw_fds_deposit(int fd, size_t count);
int raw_fds_withdraw(int fd, const uint8_t ticket[GPUSHARE_TICKET_SIZE]);
/* Of a page that it gave: no way leads to writing it. Closes it. */
void raw_fds_assert_read_only(int page);
/* With the first ticket of the latest answer. */
request raw_fds_share(const char *name);

#endif
