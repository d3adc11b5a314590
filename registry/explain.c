/* SPDX-License-Identifier: MIT */
#include "explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "permission.h"
#include "os/clock.h"

#define WHO_SIZE (sizeof("pid 2147483647 ()") + GPUSHARE_COMMAND_MAX)

int explain(reply *answer, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->message, sizeof(answer->message), format, arguments);
	va_end(arguments);
	return status;
}

static const char *describe(const struct process *process, char who[WHO_SIZE])
{
	if (process->pid <= 0)
		snprintf(who, WHO_SIZE, "a process that is not visible here");
	else if (*process->command)
		snprintf(who, WHO_SIZE, "pid %d (%s)", process->pid, process->command);
	else
		snprintf(who, WHO_SIZE, "pid %d", process->pid);
	return who;
}

static long long seconds_since(int64_t when_ns)
{
	return (clock_ns() - when_ns) / NS_PER_S;
}

int explain_taken(reply *answer, const struct session *session, const struct entry *entry)
{
	char who[WHO_SIZE];

	if (entry_is_staged(entry->info.flags) && entry->owner.uid == session->peer.uid &&
	    !access_sees(session, entry))
		return explain(answer, GPUSHARE_E_EXISTS,
			       "\"%s\" is taken by %s, which has not shown it so far; wait, or "
			       "choose another name",
			       entry->info.name, describe(&entry->owner, who));
	if (!access_sees(session, entry))
		return explain(answer, GPUSHARE_E_EXISTS,
			       "\"%s\" is taken by another user; choose another name",
			       entry->info.name);

	if (!entry->session) /* another user's: his own would be replaced */
		return explain(answer, GPUSHARE_E_EXISTS,
			       "\"%s\" is kept for uid %u; choose another name", entry->info.name,
			       entry->owner.uid);
	return explain(
	    answer, GPUSHARE_E_EXISTS,
	    "\"%s\" is taken by %s, uid %u, since %lld s; choose another name or end that "
	    "process",
	    entry->info.name, describe(&entry->owner, who), entry->owner.uid,
	    seconds_since(entry->created_ns));
}

static int explain_gone(reply *answer, int status, const struct tombstone *tombstone)
{
	long long ago_s = seconds_since(tombstone->when_ns);
	char who[WHO_SIZE];
	const char *what;

	describe(&tombstone->owner, who);
	if (tombstone->how == DEPARTURE_UNLINKED)
		return explain(answer, status,
			       "\"%s\" is gone: it was unlinked %lld s ago; %s had it",
			       tombstone->name, ago_s, who);
	if (tombstone->how == DEPARTURE_EXPIRED)
		return explain(answer, status,
			       "\"%s\" is gone: it was kept after %s had gone, until its ttl ran "
			       "out %lld s ago",
			       tombstone->name, who, ago_s);
	if (tombstone->how == DEPARTURE_LOST)
		return explain(answer, status,
			       "\"%s\" is gone: it was lost with the registry, which was started "
			       "anew %lld s ago or before; %s had it",
			       tombstone->name, ago_s, who);
	if (tombstone->how == DEPARTURE_WITHDRAWN)
		what = "withdrew it";
	else
		what = process_runs(&tombstone->owner) ? "closed its session" : "exited";
	return explain(answer, status, "\"%s\" is gone: %s %s %lld s ago", tombstone->name, who,
		       what, ago_s);
}

/* It is there, but what it stands for is not. */
static int explain_absent(reply *answer, int status, const struct entry *entry)
{
	char who[WHO_SIZE];

	return explain(answer, status,
		       "\"%s\" is of before the registry's restart, and nobody has brought its "
		       "memory back so far; %s %s it",
		       entry->info.name, describe(&entry->owner, who),
		       entry->session ? "has" : "had");
}

const struct tombstone *explain_tombstone(const struct registry *registry,
					  const struct session *session, const char *name)
{
	const struct tombstone *found = tombstone_find(&registry->tombstones, name, clock_ns());
	struct known info;

	if (!found || (found->staged && !process_is_same(&found->owner, &session->peer)))
		return NULL;
	info.owner_uid = found->owner.uid;
	info.owner_gid = found->gid;
	info.mode = found->mode;
	return access_rights(&info, &session->who) & ACCESS_SEE ? found : NULL;
}

int explain_missing(reply *answer, int status, const struct registry *registry,
		    const struct session *session, const char *name)
{
	const struct entry *entry = permission_find(registry, session, name);
	const struct tombstone *tombstone = explain_tombstone(registry, session, name);

	if (entry && entry->info.missing)
		return explain_absent(answer, status, entry);
	if (tombstone)
		return explain_gone(answer, status, tombstone);
	if (!registry->store.count && permission_count_all(registry, session))
		return explain(answer, status, "no buffer is named \"%s\"; nothing is shared now",
			       name);
	return explain(answer, status,
		       "no buffer is named \"%s\"; run 'gpushare ls' to see what is", name);
}

int explain_other(reply *answer, const struct registry *registry, const struct session *session,
		  const char *name, uint64_t generation)
{
	const struct entry *entry = permission_find(registry, session, name);

	if (!entry)
		return explain_missing(answer, GPUSHARE_E_NOT_FOUND, registry, session, name);
	return explain(answer, GPUSHARE_E_NOT_FOUND,
		       "\"%s\" is another buffer now: generation %" PRIu64 ", not %" PRIu64,
		       entry->info.name, entry->info.generation, generation);
}
