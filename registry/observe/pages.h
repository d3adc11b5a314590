/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PAGES_H
#define GPUSHARE_REGISTRY_PAGES_H
/* Sealed memory that the registry writes and clients map. All want the registry's lock held, but for
 * init. */
#include "index.h"

struct entry;

/* Tells clients, without a question, that a name may mean something else by now. */
struct changes {
	struct changes_page *page; /* NULL: there is none, and clients ask each time */
	int fd;			   /* of it, which nobody else can map for writing */
};

void changes_init(struct changes *changes);
/* Before anybody is answered that the name has gone, or stands for another generation. */
void changes_mark(struct changes *changes, const char *name);
/* Has the last attacher of that generation, which has no name any more, left? */
void changes_left(struct changes *changes, uint64_t generation, bool left);

/* The index as its writer has it. */
struct indexer {
	struct index_page *page; /* NULL: there is none, and clients ask */
	int fd;			 /* of it, which nobody else can map for writing */
	uint32_t used;		 /* slots that were given out so far; the first ones */
	uint32_t left;		 /* the first of them that is free again, from 1; 0: none */
	uint32_t *next;		 /* by slot: the next free one */
};

/* The thread that calls this is the one whose end ends the index. */
void indexer_init(struct indexer *indexer);
/* Nobody is to believe it any more. */
void indexer_close(struct indexer *indexer);
/* As it is now; a bucket may have no room. */
void indexer_put(struct indexer *indexer, struct entry *entry);
/* The same of what is there; of what isn't, nothing. */
void indexer_update(struct indexer *indexer, const struct entry *entry);
void indexer_remove(struct indexer *indexer, struct entry *entry);

#endif
