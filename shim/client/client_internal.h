/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_INTERNAL_H
#define GPUSHARE_SHIM_CLIENT_INTERNAL_H
/* Shared by the client's files: deadlines, sockets, error sentences. */
#include "client.h"

#define CLIENT_PATIENCE_MS 250 /* to wait for the first connection's greeting; doubled each time */
#define CLIENT_RETRY_MS 5      /* between tries to connect, while a registry starts or is busy */
#define CLIENT_START_MS 500    /* to wait until a started registry listens, then start another */

/* Store the sentence in client->why; returns `status`. */
int client_fail(struct client *client, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As client_fail(), for a transfer that failed while the registry was `doing` something. Returns
 * `status` if that is E_TIMED_OUT or E_PROTOCOL, else E_NO_REGISTRY. */
int client_fail_transfer(struct client *client, int status, const char *doing);
/* Close the socket, if it is open and ours. */
void client_close_socket(const struct client *client, struct client_socket *socket);
/* Has the registry closed the connection? Sends nothing. */
bool client_has_ended(const struct client *client);

/* Drops the connection if it has ended, or if its fd isn't ours any more. False: there is no
 * connection. */
bool client_drop_ended(struct client *client);

/* The program may close any fd, or open one of its own with that number: check before each use. */
bool client_socket_is_ours(const struct client_socket *socket);
/* Identify `fd` in *out_socket. False: fstat() failed. */
bool client_socket_of(int fd, struct client_socket *out_socket);

/*
 * client_late.c: a request was sent and its caller has given up. The next call receives the answer
 * first, and undoes what the registry did, because the owner's tables don't have the buffer.
 */
bool client_is_late(const struct client *client);
/* `id`: of the request; 0: it was sent to fds.sock. */
void client_note_late(struct client *client, const request *question, uint32_t id);
/* The late answer has arrived in client->reply: undo its request. */
void client_undo(struct client *client);

/* client_fds.c: the registry's other socket. As client_exchange(), but over client->fds; sends
 * client->goes with the question and receives client->came with the answer. If fds.sock ends,
 * waits `ending_ms` for the end of the main connection. */
#define ENDING_MS 100 /* longest time from the end of fds.sock to the end of the main connection */
#define ENDING_ASKED_MS \
	1000 /* the same for a request that can't go over the main connection instead */
int client_exchange_fds(struct client *client, const request *question, int ending_ms,
			int64_t deadline_ms);
/* Connect client->fds, unless it is connected. False: that failed, and client->why says why. */
bool client_reach_fds(struct client *client, int64_t deadline_ms);
/* Receive the late answer on client->fds and undo its request. */
int client_settle_fds(struct client *client, int64_t deadline_ms);
/* Get the descriptor of a page, FDS_CHANGES or FDS_INDEX; the caller closes it. Takes
 * client->timeout_ms at most. */
int client_page(struct client *client, enum fds_verb verb, int *out_fd);

/* client_pages.c */
void client_drop_pages(struct client *client);

/* As client_connect(), with a deadline. */
int client_connect_by(struct client *client, int64_t deadline_ms);

/* client_reach.c: dial until the deadline. If nobody listens, start a registry; if that doesn't
 * listen within CLIENT_START_MS, start another. */
int client_reach(struct client *client, int64_t deadline_ms, int *out_fd);
/* How often the connection has ended before the answer to one request came. */
struct client_endings {
	int all;
	int in_row; /* consecutive ones, by the same registry */
	int server; /* pid of the latest of these registries */
};
/* The registry `client->server` has closed the connection: count that, and wait a little. True:
 * send the request again. False: give up, because the deadline has passed, this registry has closed
 * too many connections, or the request seems to end each registry that gets it. */
bool client_outlives(const struct client *client, struct client_endings *endings,
		     int64_t deadline_ms);

/*
 * Move `fd` to a number that the program's dup2() to a fixed number is unlikely to hit. Returns
 * `fd` itself if the descriptor limit is too low for that. Never returns 0, 1 or 2: a program that
 * has closed those may write to them. -1 and errno on failure.
 */
#define CLIENT_FDS_FROM 256
int client_keep_clear(int fd);
/* A connected socket of that type, or a negative errno. Never blocks. */
int client_dial(const char *path, int type);
/* The peer must run as root or as the directory's user. A check of the directory alone leaves a
 * race. */
int client_check_peer(struct client *client, int fd);

/* client_wire.c. Wait for `events`; OK, E_TIMED_OUT, or E_IO for a poll that failed. */
int client_wait(int fd, short events, int64_t deadline_ms);
/* Receive the registry's greeting. For this function and those below: after E_TIMED_OUT the
 * connection stays, and the next call continues on it; after any other transport failure it is
 * closed. */
int client_greet(struct client *client, int64_t deadline_ms);
/* Append a request to the unsent output. */
int client_queue(struct client *client, const request *question, uint32_t *out_id);
/* Wait for the answer to request `id`, in client->reply; returns its status. *out_answered: the
 * answer arrived. */
int client_await(struct client *client, uint32_t id, bool *out_answered, int64_t deadline_ms);
/* client_queue() and client_await(). A late answer is received first. */
int client_exchange(struct client *client, const request *question, int64_t deadline_ms);
/* Write all output and receive all answers, the late one included. */
int client_settle(struct client *client, int64_t deadline_ms);
/* Decode into client->reply. A message that can't be decoded ends the connection. */
int client_decode(struct client *client, const uint8_t *bytes, size_t size);
/* Returns the status in client->reply and stores its sentence. */
int client_reply_status(struct client *client);

#endif
