/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SAVE_H
#define GPUSHARE_REGISTRY_SAVE_H
/*
 * The state as records (state.proto), written at each change before anybody is answered, and read by a
 * successor. `record_slot` is where a thing's record is, or was in an
 * earlier file; 0: it has none. All want the registry's lock held.
 */
#include "context/registry.h"

struct participant;

/* A buffer as it is now. */
void save_entry(struct registry *registry, struct entry *entry);
/* Its count, which may be 0. */
void save_attachment(struct registry *registry, struct session *session,
		     struct attachment *attachment);
/* A session, as its process is seen now. */
void save_session(struct registry *registry, struct session *session);
/* Its role in the order of a buffer from now on. */
void save_participant(struct registry *registry, struct participant *participant);
/* What holds for the whole registry. */
void save_header(struct registry *registry);

/* Before an answer: dropped descriptors go from the fd store. */
void save_flush(struct registry *registry);
/* All of it into a new file, or what is left of that. */
void save_all(struct registry *registry);
/* Now and then: the same, if the file wants it, in pieces. true: there is more. */
bool save_tend(struct registry *registry);

/* Read a predecessor's records: disconnected sessions, buffers, attachments. No process is looked for; records
 * that are of no use go. false: all has to be written into a new file. */
bool load_records(struct registry *registry);

#endif
