/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EXPLAIN_H
#define GPUSHARE_REGISTRY_EXPLAIN_H
/* The sentences behind a status: the thing, the cause, the next step; nothing of what the peer of `session`
 * may not see. */
#include "registry.h"

/* Returns `status`. */
int explain(reply *answer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Why a name can't be had: E_EXISTS. */
int explain_taken(reply *answer, const struct session *session, const struct entry *entry);
/* It stands for that one, and not for who had `generation`: E_NOT_FOUND. */
int explain_other(reply *answer, const struct registry *registry, const struct session *session,
		  const char *name, uint64_t generation);
/* Why a name isn't there, under the status of the caller's choice. */
int explain_missing(reply *answer, int status, const struct registry *registry,
		    const struct session *session, const char *name);

/* What a name was that has gone; NULL: nothing, or nothing that the peer could see. */
const struct tombstone *explain_tombstone(const struct registry *registry,
					  const struct session *session, const char *name);

#endif
