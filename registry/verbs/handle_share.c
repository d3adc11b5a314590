/* SPDX-License-Identifier: MIT */
/* share: enters a new name, or replaces, adopts or brings back a buffer. commit: makes a staged
 * name visible. */
#include <inttypes.h>
#include <string.h>

#include "verbs/call.h"

/* A Share, and what the registry has under its name. */
struct sharing {
	gpushare_Share share; /* with mode and group filled in */
	bool with_fd;
	struct entry *entry;	/* has the name; NULL: the name is free */
	struct entry *nameless; /* the nameless record of generation `again`, or NULL */
	bool is_kept;		/* `entry` is a kept buffer of this user without an owner */
	bool adopts;		/* the Share adopts `entry` */
	struct entry *whole;	/* the Share names a part of this buffer; NULL: of none */
};

/* Complete the Share of a part from the buffer that contains the part. The part is not staged. */
static int take_whole(const struct call *call, struct sharing *sharing)
{
	gpushare_Share *share = &sharing->share;
	record *part = &share->buffer, own = *part;
	struct entry *whole = store_find_generation(&call->state->store, share->part_of);

	if (!whole || whole->session != call->session || !whole->fdref)
		return refuse(
		    call, GPUSHARE_E_NOT_FOUND,
		    "\"%s\" can't be a part of generation %" PRIu64
		    ", which is not a vmm buffer of this connection; share that buffer first",
		    call->name, share->part_of);
	if (!strcmp(call->name, whole->name)) /* the part would replace the whole */
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is the name of the whole buffer; a part needs another",
			      call->name);
	if (!span_fits(own.base_offset, own.size, whole->info.size))
		return refuse(call, GPUSHARE_E_RANGE,
			      "\"%s\" reaches past the end of \"%s\", which has %" PRIu64 " bytes",
			      call->name, whole->name, whole->info.size);
	entry_describe(whole, part);
	memcpy(part->name, own.name, sizeof(part->name));
	memcpy(part->tags, own.tags, sizeof(part->tags));
	part->tags_count = own.tags_count;
	part->size = own.size;
	part->address += own.base_offset;
	part->base_offset += own.base_offset;
	part->flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
	sharing->whole = whole;
	sharing->with_fd = true;
	share->mode = whole->info.mode;
	share->group[0] = '\0';
	return GPUSHARE_OK;
}

static int check_limits(const struct call *call, const struct sharing *sharing)
{
	const record *info = &sharing->share.buffer;
	const struct entry *kept = sharing->entry;
	struct user *user = call->session->user;
	uint64_t size = entry_is_kept(info->flags) ? held_bytes(info->size, info->base_size) : 0;
	uint64_t freed = kept ? entry_kept_bytes(kept) : 0;
	int status = GPUSHARE_OK;

	if (size > freed)
		status = check_limit(call, user, LIMIT_kept_bytes, size - freed);
	if (!status && !kept)
		status = check_limit(call, user, LIMIT_names, 1);
	return status
		   ? status
		   : check_tag_limit(call, user, kept ? kept : sharing->nameless, info->tags_count);
}

/* The buffer to adopt or to bring back differs from what the Share says. */
static int explain_unlike(const struct call *call, const struct sharing *sharing, int status)
{
	const struct entry *entry = sharing->entry;

	return refuse(call, status,
		      "\"%s\", generation %" PRIu64 ", has %" PRIu64 " bytes, not %" PRIu64
		      ", or is on another GPU",
		      call->name, entry->info.generation, entry->info.size,
		      sharing->share.buffer.size);
}

/* Check that the name's buffer is the one to bring back, and that this peer may do that. */
static int check_standing(const struct call *call, const struct sharing *sharing)
{
	const gpushare_Share *share = &sharing->share;
	const struct entry *entry = sharing->entry;
	const struct session *session = call->session;

	if (entry->info.generation != share->again ||
	    entry_owner(entry)->uid != session->peer.uid ||
	    (!share->orphan && entry->session && entry->session != session))
		return explain_taken(call, entry);
	if (buffer_is_alike(entry, &share->buffer))
		return GPUSHARE_OK;
	return explain_unlike(call, sharing, GPUSHARE_E_INVALID);
}

/* If the buffer is known to be gone, only its owner may bring it back. With --system, three more
 * rules apply. Only the buffer's tombstone proves who the owner is. Attachers can't bring back an
 * ownerless buffer. Nobody can claim a generation that was never assigned. */
static bool may_bring_back(const struct call *call, const gpushare_Share *share)
{
	const struct registry *registry = call->registry;
	const struct tombstone *gone = tombstone_find(&registry->state, call->name);

	if (registry->is_system && (share->again >= registry->state.generation ||
				    (gone && gone->owner.uid != call->session->peer.uid)))
		return false;
	if (!buffer_has_gone(call->state, call->name, share->again))
		return !share->orphan || !registry->is_system;
	return !share->orphan && (!registry->is_system || gone);
}

/* The name is free. Check whether the buffer may have it again. After an unlink it may not. */
static int check_lost(const struct call *call, const struct sharing *sharing)
{
	const struct entry *nameless = sharing->nameless, *other;
	uint64_t again = sharing->share.again;

	if ((nameless && (!nameless->info.unsynced || nameless->session != call->session)) ||
	    !may_bring_back(call, &sharing->share))
		return explain_missing(call, GPUSHARE_E_NOT_FOUND);
	other = store_find_generation(&call->state->store, again);
	if (other && other != nameless)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "the buffer with generation %" PRIu64 " is not \"%s\"", again,
			      call->name);
	return check_limits(call, sharing);
}

/* Explain an `adopt` without a descriptor that finds no buffer to adopt. */
static int explain_unadoptable(const struct call *call, const struct sharing *sharing)
{
	const struct entry *entry = sharing->entry;

	if (!entry || (sharing->is_kept && entry->info.missing))
		return explain_missing(call, GPUSHARE_E_NOT_FOUND);
	if (!sharing->is_kept)
		return explain_taken(call, entry);
	return explain_unlike(call, sharing, GPUSHARE_E_NOT_FOUND);
}

static int check_sharing(const struct call *call, const struct sharing *sharing)
{
	const gpushare_Share *share = &sharing->share;

	if (share->again)
		return sharing->entry ? check_standing(call, sharing) : check_lost(call, sharing);
	if (sharing->adopts)
		return check_socket(call);
	if (share->adopt && !sharing->with_fd)
		return explain_unadoptable(call, sharing);
	if (sharing->entry && (!sharing->is_kept || entry_is_staged(share->buffer.flags)))
		return explain_taken(call, sharing->entry);
	return check_limits(call, sharing);
}

static struct entry *adopt(const struct call *call, const struct sharing *sharing)
{
	gpushare_ShareReply *body = &call->answer->body.share;
	const gpushare_Share *share = &sharing->share;
	struct entry *entry = sharing->entry;

	call_give(call, entry->fdref);
	if (share->mode)
		entry->info.mode = share->mode;
	if (*share->group)
		entry->info.owner_gid = share->buffer.owner_gid;
	buffer_return(call->state, entry, call->session, share->buffer.flags, share->buffer.ttl_s);
	body->adopted = body->has_buffer = true;
	registry_describe(call->registry, call->session, entry, &body->buffer);
	return entry;
}

/* Give the free name a record: a new one, or the nameless one. NULL: out of memory. */
static struct entry *enter(const struct call *call, const struct sharing *sharing)
{
	const gpushare_Share *share = &sharing->share;
	struct entry *entry = buffer_add(call->state, call->session, &share->buffer, share->handle,
					 share->again, sharing->nameless);

	if (entry && share->orphan) /* an attacher brings it back: its owner is gone */
		buffer_orphan(call->state, entry, &call->session->user->nobody);
	return entry;
}

/* Carry out a checked Share. Returns the buffer's record. NULL: out of memory. */
static struct entry *carry_out(const struct call *call, const struct sharing *sharing)
{
	const gpushare_Share *share = &sharing->share;
	struct entry *entry = sharing->entry;

	if (!entry)
		return enter(call, sharing);
	if (sharing->adopts)
		return adopt(call, sharing);
	if (!share->again)
		return buffer_add(call->state, call->session, &share->buffer, share->handle, 0,
				  entry);
	if (!entry->session && !share->orphan)
		buffer_return(call->state, entry, call->session, entry->info.flags,
			      entry->info.ttl_s);
	return entry;
}

/* Whether the owner's process has ended, and the registry hasn't noticed. If it is the peer's own
 * process after exec(), the old program counts as ended. */
static bool has_ended(const struct session *owner, const struct process *peer)
{
	return owner &&
	       (watch_ended(owner->watch) || (process_is_same(&owner->peer, peer) &&
					      process_is_other_program(&owner->peer, peer)));
}

static void find(const struct call *call, struct sharing *sharing)
{
	const gpushare_Share *share = &sharing->share;
	struct entry *entry = store_find(&call->state->store, call->name);

	if (entry && has_ended(entry->session, &call->session->peer)) {
		buffer_part(call->state, entry, DEPARTURE_OWNER_GONE);
		entry = store_find(&call->state->store, call->name);
	}
	sharing->entry = entry;
	sharing->is_kept =
	    entry && !entry->session && entry_owner(entry)->uid == call->session->peer.uid;
	sharing->adopts = share->adopt && sharing->is_kept && !entry->info.missing &&
			  buffer_is_alike(entry, &share->buffer);
	sharing->nameless =
	    share->again ? store_find_deferred(&call->state->store, share->again) : NULL;
}

int handle_share(struct call *call)
{
	struct registry *registry = call->registry;
	struct sharing sharing = {.share = call->ask->verb.share,
				  .with_fd = registry->passing && registry->passing->came};
	const gpushare_Share *share = &sharing.share;
	gpushare_ShareReply *body = &call->answer->body.share;
	/* Looking up a group's name may take long, so only registry.sock does it. The client then
	 * sends the Share to fds.sock, with the group's number. */
	bool asks_group = !registry->passing && *share->group &&
			  backing_is_fd(share->buffer.backing) && !share->part_of;
	int status = share->part_of ? take_whole(call, &sharing) : GPUSHARE_OK;
	struct entry *entry;

	if (!status)
		status = check_share(call, &sharing.share, sharing.with_fd || asks_group);
	if (status)
		return status;
	if (sharing.whole)
		sharing.share.buffer.owner_gid = sharing.whole->info.owner_gid;
	body->owner_gid = share->buffer.owner_gid;
	body->at_fds = asks_group;
	if (asks_group)
		return HANDLE_ELSEWHERE;
	find(call, &sharing);
	status = check_sharing(call, &sharing);
	if (status)
		return status;
	entry = carry_out(call, &sharing);
	if (!entry)
		return GPUSHARE_E_NO_MEMORY;
	if (sharing.whole)
		buffer_hold_part(call->state, entry, sharing.whole);
	else if (backing_is_fd(entry->info.backing) && !entry->fdref)
		buffer_hold(call->state, entry, call_take(call));
	body->generation = entry->info.generation;
	body->mode = entry->info.mode;
	body->owner_gid = entry->info.owner_gid;
	call_log(call, "share", "\"%s\", generation %" PRIu64 ", %" PRIu64 " bytes", call->name,
		 entry->info.generation, entry->info.size);
	return GPUSHARE_OK;
}

int handle_commit(struct call *call)
{
	uint64_t generation = call->ask->verb.commit.generation;
	struct entry *entry = call_find(call, 0);

	if (!entry || entry->info.generation != generation)
		return explain_other(call, generation);
	if (entry->session != call->session)
		return refuse(call, GPUSHARE_E_DENIED,
			      "\"%s\" was shared through another connection; only that one may "
			      "commit it",
			      call->name);
	if (!entry_is_staged(entry->info.flags))
		return GPUSHARE_OK;
	call_log(call, "commit", "\"%s\"", call->name);
	buffer_commit(call->state, entry);
	return GPUSHARE_OK;
}
