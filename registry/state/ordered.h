/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ORDERED_H
#define GPUSHARE_REGISTRY_ORDERED_H
/*
 * Entries in byte order of their names, in pieces of some hundred: what comes or goes moves its
 * neighbours in one piece, and counts in the others, however many names there are.
 */
#include <stdbool.h>
#include <stddef.h>

struct entry;

#define ORDERED_PIECE 510 /* and its count: a page */

struct ordered_piece {
	size_t count;
	struct entry *entries[ORDERED_PIECE];
};

struct ordered {
	struct {
		struct ordered_piece *piece;
		size_t first; /* position of its first entry */
	} * pieces;	      /* none of them is empty */
	size_t count, room;
	struct ordered_piece *spare; /* for the next insertion */
};

void ordered_finish(struct ordered *ordered);
/* Room for one more. false: out of memory. */
bool ordered_reserve(struct ordered *ordered);
/* After ordered_reserve(): it can't fail. No other has that name. */
void ordered_insert(struct ordered *ordered, struct entry *entry);
/* It is there. */
void ordered_remove(struct ordered *ordered, const struct entry *entry);
/* The position of the first name above `after`; "" for the beginning. */
size_t ordered_seek(const struct ordered *ordered, const char *after);
/* NULL past the end. */
struct entry *ordered_at(const struct ordered *ordered, size_t position);

#endif
