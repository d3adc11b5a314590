/* SPDX-License-Identifier: MIT */
#include "permission.h"

#include <string.h>
#include <unistd.h>

#include "explain.h"

bool permission_count_all(const struct registry *registry, const struct session *session)
{
	return !registry->is_system || !session->peer.uid || session->peer.uid == geteuid();
}

static struct entry *if_seen(const struct session *session, struct entry *entry)
{
	return entry && access_sees(session, entry) ? entry : NULL;
}

struct entry *permission_find(const struct registry *registry, const struct session *session,
			      const char *name)
{
	return if_seen(session, store_find(&registry->store, name));
}

struct entry *permission_find_generation(const struct registry *registry,
					 const struct session *session, const char *name,
					 uint64_t generation)
{
	return if_seen(session, buffer_find(&registry->state, name, generation));
}

int permission_deny_owner(const struct session *session, const struct entry *entry,
			  const char *what, reply *answer)
{
	return explain(answer, GPUSHARE_E_DENIED,
		       "\"%s\" belongs to uid %u, who alone, or root, may %s it; this is uid %u",
		       entry->info.name, entry->owner.uid, what, session->peer.uid);
}

static int check_group(const struct session *session, const gpushare_Share *share,
		       const struct identity_group *group, record *info, reply *answer)
{
	const char *name = share->buffer.name;

	if (strcmp(group->name, share->group) != 0 || group->status == GPUSHARE_E_IO)
		return explain(answer, GPUSHARE_E_IO,
			       "\"%s\": the group '%s' can't be looked up on this host now; try "
			       "again, or give its number",
			       name, share->group);
	if (group->status)
		return explain(answer, GPUSHARE_E_NOT_FOUND,
			       "\"%s\": there is no group '%s' where the registry runs; 'getent "
			       "group' lists those that there are",
			       name, share->group);
	if (session->peer.uid && !identity_is_in(&session->who, group->gid))
		return explain(
		    answer, GPUSHARE_E_DENIED,
		    "\"%s\": this process of uid %u is not in the group '%s'%s; name "
		    "one that 'id' shows",
		    name, session->peer.uid, share->group,
		    session->who.count ? "" : ", or its groups are not visible to the registry");
	info->owner_gid = group->gid;
	return GPUSHARE_OK;
}

int permission_check_share(const struct session *session, const gpushare_Share *share,
			   const struct identity_group *group, record *info, reply *answer)
{
	if (share->mode & ~ACCESS_MODE)
		return explain(answer, GPUSHARE_E_INVALID,
			       "\"%s\": mode %04o is none; it is made of read and write bits, as "
			       "0600, 0640 or 0666",
			       share->buffer.name, (unsigned int)share->mode);
	info->mode = share->mode ? share->mode : ACCESS_MODE_DEFAULT;
	info->owner_gid = session->who.gid;
	return *share->group ? check_group(session, share, group, info, answer) : GPUSHARE_OK;
}

static int deny(const struct session *session, const struct entry *entry, const char *may,
		const char *cure, reply *answer)
{
	return explain(answer, GPUSHARE_E_DENIED,
		       "\"%s\" belongs to uid %u, its mode is %04o, and uid %u %s; %s",
		       entry->info.name, entry->owner.uid, (unsigned int)entry->info.mode,
		       session->peer.uid, may, cure);
}

int permission_check_attach(const struct session *session, const struct entry *entry,
			    bool read_only, bool *out_read_only, reply *answer)
{
	unsigned int rights = access_of(session, entry);
	bool for_all = entry->info.flags & GPUSHARE_FLAG_READONLY;

	if (!(rights & ACCESS_READ))
		return deny(session, entry, "may not read it",
			    "its owner can share it with another mode", answer);
	if (!(rights & ACCESS_WRITE) && entry->info.backing == GPUSHARE_BACKING_EVENT)
		return deny(session, entry, "may not write it",
			    "an event that is opened can be recorded as well: its owner can share "
			    "it with another mode",
			    answer);
	if (!(rights & ACCESS_WRITE) && !backing_is_fd(entry->info.backing))
		return deny(
		    session, entry, "may read it alone",
		    "as cudaMalloc memory, which it is, can't be attached so, its owner can "
		    "share it as vmm memory, or with another mode",
		    answer);
	if (!(rights & ACCESS_WRITE) && !read_only && !for_all)
		return deny(session, entry, "may read it alone", "attach it read-only", answer);
	*out_read_only = read_only || !(rights & ACCESS_WRITE);
	return GPUSHARE_OK;
}
