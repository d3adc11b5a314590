/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ETCD_H
#define GPUSHARE_TOOLS_ETCD_H
/* The optional directory of nodes: an etcd, from 3.4 on, asked by its JSON gateway. Each node has
 * one key, PREFIX/NAME, with a lease. libcurl is loaded by the first of these calls. */
#include "address.h"

#define ETCD_TTL_S 15
#define ETCD_KEEP_ALIVE_S 5

/* Whether a value of GPUSHARE_NODES names an etcd: "etcd://HOST:PORT/PREFIX", with TLS "etcds". */
bool etcd_is(const char *text);
/* Add the nodes to *nodes, in the order of their names; keys that are no nodes are left out.
 * False: `why` says what is wrong. */
bool etcd_read(const char *text, struct nodes *nodes, char why[NODES_WHY_MAX]);
/* Keep this node in the directory until the process ends, by a thread, which reports changes on
 * stderr. False: `why` says what is wrong. */
bool etcd_join(const char *text, const char *name, const char *address, char why[NODES_WHY_MAX]);

#endif
