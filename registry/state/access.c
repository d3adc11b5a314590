/* SPDX-License-Identifier: MIT */
#include "state/access.h"

#define ALL (ACCESS_SEE | ACCESS_READ | ACCESS_WRITE | ACCESS_OWN)

unsigned int access_grants(uint32_t owner_uid, uint32_t owner_gid, unsigned int mode,
			   const struct identity *who)
{
	unsigned int bits = mode, rights = 0;

	if (who->uid == 0)
		return ALL;
	if (who->uid == owner_uid) {
		rights = ACCESS_SEE | ACCESS_OWN;
		bits >>= 6;
	} else if (identity_is_in(who, owner_gid)) {
		bits >>= 3;
	}
	if (bits & 4)
		rights |= ACCESS_SEE | ACCESS_READ;
	if (bits & 2)
		rights |= ACCESS_SEE | ACCESS_WRITE;
	return rights;
}

unsigned int access_of(const struct session *session, const struct entry *entry)
{
	if (entry->session && entry->session->ending && !entry_stays(entry->info.flags))
		return 0;
	if (entry->session == session || (session->peer.uid == entry_owner(entry)->uid &&
					  process_is_same(&session->peer, entry_owner(entry))))
		return ALL;
	if (entry_is_staged(entry->info.flags))
		return 0;
	return access_rights(entry, &session->who);
}

unsigned int access_rights(const struct entry *entry, const struct identity *who)
{
	return access_grants(entry_owner(entry)->uid, entry->info.owner_gid, entry->info.mode, who);
}

bool access_sees(const struct session *session, const struct entry *entry)
{
	return access_of(session, entry) & ACCESS_SEE;
}
