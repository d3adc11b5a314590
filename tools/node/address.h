/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ADDRESS_H
#define GPUSHARE_TOOLS_ADDRESS_H
/* Addresses of nodes, and the list that names them. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_LOOK_UP_S 10
#define ADDRESS_MAX 288 /* bytes of an address, NUL included */
#define NODE_NAME_MAX 64
#define NODES_MAX 256
#define NODES_WHY_MAX (PATH_MAX + 512)

/* "tls://HOST:PORT" or "tcp://HOST:PORT"; HOST may be an IPv6 address in brackets. */
struct address {
	char text[ADDRESS_MAX];
	char url[ADDRESS_MAX + 4]; /* the same, as nng has it */
	char host[ADDRESS_MAX];	   /* without brackets */
	bool tls;
};
bool address_parse(const char *text, struct address *out);
/* Put the numeric address of the host into the url. nng looks up names in four threads without a
 * deadline of ours, so one slow name server delays all nodes. False: `why` says what is wrong. */
bool address_look_up(struct address *address, char why[NODES_WHY_MAX]);
/* Whether the host is a numeric address of that network interface. */
bool address_is_of(const struct address *address, const char *interface);

struct node {
	char name[NODE_NAME_MAX];
	struct address address;
};
struct nodes {
	struct node *list;
	size_t count;
};
/* Read $GPUSHARE_NODES, else "nodes" in the user's folder: an etcd's address, or a file with "name
 * address" a line, where '#' begins a comment. False: `why` says what is wrong. */
bool nodes_read(struct nodes *out, char why[NODES_WHY_MAX]);
/* False: there are NODES_MAX, or the name or the address is not valid. */
bool nodes_add(struct nodes *nodes, const char *name, const char *address);
void nodes_free(struct nodes *nodes);
/* A node by its name there, or by its address. False: `why` says what is wrong. */
bool nodes_find(const char *which, struct node *out, char why[NODES_WHY_MAX]);

/* $XDG_CONFIG_HOME/gpushare, else ~/.config/gpushare. False: there is neither variable. */
bool nodes_folder(char out[PATH_MAX]);

#endif
