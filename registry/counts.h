/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_COUNTS_H
#define GPUSHARE_REGISTRY_COUNTS_H
/* What a registry has answered since it was started, by verb, and what it has refused, by status. */
#include "protocol.h"

#define COUNTS_VERBS 32 /* above every gpushare_Request_*_tag; the first counts what is none */
#define COUNTS_STATUSES 32

struct counts {
	uint64_t verbs[COUNTS_VERBS];
	uint64_t statuses[COUNTS_STATUSES];
};

static inline void counts_answered(struct counts *counts, pb_size_t verb, int status)
{
	counts->verbs[verb < COUNTS_VERBS ? verb : 0]++;
	if (status < 0)
		counts->statuses[-status < COUNTS_STATUSES ? -status : 0]++;
}

#endif
