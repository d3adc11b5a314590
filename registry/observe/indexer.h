/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INDEXER_H
#define GPUSHARE_REGISTRY_INDEXER_H
/* The index as its writer has it. All want the registry's lock held, but for init and finish. */
#include "index.h"

struct entry;

struct indexer {
	struct index_page *page; /* NULL: there is none, and clients ask */
	int fd;			 /* of it, which nobody else can map for writing */
	uint32_t used;		 /* slots that were given out so far; the first ones */
	uint32_t left;		 /* the first of them that is free again, from 1; 0: none */
	uint32_t *next;		 /* by slot: the next free one */
};

/* The thread that calls this is the one whose end ends the index. */
void indexer_init(struct indexer *indexer);
void indexer_finish(struct indexer *indexer);
/* Nobody is to believe it any more. */
void indexer_close(struct indexer *indexer);
/* As it is now; a bucket may have no room. */
void indexer_put(struct indexer *indexer, struct entry *entry);
/* The same of what is there; of what isn't, nothing. */
void indexer_update(struct indexer *indexer, const struct entry *entry);
void indexer_remove(struct indexer *indexer, struct entry *entry);

#endif
