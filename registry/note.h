/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_NOTE_H
#define GPUSHARE_REGISTRY_NOTE_H
/*
 * What changes in the registry, put down in its journal. Whatever a request or an end changes is
 * gathered and goes to the file together, with note_flush(), before anybody hears of it. What stands
 * under a name goes to the index at once. All want the registry's lock held.
 */
#include "registry.h"

struct order;
struct player;

/* Shared, or other than before: its owner, descriptor, deadline. */
void note_entry(struct registry *registry, struct entry *entry);
void note_gone(struct registry *registry, struct entry *entry);
/* That it is held so often from now on; 0: no more. */
void note_attachment(struct registry *registry, struct lease *lease, struct attachment *attachment,
		     unsigned int count);
/* What it is to the order of a buffer from now on. */
void note_player(struct registry *registry, struct player *player);
/* Its slot is burned: order_page.h. */
void note_burn(struct registry *registry, const struct order *order, uint32_t slot);
/* The lease ends, and with it all that it has, but names with KEEP. Written before the first of them goes: a
 * successor must not wait for a process that lives and has closed this connection. */
void note_end(struct registry *registry, struct lease *lease);
/* What note_end() has told the end of is no longer counted. */
void note_forget(struct registry *registry, struct attachment *attachment);

void note_flush(struct registry *registry);
/* Write it anew if little of it lives: what was ending has gone, and nothing is left to be written. */
void note_shorten(struct registry *registry);
/* Write the whole of it anew. */
void note_all(struct registry *registry);

#endif
