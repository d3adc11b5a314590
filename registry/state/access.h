/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ACCESS_H
#define GPUSHARE_REGISTRY_ACCESS_H
/*
 * What a peer may do with a buffer: as with a file of the same owner, group and mode. The first of the
 * three that fits the peer decides. What it may neither read nor write does not exist for it.
 */
#include "os/identity.h"
#include "state/entry.h"
#include "state/session.h"

#define ACCESS_MODE 0666u /* the bits there are */
#define ACCESS_MODE_DEFAULT 0600u

enum access_right {
	ACCESS_SEE = 1,
	ACCESS_READ = 2,  /* attach it for reading, look at it */
	ACCESS_WRITE = 4, /* with READ: attach it, publish it */
	ACCESS_OWN = 8,	  /* take its name away, tag it */
};

/* Bits of enum access_right, of what that user owns. */
unsigned int access_grants(uint32_t owner_uid, uint32_t owner_gid, unsigned int mode,
			   const struct identity *who);
unsigned int access_rights(const struct entry *entry, const struct identity *who);
/* Of the peer of `session`: also what it is the owner's own process of. */
unsigned int access_of(const struct session *session, const struct entry *entry);
bool access_sees(const struct session *session, const struct entry *entry);
/* Whether everybody may see and read it: what is in the index of a registry for several users. */
bool access_is_open(const struct entry *entry);

#endif
