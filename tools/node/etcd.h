/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ETCD_H
#define GPUSHARE_TOOLS_ETCD_H
/* An etcd (3.4 or later) as the list of nodes: each has one key, PREFIX/NAME, with a lease.
 * Requests go to etcd's JSON gateway by libcurl, which the first call loads. */
#include "address.h"

#define ETCD_TTL_S 15
#define ETCD_KEEP_ALIVE_S 5

/* Whether a value of GPUSHARE_NODES names an etcd: "etcd://HOST:PORT/PREFIX", with TLS "etcds". */
bool etcd_is(const char *text);
/* Add the nodes to *nodes, in the order of their names; keys that are no nodes are left out.
 * False: `why` says what is wrong. */
bool etcd_read(const char *text, struct nodes *nodes, char why[NODES_WHY_MAX]);
/* Start a thread that keeps this node registered until the process ends, and reports changes on
 * stderr. False: `why` says what is wrong. */
bool etcd_join(const char *text, const char *name, const char *address, char why[NODES_WHY_MAX]);

#endif
