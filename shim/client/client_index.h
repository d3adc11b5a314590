/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_INDEX_H
#define GPUSHARE_SHIM_CLIENT_INDEX_H
/*
 * Look-ups without a question: the registry's index (index.h), mapped once a connection, when that
 * has asked often enough. Callers lock.
 */
#include "client.h"
#include "index.h"

struct index_view {
	const struct index_page *page; /* NULL: none */
	unsigned long long fd_inode;   /* of the connection that it, or none, came for; 0: none */
	unsigned int asked;	       /* look-ups that went over the socket */
};

/* What the registry would answer now, but for an address. false: ask it, and say so with 
 * index_asked(). */
bool index_look_up(const struct index_view *view, const struct client *client, const char *name,
		   record *out_found);
/* A look-up went over the socket: fetches the index where the connection has none so far. */
void index_asked(struct index_view *view, struct client *client);
void index_drop(struct index_view *view);

#endif
