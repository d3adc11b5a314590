/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_BUFFER_H
#define GPUSHARE_REGISTRY_BUFFER_H
/*
 * Operations on buffers. A buffer with a name has its owner's session, or is kept without one. A
 * buffer loses its name in one of three ways. Its owner frees it, and holds the memory until the
 * last attacher leaves (info.deferred). It is unlinked, which its owner doesn't know. Its owner's
 * resync does not mention it (unsynced).
 */
#include "state/state.h"

/* Find a buffer with or without a name. NULL: there is no such buffer. */
struct entry *buffer_find(const struct state *state, const char *name, uint64_t generation);
/* Call for a buffer that has no name here. True: the registry knew it and took the name away.
 * False: the registry never knew it, or lost its memory in a restart. */
bool buffer_has_gone(const struct state *state, const char *name, uint64_t generation);

/* Add a buffer. `again`: the generation that it had before; 0: give it a new one. `old` (may be
 * NULL): the buffer that it replaces: a kept one of the same name, or the nameless one of
 * generation `again`. Returns NULL if memory is out; then nothing has changed. */
struct entry *buffer_add(struct state *state, struct session *session, const record *info,
			 const uint8_t *handle, uint64_t again, struct entry *old);
/* Set the buffer's descriptor. The entry takes over the reference. */
void buffer_hold(struct state *state, struct entry *entry, struct fdref *fdref);
/* Let a part have the descriptor of `whole`. */
void buffer_hold_part(struct state *state, struct entry *part, const struct entry *whole);
/* Replace the tags. false: out of memory, nothing changed. */
bool buffer_tag(struct state *state, struct entry *entry, const gpushare_Tag *tags,
		pb_size_t count);
/* End the staged state: from now on every peer with the right to see the buffer sees it. */
void buffer_commit(struct state *state, struct entry *entry);
void buffer_remove(struct state *state, struct entry *entry, enum departure how);

/* The owner leaves: keep the buffer without an owner (true), or remove it (false). Even after
 * true, buffer_lose() may have freed the entry. */
bool buffer_part(struct state *state, struct entry *entry, enum departure how);
/* Keep the buffer without an owner. Its last owner was *owner. */
void buffer_orphan(struct state *state, struct entry *entry, const struct process *owner);
/* If the buffer's memory is missing, and neither an owner nor an attacher is left to bring it back,
 * remove the buffer and return true. */
bool buffer_lose(struct state *state, struct entry *entry);
/* Give an ownerless kept buffer `session` as its owner, with these flags and ttl. */
void buffer_return(struct state *state, struct entry *entry, struct session *session,
		   uint32_t flags, uint32_t ttl_s);
/* Whether `info` has the buffer's size, backing and device. */
bool buffer_is_alike(const struct entry *entry, const record *info);
/* Iterate over the buffers kept without an owner, by deadline. Returns the one after `entry` (NULL:
 * the first). NULL: there is no more. */
struct entry *buffer_next_kept(const struct state *state, const struct entry *entry);
/* Enter a buffer into state.kept, without an owner. Emits no change, so that it can be used to load
 * records. */
void buffer_load_kept(struct state *state, struct entry *entry);
int buffer_compare_kept(const void *key, const struct tree_node *node);

/* Take away the buffer's name and release its descriptor. `unsynced`: the owner's resync did not
 * mention the buffer, but the owner may confirm that it holds the memory. */
void buffer_defer(struct state *state, struct entry *entry, enum departure how, bool unsynced);
/* The owner says that it holds the memory until the last attacher leaves. */
void buffer_confirm(struct state *state, struct entry *entry);
/* Remove, without a tombstone, a buffer that has no name, or whose record is contradicted by a
 * later record. */
void buffer_end(struct state *state, struct entry *entry);

/* Set the number of the session's attachments of that generation, even if no such buffer is known.
 * 0 frees the attachment, which must exist, and may remove a buffer whose memory is missing. NULL:
 * the number is 0, or memory is out. */
struct attachment *buffer_attach(struct state *state, struct session *session, const char *name,
				 uint64_t generation, unsigned int count);
/* Count an attachment that exists already, e.g. one from a record, among the attachers of
 * `entry`. */
void buffer_join(const struct session *session, struct attachment *attachment, struct entry *entry);

#endif
