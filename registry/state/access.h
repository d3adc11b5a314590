/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ACCESS_H
#define GPUSHARE_REGISTRY_ACCESS_H
/*
 * A peer's rights to a buffer. As with a file, the mode's bits for the owner, the group or all
 * others apply, whichever fits the peer first. A buffer that the peer may neither read nor write
 * does not exist for it.
 */
#include "os/process.h"
#include "state/entry.h"
#include "state/session.h"

#define ACCESS_MODE 0666u /* all valid bits */
#define ACCESS_MODE_DEFAULT 0600u

enum access_right {
	ACCESS_SEE = 1,
	ACCESS_READ = 2,  /* attach it for reading, look at it */
	ACCESS_WRITE = 4, /* with READ: attach it, publish it */
	ACCESS_OWN = 8,	  /* withdraw or unlink it, tag it */
};

/* The rights (bits of enum access_right) of `who` to a buffer with that owner, group and mode. */
unsigned int access_grants(uint32_t owner_uid, uint32_t owner_gid, unsigned int mode,
			   const struct identity *who);
/* The same for a buffer, by its owner, group and mode alone. */
unsigned int access_rights(const struct entry *entry, const struct identity *who);
/*
 * The rights of the session's peer. The owner's process has all rights. Other processes have none
 * to a staged buffer. Nobody has rights to a buffer that is being removed with its ending session.
 */
unsigned int access_of(const struct session *session, const struct entry *entry);
bool access_sees(const struct session *session, const struct entry *entry);

#endif
