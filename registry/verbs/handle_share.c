/* SPDX-License-Identifier: MIT */
/* share: a new name, or what is kept under it, replaced or adopted. */
#include <inttypes.h>
#include <string.h>

#include "permission.h"
#include "verbs/check.h"
#include "os/clock.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "quota.h"

/* What is kept of that name, which the caller may take; NULL: nothing, or not for him. */
static struct entry *find_kept(const struct registry *registry, const struct session *session,
			       const char *name)
{
	struct entry *entry = store_find(&registry->store, name);

	return entry && !entry->session && entry->owner.uid == session->peer.uid ? entry : NULL;
}

/* It may come in place of something, whose bytes go then. */
static int check_kept(struct registry *registry, const struct session *session, const record *info,
		      struct entry *instead, reply *answer)
{
	uint64_t freed = instead ? instead->kept_bytes : 0;
	int status;

	if (!entry_is_kept(info->flags))
		return GPUSHARE_OK;
	if (freed)
		entry_uncount_kept(instead);
	status = limit_check(registry, session->user, LIMIT_kept_bytes, info->base_size, answer);
	if (freed)
		entry_count_kept(instead);
	return status;
}

/* All of it that is limited; `named`: NULL, or what keeps its name and its place, `nameless`: NULL, or what
 * has its tags already. */
static int check_limits(struct registry *registry, const struct session *session,
			const record *info, struct entry *named, const struct entry *nameless,
			reply *answer)
{
	int status = check_kept(registry, session, info, named, answer);

	if (!status && !named)
		status = limit_check(registry, session->user, LIMIT_names, 1, answer);
	return status ? status
		      : limit_check_tags(registry, session->user, named ? named : nameless,
					 info->tags_count, answer);
}

/* Enter what passed the check. */
static int share_entry(struct registry *registry, struct session *session,
		       const gpushare_Share *share, reply *answer, struct entry **out_entry)
{
	const struct entry *taken = store_find(&registry->store, share->buffer.name);
	struct entry *kept = find_kept(registry, session, share->buffer.name);
	int status;

	if (taken && (!kept || entry_is_staged(share->buffer.flags)))
		return explain_taken(answer, session, taken);
	status = check_limits(registry, session, &share->buffer, kept, NULL, answer);
	if (status)
		return status;
	if (!kept)
		*out_entry =
		    buffer_add(&registry->state, session, &share->buffer, share->handle, 0);
	else if (buffer_replace(&registry->state, kept, session, &share->buffer, share->handle))
		*out_entry = kept;
	if (!*out_entry)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	return GPUSHARE_OK;
}

static int share_new(struct registry *registry, struct session *session,
		     const gpushare_Share *share, reply *answer)
{
	struct entry *entry = NULL;
	int status = share_entry(registry, session, share, answer, &entry);

	if (status)
		return status;
	if (backing_is_fd(share->buffer.backing))
		buffer_hold(&registry->state, entry, handle_take(registry));
	answer->which_body = gpushare_Reply_share_tag;
	answer->body.share.generation = entry->info.generation;
	answer->body.share.mode = entry->info.mode;
	answer->body.share.owner_gid = entry->info.owner_gid;
	log_line("share: uid %u pid %d (%s), \"%s\", %" PRIu64 " bytes", session->peer.uid,
		 session->peer.pid, session->peer.command, entry->info.name, entry->info.size);
	return GPUSHARE_OK;
}

static int share_adopt(struct registry *registry, struct session *session,
		       const gpushare_Share *share, struct entry *kept, reply *answer)
{
	gpushare_ShareReply *body = &answer->body.share;
	int status = handle_check_socket(registry, answer);

	if (status)
		return status;
	handle_give(registry, kept->held);
	if (share->mode)
		kept->info.mode = share->mode;
	if (*share->group)
		kept->info.owner_gid = share->buffer.owner_gid;
	buffer_adopt(&registry->state, kept, session, &share->buffer);
	answer->which_body = gpushare_Reply_share_tag;
	body->generation = kept->info.generation;
	body->adopted = body->has_buffer = true;
	registry_tell(registry, session, kept, &body->buffer);
	log_line("adopt: uid %u pid %d (%s), \"%s\", %" PRIu64 " bytes", session->peer.uid,
		 session->peer.pid, session->peer.command, kept->info.name, kept->info.size);
	return GPUSHARE_OK;
}

/* Whether what stands under that name is what is brought back, and may be by this one. */
static int check_standing(const struct session *session, const gpushare_Share *share,
			  const struct entry *entry, reply *answer)
{
	if (entry->info.generation != share->again || entry->owner.uid != session->peer.uid ||
	    (!share->orphan && entry->session && entry->session != session))
		return explain_taken(answer, session, entry);
	if (buffer_is_alike(entry, &share->buffer))
		return GPUSHARE_OK;
	return explain(answer, GPUSHARE_E_INVALID,
		       "\"%s\", generation %" PRIu64 ", has %" PRIu64 " bytes, not %" PRIu64
		       ", or is on another GPU",
		       entry->info.name, share->again, entry->info.size, share->buffer.size);
}

/* What is known to have gone nobody but its owner brings back; and where several users are served, who has
 * it attached has no word in whose it was. */
static bool may_bring_back(const struct registry *registry, const struct session *session,
			   const gpushare_Share *share)
{
	const struct tombstone *tombstone =
	    tombstone_find(&registry->tombstones, share->buffer.name, clock_ns());

	if (registry->is_system && share->again >= registry->generation.next)
		return false; /* it was never given, and would use up the numbers of all */
	if (registry->is_system && tombstone && tombstone->owner.uid != session->peer.uid)
		return false;
	if (!buffer_has_gone(&registry->state, share->buffer.name, share->again))
		return !share->orphan || !registry->is_system;
	if (share->orphan)
		return false;
	return !registry->is_system || tombstone;
}

/* Nothing stands under that name: whether it may be what it was, and did not lose it by an unlink. */
static int check_lost(struct registry *registry, const struct session *session,
		      const gpushare_Share *share, reply *answer)
{
	const struct entry *other = store_find_generation(&registry->store, share->again);
	const struct entry *nameless = store_find_deferred(&registry->store, share->again);

	if ((nameless && (!nameless->unsynced || nameless->session != session)) ||
	    !may_bring_back(registry, session, share))
		return explain_missing(answer, GPUSHARE_E_NOT_FOUND, registry, session,
				       share->buffer.name);
	if (other && other != nameless && !access_sees(session, other))
		return explain(answer, GPUSHARE_E_EXISTS, "generation %" PRIu64 " is not \"%s\"",
			       share->again, share->buffer.name);
	if (other && other != nameless)
		return explain(answer, GPUSHARE_E_EXISTS,
			       "generation %" PRIu64 " is \"%s\", not \"%s\"", share->again,
			       other->info.name, share->buffer.name);
	return check_limits(registry, session, &share->buffer, NULL, nameless, answer);
}

/* Enter or complete what passed the check. NULL: out of memory. */
static struct entry *bring_back(struct registry *registry, struct session *session,
				const gpushare_Share *share, struct entry *entry)
{
	struct entry *nameless = store_find_deferred(&registry->store, share->again);

	if (entry) {
		if (!entry->session && !share->orphan)
			buffer_return(&registry->state, entry, session);
		return entry;
	}
	if (!nameless)
		entry = buffer_add(&registry->state, session, &share->buffer, share->handle,
				   share->again);
	else if (buffer_revive(&registry->state, nameless, &share->buffer, share->handle))
		entry = nameless;
	if (entry && share->orphan)
		buffer_strand(&registry->state, entry, session);
	return entry;
}

/* With the generation that it had before the registry's restart. */
static int share_again(struct registry *registry, struct session *session,
		       const gpushare_Share *share, reply *answer)
{
	struct entry *entry = store_find(&registry->store, share->buffer.name);
	int status = entry ? check_standing(session, share, entry, answer)
			   : check_lost(registry, session, share, answer);

	if (status)
		return status;
	entry = bring_back(registry, session, share, entry);
	if (!entry)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	if (backing_is_fd(share->buffer.backing) && !entry->held)
		buffer_hold(&registry->state, entry, handle_take(registry));
	answer->which_body = gpushare_Reply_share_tag;
	answer->body.share.generation = share->again;
	log_line("again: uid %u pid %d (%s), \"%s\", %" PRIu64 " bytes", session->peer.uid,
		 session->peer.pid, session->peer.command, share->buffer.name, share->buffer.size);
	return GPUSHARE_OK;
}

/* Came to adopt or to hear that there is nothing to adopt. */
static int explain_strange(const gpushare_Share *share, const struct entry *kept, reply *answer)
{
	return explain(answer, GPUSHARE_E_NOT_FOUND,
		       "\"%s\" is kept, but can't be adopted: it has %" PRIu64
		       " bytes, not %" PRIu64 ", or is on another GPU",
		       share->buffer.name, kept->info.size, share->buffer.size);
}

/* A group's name may have to be asked for, which takes its time: not where descriptors come. */
static bool is_for_group(const struct registry *registry, const gpushare_Share *share)
{
	return !registry->passing && *share->group && backing_is_fd(share->buffer.backing);
}

int handle_share(struct registry *registry, struct session *session, const request *ask,
		 reply *answer)
{
	bool with_fd = registry->passing && registry->passing->came;
	bool asks_group = is_for_group(registry, &ask->verb.share);
	gpushare_Share share = ask->verb.share;
	const char *name = share.buffer.name;
	struct entry *kept;
	int status = check_share(&share, with_fd || asks_group, answer);

	if (!status)
		status = permission_check_share(session, &share, &registry->group, &share.buffer,
						answer);
	if (status)
		return status;
	if (asks_group) {
		answer->which_body = gpushare_Reply_share_tag;
		answer->body.share.at_fds = true;
		answer->body.share.owner_gid = share.buffer.owner_gid;
		return HANDLE_ELSEWHERE;
	}
	registry_bury(registry, session, name);
	if (share.again)
		return share_again(registry, session, &share, answer);
	kept = share.adopt ? find_kept(registry, session, name) : NULL;
	if (kept && !kept->info.missing && buffer_is_alike(kept, &share.buffer))
		return share_adopt(registry, session, &share, kept, answer);
	if (!share.adopt || with_fd)
		return share_new(registry, session, &share, answer);
	if (kept && kept->info.missing)
		return explain_missing(answer, GPUSHARE_E_NOT_FOUND, registry, session, name);
	if (kept)
		return explain_strange(&share, kept, answer);
	if (store_find(&registry->store, name))
		return explain_taken(answer, session, store_find(&registry->store, name));
	return explain_missing(answer, GPUSHARE_E_NOT_FOUND, registry, session, name);
}
