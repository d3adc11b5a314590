/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PAGES_H
#define GPUSHARE_REGISTRY_PAGES_H
/* Sealed memory that the registry writes and clients map. All functions but ..._init() need the
 * registry's lock held. */
#include "index.h"

struct entry;

/* Counters that tell a client, without a request, whether a name may stand for another buffer by
 * now. */
struct changes {
	struct changes_page *page; /* NULL: there is none, and clients ask the registry each time */
	int fd;			   /* the page's; nobody else can map it for writing */
};

void changes_init(struct changes *changes);
/* Call before any client gets an answer which shows that the name was removed, or has another
 * generation. */
void changes_mark(struct changes *changes, const char *name);
/* Call for a buffer that has no name any more, such as a deferred free: `left` says whether its
 * last attacher has left. */
void changes_left(struct changes *changes, uint64_t generation, bool left);

/* What the registry needs to write the index (protocol/index.h). */
struct indexer {
	struct index_page *page; /* NULL: there is none, and clients send requests */
	int fd;			 /* the page's; nobody else can map it for writing */
	uint32_t used;		 /* slots 0 to used - 1 were used at least once */
	uint32_t left;		 /* head of the list of freed slots: slot + 1; 0: it is empty */
	uint32_t *next;		 /* for each slot: the next slot in that list, encoded as `left` */
};

/* Clients stop using the index when the thread that calls this ends. */
void indexer_init(struct indexer *indexer);
/* Write the buffer's current record into the index, unless the bucket of its name is full. */
void indexer_put(struct indexer *indexer, struct entry *entry);
/* Write the buffer's current record if the buffer is in the index. */
void indexer_update(struct indexer *indexer, const struct entry *entry);
void indexer_remove(struct indexer *indexer, struct entry *entry);

#endif
