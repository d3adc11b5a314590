/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PERMISSION_H
#define GPUSHARE_REGISTRY_PERMISSION_H
/* What state/access.h says of a peer, asked for the registry's buffers and put into sentences. */
#include "registry.h"
#include "state/access.h"

/* Whether the peer is told what all users together have and ask for; else his own alone. */
bool permission_count_all(const struct registry *registry, const struct session *session);

/* What has that name, or is attached under it, for those who may see it; NULL else. */
struct entry *permission_find(const struct registry *registry, const struct session *session,
			      const char *name);
struct entry *permission_find_generation(const struct registry *registry,
					 const struct session *session, const char *name,
					 uint64_t generation);

/* E_DENIED, and who may: `what` is the verb, "unlink". */
int permission_deny_owner(const struct session *session, const struct entry *entry,
			  const char *what, reply *answer);
/* The mode and group that a share asks for, into the record; `group` is the one that it names. E_INVALID,
 * E_NOT_FOUND, E_DENIED: not a mode, no such group, not the sharer's. */
int permission_check_share(const struct session *session, const gpushare_Share *share,
			   const struct identity_group *group, record *info, reply *answer);
/* Whether it may be attached so. *out_read_only: for reading alone. */
int permission_check_attach(const struct session *session, const struct entry *entry,
			    bool read_only, bool *out_read_only, reply *answer);

#endif
