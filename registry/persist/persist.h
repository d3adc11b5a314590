/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PERSIST_H
#define GPUSHARE_REGISTRY_PERSIST_H
/*
 * Writes the state as records (state.proto) at each change, before the registry answers. The next
 * registry reads them. It also gets the descriptors of the fd store, and its predecessor's clients
 * will reconnect. Until its client reconnects, a session of a predecessor is a disconnected
 * session: it has no connection, and ends with its process.
 *
 * Each session, buffer, attachment and participant has a `record_slot`: where its record is in
 * registry.state, or was in an earlier file of that name (records_has()). 0: it has no record. Call
 * all functions but restore_open() and restore_leave() with the registry's lock held.
 */
#include "context/registry.h"

struct participant;

/* Write a buffer. Writes nothing if the buffer's descriptor is still to come. */
void save_entry(struct registry *registry, struct entry *entry);
/* Write how often the session has the buffer attached. If it is 0, drop the record. */
void save_attachment(struct registry *registry, struct session *session,
		     struct attachment *attachment);
/* Write a session, with its process as it is seen now. */
void save_session(struct registry *registry, struct session *session);
/* Write a participant's roles. Without roles, drop its record. */
void save_participant(struct registry *registry, struct participant *participant);

/* Call this before an answer is sent: it removes dropped descriptors from the fd store. */
void save_flush(struct registry *registry);
/* Write the whole state into a new file. */
void save_all(struct registry *registry);

/* Restore sessions (as disconnected ones), buffers, attachments and participants from a
 * predecessor's records. Does not check whether processes live. The caller has to write all records
 * into a new file. */
void load_records(struct registry *registry);

/* Take over what a predecessor left in the directory, and write records from now on. false: it
 * failed, which is logged. */
bool restore_open(struct registry *registry, const char *directory);
/* Whether the main loop has to call restore_next_dead() regularly. */
bool restore_looks(const struct registry *registry);
/* The id of a disconnected session that has nothing left, or whose process can't be watched and has
 * ended. 0: none. */
uint32_t restore_next_dead(const struct registry *registry);
/* Answer no more requests. Leave what is shared to a successor. */
void restore_leave(struct registry *registry);

#endif
