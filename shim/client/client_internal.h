/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_INTERNAL_H
#define GPUSHARE_SHIM_CLIENT_INTERNAL_H
/* Between the client's files: deadlines, sockets, sentences. */
#include "client.h"

#define CLIENT_PATIENCE_MS 250 /* with a first connection that is not greeted; then twice that */
#define CLIENT_RETRY_MS 5   /* between two tries to reach a registry that is starting, or is busy */
#define CLIENT_START_MS 500 /* what a registry that we started may take before we start another */

/* Keep the sentence; returns `status`. */
int client_fail(struct client *client, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Of a transfer that failed while the registry was `doing` something: E_TIMED_OUT, E_PROTOCOL, else E_NO_REGISTRY. */
int client_fail_transfer(struct client *client, int status, const char *doing);
/* Has the registry closed the connection? Without a word to it. */
bool client_has_ended(const struct client *client);

/* Drops a connection that has ended, or isn't ours any more. False: there is none. */
bool client_drop_ended(struct client *client);

/* A program may close every fd, or put one of its own where ours was: look before each use. */
bool client_socket_is_ours(const struct client_socket *socket);
/* *out_socket is that fd; false: it can't be looked at. */
bool client_socket_of(int fd, struct client_socket *out_socket);

/*
 * client_late.c. A request was sent and its caller has given up. The next call first takes the answer, and undoes
 * what it says was done: nobody knows here that the name is shared, or attached.
 */
bool client_is_late(const struct client *client);
/* Returns what is to be filled in: the id, or the socket. */
struct client_late *client_note_late(struct client *client, const request *question);
/* The answer has come, and is client->reply. */
void client_undo(struct client *client);
/* Nothing is late any more. Closes the socket. */
void client_drop_late(struct client *client);

/* client_fds.c, the registry's other socket: each call connects anew. client_exchange() with client->goes beside the
 * question, and client->came beside its answer. */
int client_exchange_fds(struct client *client, const request *question, int64_t deadline_ms);
/* The answer that comes by client->late.socket. */
int client_settle_fds(struct client *client, int64_t deadline_ms);
/* The descriptor of a page, FDS_CHANGES or FDS_INDEX, which the caller closes. Within client->timeout_ms. */
int client_page(struct client *client, enum fds_verb verb, int *out_fd);

/* client_pages.c */
void client_drop_pages(struct client *client);

/* client_ended.c. The client goes: true: the registry that comes has to be told so, and the process's next connection
 * to that directory does. */
bool client_keep_ended(struct client *client);
/* Tells for those, over a connection of their own each. */
void client_end_others(const struct client *client, int64_t deadline_ms);
/* Whether a registry that is started now would know what this client shared or attached. */
bool client_is_remembered(const struct client *client);

/* As client_connect(), by then. */
int client_connect_by(struct client *client, int64_t deadline_ms);

/* client_reach.c: dial until the deadline; where nobody listens, start a registry once. */
int client_reach(struct client *client, int64_t deadline_ms, int *out_fd);
/* Registries that ended, or closed the connection, before they answered. */
struct client_endings {
	int all, in_row, server; /* the latest, and how often it was that one */
};
/* One more did: client->server. True: ask once more, after the pause that this made; false: there is no time left,
 * that one does not want us, or what we ask ends each. */
bool client_outlives(const struct client *client, struct client_endings *endings,
		     int64_t deadline_ms);

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
/* The registry's greeting. All below, too: E_TIMED_OUT leaves the connection as it is, for the next call to go on;
 * after another failure of the transport there is none any more. */
int client_greet(struct client *client, int64_t deadline_ms);
/* Put a request behind what is still to be written. */
int client_queue(struct client *client, const request *question, uint32_t *out_id);
/* The answer to that, in client->reply; its status. *out_answered: it came. */
int client_await(struct client *client, uint32_t id, bool *out_answered, int64_t deadline_ms);
/* Both. First comes what is late. */
int client_exchange(struct client *client, const request *question, int64_t deadline_ms);
/* All is written and answered, and nothing late. */
int client_settle(struct client *client, int64_t deadline_ms);
/* Into client->reply; a message that can't be decoded ends the connection. */
int client_decode(struct client *client, const uint8_t *bytes, size_t size);
/* The status in client->reply, and its sentence. */
int client_reply_status(struct client *client);

#endif
