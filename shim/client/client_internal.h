/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_INTERNAL_H
#define GPUSHARE_SHIM_CLIENT_INTERNAL_H
/* Between the client's files: deadlines, sockets, sentences. */
#include "client.h"

#define CLIENT_RETRY_MS 5   /* between two tries to reach a registry that is starting, or is busy */
#define CLIENT_START_MS 500 /* what a registry that we started may take before we start another */
#define CLIENT_PATIENCE_MS 250 /* with a first connection that is not answered; then twice that */

/* Keep the sentence; returns `status`. */
int client_fail(struct client *client, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Has the registry closed the connection? Without a word to it. */
bool client_has_ended(const struct client *client);
bool client_fd_has_ended(int fd);
/* Close the connection. */
void client_hang_up(struct client *client);

/* client_given_up.c. A program may close every fd, or put one of its own where ours was: look before
 * each use. */
bool client_socket_is_ours(const struct client_socket *socket);
/* There is no connection any more; where it has a session_key its fd stays open for now. */
void client_give_up(struct client *client);
/* Close what was given up: all, when another hello has been answered; those whose registry has gone. */
void client_drop_given_up(struct client *client);
void client_drop_ended(struct client *client);

/* client_probe.c */
void client_drop_probe(struct client *client);

/* client_owed.c. Of a client that goes, and has not told the registry so: the next connection of this
 * process to that directory does. */
void client_owe(const struct client *client);
/* Over a connection of its own each. */
void client_settle(const struct client *client, int64_t deadline_ms);
/* Whether a registry that is started now would know what this client shared or attached. */
bool client_is_remembered(const struct client *client);

/* As client_connect(), by then. */
int client_connect_by(struct client *client, int64_t deadline_ms);

/* client_reach.c: dial until the deadline; where nobody listens, start a registry once. */
int client_reach(struct client *client, int64_t deadline_ms);

/*
 * The same open file where the program's dup2() of a number of its own choice won't hit it, or `fd` where
 * the limit of descriptors is lower; never 0, 1 or 2, which a program that has closed those may write to.
 */
#define CLIENT_FDS_FROM 256
int client_keep_clear(int fd);
/* A socket of that type that is connected, or a negative errno; it never blocks. */
int client_dial(const char *path, int type);
/* The socket's other end must be ours or root's: a directory check alone leaves a race. */
int client_check_peer(struct client *client, int fd);

/* client_wire.c. Wait for `events`; OK, E_TIMED_OUT, or E_IO for a poll that failed. */
int client_wait(int fd, short events, int64_t deadline_ms);
/* Move all `size` bytes one way. E_NO_REGISTRY: the other side closed. */
int client_transfer(struct client *client, bool out, uint8_t *data, size_t size,
		    int64_t deadline_ms);
/* The connection is none any more over that failure; with the sentence for it. */
int client_fail_transfer(struct client *client, int status, const char *doing);
/* Answers that nobody waits for are taken in first. */
int client_settle_posted(struct client *client, int64_t deadline_ms);
/* The answer of `size` bytes; its status, or E_PROTOCOL. */
int client_read_answer(struct client *client, const uint8_t *bytes, size_t size, reply *answer);
/* A question and its answer; the answer's status. */
int client_exchange(struct client *client, const request *question, reply *answer,
		    int64_t deadline_ms);

#endif
