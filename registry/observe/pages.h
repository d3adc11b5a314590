/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PAGES_H
#define GPUSHARE_REGISTRY_PAGES_H
/* Sealed memory that the registry writes and clients map. All functions but ..._init() need the
 * registry's lock held. */
#include "index.h"

struct entry;

/* Counters by which clients see, without a request, that a name may have another buffer by now. */
struct changes {
	struct changes_page *page; /* NULL: there is none, and clients ask the registry each time */
	int fd;			   /* the page's; nobody else can map it for writing */
};

void changes_init(struct changes *changes);
/* Call before any client gets an answer which shows that the name was removed, or has another
 * generation. */
void changes_mark(struct changes *changes, const char *name);
/* Call for a generation without a name: `left` says whether its last attacher has left. */
void changes_left(struct changes *changes, uint64_t generation, bool left);

/* The index, from its writer's side. */
struct indexer {
	struct index_page *page; /* NULL: there is none, and clients send requests */
	int fd;			 /* the page's; nobody else can map it for writing */
	uint32_t used;		 /* slots 0 to used - 1 were used at least once */
	uint32_t left;		 /* head of the list of freed slots: slot + 1; 0: it is empty */
	uint32_t *next;		 /* by slot: the next one of that list, as `left` */
};

/* Clients stop using the index when the thread that calls this ends. */
void indexer_init(struct indexer *indexer);
/* Write the buffer's current record. If its bucket is full, the buffer isn't in the index. */
void indexer_put(struct indexer *indexer, struct entry *entry);
/* The same, but only if the buffer is in the index. */
void indexer_update(struct indexer *indexer, const struct entry *entry);
void indexer_remove(struct indexer *indexer, struct entry *entry);

#endif
