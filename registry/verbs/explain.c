/* SPDX-License-Identifier: MIT */
/* Error messages: each names the buffer, the cause and the next step. None reveals what the peer
 * may not see. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "os/clock.h"
#include "verbs/call.h"

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

int explain_taken(const struct call *call, const struct entry *entry)
{
	bool is_seen = access_sees(call->session, entry);
	char who[WHO_SIZE];

	describe(entry_owner(entry), who);
	if (!is_seen && entry_is_staged(entry->info.flags) &&
	    entry_owner(entry)->uid == call->session->peer.uid)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is taken by %s, which has not committed it yet; wait, or "
			      "choose another name",
			      call->name, who);
	if (!is_seen)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is taken by another user; choose another name", call->name);
	if (!entry->session)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is kept for uid %u; choose another name", call->name,
			      entry_owner(entry)->uid);
	return refuse(call, GPUSHARE_E_EXISTS,
		      "\"%s\" is taken by %s, uid %u, for %lld s; choose another name or end "
		      "that process",
		      call->name, who, entry_owner(entry)->uid,
		      (long long)(call->state->unix_ns - entry->info.created_unix_ns) / NS_PER_S);
}

static int explain_gone(const struct call *call, int status, const struct tombstone *gone)
{
	static const char *const what[] = {
	    [DEPARTURE_OWNER_GONE] = "exited",
	    [DEPARTURE_WITHDRAWN] = "withdrew it",
	    [DEPARTURE_EXPIRED] = "had it; its ttl ran out",
	    [DEPARTURE_LOST] = "had it; it was lost with the registry, noticed",
	    [DEPARTURE_UNLINKED] = "had it; it was unlinked",
	};
	bool is_alive = gone->how == DEPARTURE_OWNER_GONE && process_runs(&gone->owner);
	char who[WHO_SIZE];

	return refuse(call, status, "\"%s\" is gone: %s %s %lld s ago", call->name,
		      describe(&gone->owner, who),
		      is_alive ? "closed its session" : what[gone->how],
		      seconds_since(gone->when_ns));
}

int explain_missing(const struct call *call, int status)
{
	const struct registry *registry = call->registry;
	const struct entry *entry = call_find(call, 0);
	const struct tombstone *gone = call_find_gone(call);
	char who[WHO_SIZE];

	if (entry && entry->info.missing)
		return refuse(call, status,
			      "\"%s\" was shared before the registry restarted, and nobody has "
			      "brought its memory back yet; %s %s it",
			      call->name, describe(entry_owner(entry), who),
			      entry->session ? "has" : "had");
	if (gone)
		return explain_gone(call, status, gone);
	return refuse(call, status, "no buffer is named \"%s\"; %s", call->name,
		      !registry->state.store.names.root && may_know_all(call)
			  ? "nothing is shared now"
			  : "run 'gpushare ls' to see what is");
}

int explain_other(const struct call *call, uint64_t generation)
{
	const struct entry *entry = call_find(call, 0);

	if (!entry)
		return explain_missing(call, GPUSHARE_E_NOT_FOUND);
	return refuse(call, GPUSHARE_E_NOT_FOUND,
		      "\"%s\" is another buffer now: generation %" PRIu64 ", not %" PRIu64,
		      call->name, entry->info.generation, generation);
}

int explain_rights(const struct call *call, const struct entry *entry, const char *may,
		   const char *cure)
{
	return refuse(call, GPUSHARE_E_DENIED,
		      "\"%s\" belongs to uid %u, its mode is %04o, and uid %u %s; %s", entry->name,
		      entry_owner(entry)->uid, (unsigned int)entry->info.mode,
		      call->session->peer.uid, may, cure);
}

int explain_protocol(reply *answer)
{
	return explain(answer, GPUSHARE_E_PROTOCOL,
		       "this registry (gpushare %s, protocol %d) doesn't understand the request",
		       GPUSHARE_VERSION, GPUSHARE_PROTOCOL);
}
