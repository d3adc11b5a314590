/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_H
#define GPUSHARE_SHIM_CLIENT_H
/*
 * The registry client: plain blocking calls with a deadline over one socket, no thread, no nng.
 * Used by the shim and by the API. One client serves one caller at a time: callers lock.
 */
#include "protocol.h"

struct client_options {
	const char *directory;	 /* NULL: see directory_find() */
	const char *who;	 /* "shim" or "api", for the registry's log */
	unsigned int timeout_ms; /* 0: $GPUSHARE_TIMEOUT_MS or 1000 */
	bool autostart;		 /* and $GPUSHARE_AUTOSTART isn't 0 */
};

struct client {
	int fd;					/* -1: not connected */
	unsigned long long fd_device, fd_inode; /* proof that the fd is still ours */
	int pid;				/* that connected; a forked child has another */
	uint32_t next_id;
	unsigned int timeout_ms;
	bool autostart;
	char who[64];
	char directory[GPUSHARE_PATH_MAX];
	char why[512]; /* the sentence behind the last failure */
	uint8_t *wire; /* GPUSHARE_MESSAGE_MAX bytes */
	request request;
	reply reply;
};

/* $GPUSHARE_TIMEOUT_MS where it is a whole number of 1 to 3600000, else 1000. */
unsigned int client_default_timeout_ms(void);

/* Heap-allocated and unconnected; the first call connects. NULL: out of memory. */
struct client *client_new(const struct client_options *options);
/* Closes (without a word: the registry sees the connection go) and frees. NULL is allowed. Returns NULL. */
struct client *client_free(struct client *client);

/* Connect, starting a registry where none runs, and say hello. OK when connected already. */
int client_connect(struct client *client);
/* Drop the connection; in a forked child too, where only the inherited fd is closed. */
void client_disconnect(struct client *client);

/*
 * Send client->request, receive into client->reply, within timeout_ms + extra_ms altogether.
 * Connects first where needed. Returns the reply's own status, or a transport status
 * (E_NO_REGISTRY, E_TIMED_OUT, E_PROTOCOL, E_FORKED); client->why has the sentence either way.
 * After a transport failure the connection is closed: a late answer never meets a later question.
 */
int client_call(struct client *client, unsigned int extra_ms);

/* autostart.c: start `gpushare-registry --dir DIRECTORY` detached: no SIGCHLD, nothing that the
 * program could reap, none of its fds, its signal mask as it was. */
int autostart_registry(const char *directory, char *why, size_t why_size);

#endif
