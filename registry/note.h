/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_NOTE_H
#define GPUSHARE_REGISTRY_NOTE_H
/*
 * What changes in the registry, put down among its records at once, so before anybody hears of it. What
 * stands under a name goes to the index, too. `noted` is where a thing's record is; 0: it has none. All want
 * the registry's lock held.
 */
#include "registry.h"

struct burn;
struct order;
struct player;

/* Shared, or other than before: its owner, descriptor, deadline. */
void note_entry(struct registry *registry, struct entry *entry);
void note_gone(struct registry *registry, struct entry *entry);
/* What was its record goes, now that another one says more. */
void note_forget(struct registry *registry, unsigned int noted);
/* That it is held so often from now on; 0: no more. */
void note_attachment(struct registry *registry, struct lease *lease, struct attachment *attachment,
		     unsigned int count);
/* What it is to the order of a buffer from now on. */
void note_player(struct registry *registry, struct player *player);
/* Its slot is burned: order_page.h. */
void note_burn(struct registry *registry, const struct order *order, uint32_t slot);
/* Its slot is burned no more. */
void note_burn_end(struct registry *registry, struct burn *burn);
/* The lease ends, and with it all that it has, but names with KEEP: before the first of them goes, as a
 * successor must not wait for a process that lives and has closed this connection. */
void note_end(struct registry *registry, struct lease *lease);
/* Its process is seen otherwise than before: so is who has what it has. */
void note_seen(struct registry *registry, struct lease *lease);
/* What holds for the whole registry. */
void note_begin(struct registry *registry);

/* What was dropped goes from the store of descriptors; records that could not be written are tried again. */
void note_flush(struct registry *registry);
/* All of it into a new file. */
void note_all(struct registry *registry);

#endif
