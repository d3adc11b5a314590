/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ADDRESS_H
#define GPUSHARE_TOOLS_ADDRESS_H
/* Addresses of nodes, and the list of nodes. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESS_MAX 288 /* bytes of an address, NUL included */
#define NODE_NAME_MAX 64
#define NODES_MAX 256
#define NODES_WHY_MAX (PATH_MAX + 512)

/* Write why a call failed; `why` may be NULL. Returns false. */
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
/* Have look-ups end within 10 s if no name server answers, unless the user has set RES_OPTIONS. It
 * uses setenv(): no other thread may read the environment then. */
void address_limit_look_ups(void);
/* Look up the host. False: see `why`. */
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
 * file "nodes" in nodes_folder(). Lines: "name address", # begins a comment. False: see `why`. */
bool nodes_read(struct nodes *out, char why[NODES_WHY_MAX]);
/* False: the list has NODES_MAX nodes already, or the name or the address is not valid. */
bool nodes_add(struct nodes *nodes, const char *name, const char *address);
void nodes_free(struct nodes *nodes);
/* Find a node by its name in the list, or by its address, without the list. False: see `why`. */
bool nodes_find(const char *which, struct node *out, char why[NODES_WHY_MAX]);

/* $XDG_CONFIG_HOME/gpushare, else ~/.config/gpushare. False: neither variable is set. */
bool nodes_folder(char out[PATH_MAX]);
/* Find a file in `folder` ("": the one of nodes_folder()). If there is none, *out_path is "", and
 * `why` says so. False: group or others have one of the permissions `others`. */
bool nodes_file(const char *folder, const char *name, mode_t others, char out_path[PATH_MAX],
		char why[NODES_WHY_MAX]);

/* Whether a value of GPUSHARE_NODES names an etcd: "etcd://HOST:PORT/PREFIX", with TLS "etcds". */
bool etcd_is(const char *text);
/* Add the nodes to *nodes, in the order of their names; keys that are no nodes are left out. */
bool etcd_read(const char *text, struct nodes *nodes, char why[NODES_WHY_MAX]);
/* Start a thread that keeps this node registered until the process ends, and reports changes on
 * stderr. False: see `why`. */
bool etcd_join(const char *text, const char *name, const char *address, char why[NODES_WHY_MAX]);

#endif
