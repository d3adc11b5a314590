/* SPDX-License-Identifier: MIT */
/* stat: what there is, and what was asked and refused so far. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "permission.h"
#include "verbs/handlers.h"
#include "quota.h"

_Static_assert(gpushare_Request_commit_tag < COUNTS_VERBS, "each verb is counted");

static const char *backing_name(uint32_t backing)
{
	switch (backing) {
#define X(name, value, text) \
	case value: \
		return text;
		GPUSHARE_BACKINGS(X)
#undef X
	}
	return "unknown";
}

static gpushare_Count *add(gpushare_Count *counts, pb_size_t *count, const char *what)
{
	gpushare_Count *to = &counts[(*count)++];

	snprintf(to->what, sizeof(to->what), "%s", what);
	return to;
}

/* All verbs, so that a counter is there before it counts. */
static void stat_verbs(const struct counts *counts, gpushare_StatReply *to)
{
	for (pb_size_t verb = 0; verb < COUNTS_VERBS; verb++) {
		const char *name = verb ? request_verb(verb) : "unknown";

		if (name)
			add(to->by_verb, &to->by_verb_count, name)->count = counts->verbs[verb];
	}
}

static void stat_statuses(const struct counts *counts, gpushare_StatReply *to)
{
	for (int status = 0; status < COUNTS_STATUSES; status++)
		if (counts->statuses[status])
			add(to->by_status, &to->by_status_count,
			    status ? status_name(-status) : "unknown")
			    ->count = counts->statuses[status];
}

/* Of what the caller may see. */
static void stat_buffers(const struct registry *registry, const struct session *session,
			 gpushare_StatReply *to)
{
	static const uint32_t known[] = {
#define X(name, value, text) value,
	    GPUSHARE_BACKINGS(X)
#undef X
	};
	struct tally_sum named[TALLY_BACKINGS], limbo[TALLY_BACKINGS];

	tally_sums(registry->tallies, session, false, named);
	tally_sums(registry->tallies, session, true, limbo);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		gpushare_Count *count =
		    add(to->by_backing, &to->by_backing_count, backing_name(known[i]));

		count->count = named[known[i]].count;
		count->bytes = named[known[i]].bytes;
		to->names += count->count;
		to->limbo += limbo[known[i]].count;
		to->limbo_bytes += limbo[known[i]].bytes;
	}
}

/* Those are all told of, as the verbs are. */
static void stat_others(const struct counts *counts, gpushare_StatReply *to)
{
	static const char *const drops[] = {
#define X(name, why) #name,
	    DROPS(X)
#undef X
	};
	static const char *const audited[] = {
#define X(name, what) #name,
	    AUDITED(X)
#undef X
	};
	char key[LIMIT_KEY_MAX + 1];

	for (unsigned int i = 0; i < COUNTS_LIMITS; i++) {
		limit_key(i, key);
		add(to->by_limit, &to->by_limit_count, key)->count = counts->limits[i];
	}
	for (int i = 0; i < DROP_KINDS; i++)
		add(to->by_drop, &to->by_drop_count, drops[i])->count = counts->drops[i];
	for (int i = 0; i < AUDITED_KINDS; i++)
		add(to->by_audit, &to->by_audit_count, audited[i])->count = counts->audited[i];
}

int handle_stat(struct registry *registry, struct session *session, const request *ask,
		reply *answer)
{
	bool all = permission_count_all(registry, session);
	const uint64_t *held = all ? registry->users.held : session->user->held;
	const uint64_t *limits = all ? registry->limits.of_all : registry->limits.of_user;
	const struct counts *counts = all ? &registry->counts : &session->user->counts;
	gpushare_StatReply *to = &answer->body.stat;

	(void)ask;
	answer->which_body = gpushare_Reply_stat_tag;
	*to = (gpushare_StatReply){
	    .attachments = held[LIMIT_attachments],
	    .connections = held[LIMIT_connections],
	    .waiters = held[LIMIT_waiters],
	    .requests = counts->requests,
	    .started_unix_ns = registry->started_unix_ns,
	    .kept_bytes = held[LIMIT_kept_bytes],
	    .kept_limit = limits[LIMIT_kept_bytes],
	    .descriptors = all ? registry->fdtable.count : held[LIMIT_descriptors],
	    .hidden = counts->hidden,
	    .version = GPUSHARE_VERSION,
	    .pid = getpid(),
	    .lock_held_max_ns = all ? (uint64_t)registry->held_most_ns : 0,
	};
	stat_verbs(counts, to);
	stat_statuses(counts, to);
	stat_buffers(registry, session, to);
	stat_others(counts, to);
	return GPUSHARE_OK;
}
