/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_INTERNAL_H
#define GPUSHARE_SHIM_CLIENT_INTERNAL_H
/* Between client.c and client_fds.c: deadlines, sockets, sentences. */
#include "client.h"

#define CLIENT_RETRY_MS 5 /* between two tries to reach a registry that is starting, or is busy */
#define CLIENT_PATIENCE_MS 250 /* with a first connection that is not answered; then twice that */

/* CLOCK_MONOTONIC, as deadlines are told. */
/* Keep the sentence; returns `status`. */
int client_fail(struct client *client, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* This process, for a registry to which the kernel doesn't tell it; zeros where /proc doesn't say. */
void client_self(gpushare_Self *out_self);
/* A socket of that type that is connected, or a negative errno; it never blocks. */
int client_dial(const char *path, int type);
/* The socket's other end must be ours or root's: a directory check alone leaves a race. */
int client_check_peer(struct client *client, int fd);
/* Wait for `events`; OK, E_TIMED_OUT, or E_IO for a poll that failed. */
int client_wait(int fd, short events, int64_t deadline_ms);

#endif
