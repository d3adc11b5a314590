/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SAVE_H
#define GPUSHARE_REGISTRY_SAVE_H
/*
 * What changes in the registry, put down among its records at once, so before anybody hears of it.
 * `record_slot` is where a thing's record is; 0: it has none. All want the registry's lock held.
 */
#include "registry.h"

struct participant;

/* Shared, or other than before: its owner, descriptor, deadline. */
void save_entry(struct registry *registry, struct entry *entry);
void save_gone(struct registry *registry, struct entry *entry);
/* What was its record goes, now that another one says more. */
void save_forget(struct registry *registry, unsigned int record_slot);
/* That it is held so often from now on; 0: no more. */
void save_attachment(struct registry *registry, struct session *session,
		     struct attachment *attachment, unsigned int count);
/* What it is to the order of a buffer from now on. */
void save_participant(struct registry *registry, struct participant *participant);
/* The session ends, and with it all that it has, but names with KEEP: before the first of them goes, as a
 * successor must not wait for a process that lives and has closed this connection. */
void save_end(struct registry *registry, struct session *session);
/* Its process is seen otherwise than before. */
void save_seen(struct registry *registry, struct session *session);
/* What holds for the whole registry. */
void save_begin(struct registry *registry);

/* What was dropped goes from the store of descriptors; records that could not be written are tried again. */
void save_flush(struct registry *registry);
/* All of it into a new file. */
void save_all(struct registry *registry);
/* Now and then: the same where the file was removed, or is far too large. */
void save_tend(struct registry *registry);

#endif
