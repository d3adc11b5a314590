/* SPDX-License-Identifier: MIT */
/* stat: sums, and counters of requests and refusals. */
#include <stdio.h>
#include <unistd.h>

#include "verbs/call.h"

static gpushare_Count *add(gpushare_Count *counts, pb_size_t *count, const char *what,
			   uint64_t value)
{
	gpushare_Count *to = &counts[(*count)++];

	snprintf(to->what, sizeof(to->what), "%s", what);
	to->count = value;
	return to;
}

#define ADD(to, list, what, value) add((to)->list, &(to)->list##_count, what, value)

/* List every verb, limit, drop and audit outcome, even with a count of 0. List statuses only if
 * they occurred. */
static void stat_counts(const struct account *counts, gpushare_StatReply *to)
{
	for (pb_size_t verb = 0; verb < COUNTS_VERBS; verb++) {
		const char *name = verb ? request_verb(verb) : "unknown";

		if (name)
			ADD(to, by_verb, name, counts->verbs[verb]);
	}
	for (int status = 1; status < COUNTS_STATUSES; status++) {
		if (counts->statuses[status])
			ADD(to, by_status, status_name(-status), counts->statuses[status]);
	}
	for (unsigned int i = 0; i < COUNTS_LIMITS; i++)
		ADD(to, by_limit, limit_keys[i], counts->limits[i]);
#define X(name, why) ADD(to, by_drop, #name, counts->drops[DROP_##name]);
	DROPS(X)
#undef X
#define X(name, what) ADD(to, by_audit, #name, counts->audited[AUDITED_##name]);
	AUDITED(X)
#undef X
}

static void stat_backing(const struct account *counts, uint32_t backing, const char *name,
			 gpushare_StatReply *to)
{
	const struct buffers *named = &counts->named[backing];
	const struct buffers *deferred = &counts->deferred[backing];

	ADD(to, by_backing, name, named->count)->bytes = named->bytes;
	to->names += named->count;
	to->deferred += deferred->count;
	to->deferred_bytes += deferred->bytes;
}

int handle_stat(struct call *call)
{
	const struct registry *registry = call->registry;
	const struct users *users = &call->state->users;
	bool all = may_know_all(call);
	const struct account *counts = all ? &users->total : &call->session->user->own;
	const uint64_t *held = counts->held;
	gpushare_StatReply *to = &call->answer->body.stat;

	*to = (gpushare_StatReply){
	    .attachments = held[LIMIT_attachments],
	    .connections = held[LIMIT_connections],
	    .waiters = held[LIMIT_waiters],
	    .requests = counts->requests,
	    .started_unix_ns = registry->started_unix_ns,
	    .kept_bytes = held[LIMIT_kept_bytes],
	    .kept_limit = (all ? users->limits.of_all : users->limits.of_user)[LIMIT_kept_bytes],
	    .descriptors = all ? users->fds : held[LIMIT_descriptors],
	    .hidden = counts->hidden,
	    .version = GPUSHARE_VERSION,
	    .pid = getpid(),
	    .lock_held_max_ns = all ? (uint64_t)registry->held_most_ns : 0,
	};
	stat_counts(counts, to);
#define X(name, value, text) stat_backing(counts, value, text, to);
	GPUSHARE_BACKINGS(X)
#undef X
	return GPUSHARE_OK;
}
