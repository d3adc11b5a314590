/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_BUFFER_H
#define GPUSHARE_REGISTRY_BUFFER_H
/*
 * What happens to a buffer. It has a name, or its free is deferred: it was freed by its owner, who holds the
 * memory until the last attacher leaves (info.deferred), or unlinked while its owner doesn't know. With a name
 * it has an owner's session, or is kept without one.
 */
#include "state/state.h"

/* Named or not; NULL: it has gone. */
struct entry *buffer_find(const struct state *state, const char *name, uint64_t generation);
/* Whether it was here and has gone, rather than never was. */
bool buffer_has_gone(const struct state *state, const char *name, uint64_t generation);

/* With a new generation, or `again` with the one that it had; 0: new. NULL: out of memory. */
struct entry *buffer_add(struct state *state, struct session *session, const record *info,
			 const uint8_t *handle, uint64_t again);
/* Its descriptor; the reference is the entry's. */
void buffer_hold(struct state *state, struct entry *entry, struct fdref *fdref);
/* false: out of memory. */
bool buffer_tag(struct state *state, struct entry *entry, const gpushare_Tag *tags,
		pb_size_t count);
/* Staged no more: everybody who may sees it. */
void buffer_commit(struct state *state, struct entry *entry);
void buffer_remove(struct state *state, struct entry *entry, enum departure how);
/* A record that another one contradicts. */
void buffer_drop(struct state *state, struct entry *entry);

/* The owner goes: the name goes, or is kept. true: it is kept, though it may be lost with that. */
bool buffer_part(struct state *state, struct entry *entry);
void buffer_orphan(struct state *state, struct entry *entry);
/* Its memory is missing, and nobody is left who could bring it back: it goes, and true. */
bool buffer_lose(struct state *state, struct entry *entry);
/* Nothing is known of the owner but that it has gone; `session` has it attached. */
void buffer_strand(struct state *state, struct entry *entry, struct session *session);
/* The owner, or another one, of what is kept. */
void buffer_return(struct state *state, struct entry *entry, struct session *session);
/* The same, with the flags and the ttl that `info` asks for. */
void buffer_adopt(struct state *state, struct entry *entry, struct session *session,
		  const record *info);
/* A new buffer and generation in place of what is kept. false: out of memory, nothing changed. */
bool buffer_replace(struct state *state, struct entry *entry, struct session *session,
		    const record *info, const uint8_t *handle);
/* Whether `info` would make the same. */
bool buffer_is_alike(const struct entry *entry, const record *info);
/* The kept buffers by deadline, the first one behind `entry` (NULL: of all); NULL: none. */
struct entry *buffer_next_kept(const struct state *state, const struct entry *entry);
/* From a record: no change. */
void buffer_load_kept(struct state *state, struct entry *entry);
int buffer_compare_kept(const void *key, const struct tree_node *node);

/* It loses its name and its descriptor. `unsynced`: its owner may yet say that it holds it. */
void buffer_defer(struct state *state, struct entry *entry, enum departure how, bool unsynced);
/* Its owner holds it. */
void buffer_confirm(struct state *state, struct entry *entry);
void buffer_end(struct state *state, struct entry *entry);
/* A deferred buffer has its name again. false: out of memory, and it has gone. */
bool buffer_revive(struct state *state, struct entry *entry, const record *info,
		   const uint8_t *handle);

/* That many attachments of a generation, which may not be here. NULL: out of memory. */
struct attachment *buffer_attach(struct state *state, struct session *session, const char *name,
				 uint64_t generation, unsigned int count);
/* `count` fewer; what was attached may go with that. */
void buffer_detach(struct state *state, struct session *session, struct attachment *attachment,
		   unsigned int count);
/* An attachment from a record, to `entry`. */
void buffer_join(const struct session *session, struct attachment *attachment, struct entry *entry);

#endif
