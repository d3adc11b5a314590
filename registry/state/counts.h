/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_COUNTS_H
#define GPUSHARE_REGISTRY_COUNTS_H
/* What a registry has answered since it was started, by verb, what it has refused, by status, which of
 * its limits were reached, whom it has shown the door, and what became of audit lines: to all, and, but
 * for the last two, to each user. */
#include "limit.h"
#include "protocol.h"

#define COUNTS_VERBS 32 /* above every gpushare_Request_*_tag; the first counts what is none */
#define COUNTS_STATUSES 32
#define COUNTS_LIMITS (2 * LIMIT_KINDS + 1) /* of all, of one user, and of a message */

/* X(name, why): connections that were closed, or never let in */
#define DROPS(X) \
	X(stranger, "not a user whom this registry serves") \
	X(crowd, "more connections than the limit, and some to hear of it") \
	X(silent, "a connection that did not say hello in time") \
	X(half, "a message that was begun and not ended in time") \
	X(deaf, "a peer that did not read what it was sent in time")

enum drop {
#define X(name, why) DROP_##name,
	DROPS(X)
#undef X
	    DROP_KINDS,
};

/* X(name, what) */
#define AUDITED(X) \
	X(written, "lines that were written") \
	X(left_out, "lines that were left out, as there were too many") \
	X(lost, "lines that could not be written")

enum audited {
#define X(name, what) AUDITED_##name,
	AUDITED(X)
#undef X
	    AUDITED_KINDS,
};

struct counts {
	uint64_t requests; /* with those that wait for their answer */
	uint64_t verbs[COUNTS_VERBS];
	uint64_t statuses[COUNTS_STATUSES];
	uint64_t limits[COUNTS_LIMITS];
	uint64_t drops[DROP_KINDS];
	uint64_t audited[AUDITED_KINDS];
	uint64_t hidden; /* about what is there, of who may not see it */
};

static inline void counts_refused(struct counts *counts, int status)
{
	if (status < 0)
		counts->statuses[-status < COUNTS_STATUSES ? -status : 0]++;
}

static inline void counts_answered(struct counts *counts, pb_size_t verb, int status)
{
	counts->verbs[verb < COUNTS_VERBS ? verb : 0]++;
	counts_refused(counts, status);
}

#endif
