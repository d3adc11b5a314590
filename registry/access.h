/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ACCESS_H
#define GPUSHARE_REGISTRY_ACCESS_H
/*
 * What a peer may do with a buffer: as with a file of the same owner, group and mode. The first of the
 * three that fits the peer decides. What it may neither read nor write does not exist for it.
 */
#include "os/identity.h"
#include "registry.h"

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
unsigned int access_rights(const struct known *info, const struct identity *who);
/* Of the peer of `lease`: also what it is the owner's own process of. */
unsigned int access_of(const struct lease *lease, const struct entry *entry);
bool access_sees(const struct lease *lease, const struct entry *entry);
/* Whether everybody may see and read it: what is in the index of a registry for several users. */
bool access_is_open(const struct known *info);

/* Whether the peer is told what all users together have and ask for; else his own alone. */
bool access_counts_all(const struct registry *registry, const struct lease *lease);

/* What has that name, or is attached under it, for those who may see it; NULL else. */
struct entry *access_find(const struct registry *registry, const struct lease *lease,
			  const char *name);
struct entry *access_find_generation(const struct registry *registry, const struct lease *lease,
				     const char *name, uint64_t generation);

/* E_DENIED, and who may: `what` is the verb, "unlink". */
int access_deny_owner(const struct lease *lease, const struct entry *entry, const char *what,
		      reply *answer);
/* The mode and group that a share asks for, into the record; `group` is the one that it names. E_INVALID,
 * E_NOT_FOUND, E_DENIED: not a mode, no such group, not the sharer's. */
int access_check_share(const struct lease *lease, const gpushare_Share *share,
		       const struct identity_group *group, record *info, reply *answer);
/* Whether it may be attached so. *out_read_only: for reading alone. */
int access_check_attach(const struct lease *lease, const struct entry *entry, bool read_only,
			bool *out_read_only, reply *answer);

#endif
