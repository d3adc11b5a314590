/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_CHANGES_H
#define GPUSHARE_SHIM_CLIENT_CHANGES_H
/*
 * Has a name gone, or come to stand for another buffer? The registry counts that in a page of
 * memory that its clients read: what it answered before stands as long as the count does. One page
 * a connection; callers lock. The page also says what has been left by its last attacher.
 */
#include "client.h"

struct changes_view {
	struct changes_page *page;   /* mapped for reading; NULL: none */
	unsigned long long fd_inode; /* of the connection that it, or no page, came for; 0: none */
};

/* The page of the client's connection, asked for once. */
void changes_fetch(struct changes_view *view, struct client *client);
/* The name's count, where there is a page and its registry is there. */
bool changes_read(const struct changes_view *view, const struct client *client, const char *name,
		  uint64_t *out_count);
/* Was the page of the client's connection asked for? There may be none. */
bool changes_asked(const struct changes_view *view, const struct client *client);
/* Does the page say that nobody has that generation attached any more, which is deferred? */
bool changes_says_left(const struct changes_view *view, uint64_t generation);
void changes_drop(struct changes_view *view);

#endif
