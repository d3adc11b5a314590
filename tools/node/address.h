/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ADDRESS_H
#define GPUSHARE_TOOLS_ADDRESS_H
/* Addresses of nodes, and the list of nodes. On failure, functions with an argument `why` return
 * false, and write the reason there. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESS_MAX 288 /* bytes of an address, NUL included */
#define NODE_NAME_MAX 64
#define NODES_MAX 256
#define NODES_WHY_MAX (PATH_MAX + 512)

/* Write a reason to `why`, unless `why` is NULL. Returns false. */
bool nodes_refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "tls://HOST:PORT" or "tcp://HOST:PORT"; HOST may be an IPv6 address in brackets. */
struct address {
	char text[ADDRESS_MAX];
	char host[ADDRESS_MAX]; /* without brackets */
	bool tls;
	struct sockaddr_storage at; /* found by address_look_up() */
	socklen_t at_size;
};
bool address_parse(const char *text, struct address *out);
/* Limit look-ups to 10 s if no name server answers, unless the user has set RES_OPTIONS. Calls
 * setenv(): no other thread may read the environment meanwhile. */
void address_limit_look_ups(void);
/* Look up address->host, and set address->at. */
bool address_look_up(struct address *address, char why[NODES_WHY_MAX]);
/* Whether `host` is a numeric address of that network interface. */
bool address_is_of(const char *host, const char *interface);

struct node {
	char name[NODE_NAME_MAX];
	struct address address;
};
struct nodes {
	struct node *list;
	size_t count;
};
/* Read the list of nodes from $GPUSHARE_NODES (a file or an etcd's address), by default from the
 * file "nodes" in nodes_folder(). A line of a file is "name address"; # begins a comment. */
bool nodes_read(struct nodes *out, char why[NODES_WHY_MAX]);
/* False: the list has NODES_MAX nodes already, or the name or the address is not valid. */
bool nodes_add(struct nodes *nodes, const char *name, const char *address);
void nodes_free(struct nodes *nodes);
/* Find a node. `which` is its name in the list, or an address, which needs no list. */
bool nodes_find(const char *which, struct node *out, char why[NODES_WHY_MAX]);

/* $XDG_CONFIG_HOME/gpushare, else ~/.config/gpushare. False: neither variable is set. */
bool nodes_folder(char out[PATH_MAX]);
/* Find the file `name` in `folder` ("": nodes_folder()). Fails only if group or others have one of
 * the permissions `others`. If there is no file, returns true, with "" in `out_path` and the reason
 * in `why`. */
bool nodes_file(const char *folder, const char *name, mode_t others, char out_path[PATH_MAX],
		char why[NODES_WHY_MAX]);

/* Whether a value of GPUSHARE_NODES names an etcd: "etcd://HOST:PORT/PREFIX", with TLS "etcds". */
bool etcd_is(const char *text);
/* Add the nodes of the etcd, in the order of their names. Keys that don't describe a node are
 * skipped. */
bool etcd_read(const char *text, struct nodes *nodes, char why[NODES_WHY_MAX]);
/* Start a thread that keeps this node registered until the process ends. It reports on stderr when
 * the node is registered, and errors. */
bool etcd_join(const char *text, const char *name, const char *address, char why[NODES_WHY_MAX]);

#endif
