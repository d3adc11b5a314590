/* SPDX-License-Identifier: MIT */
/* commit: what was shared staged is there for all who may see it. */
#include "permission.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "note.h"

/* Those that its owner's process has made meanwhile are told of from now on. */
static void speak(const struct registry *registry, const struct entry *entry)
{
	for (struct lease *lease = registry->leases.by_id; lease; lease = lease->hh.next) {
		struct attachment *attachment =
		    lease_find_attachment(lease, entry->info.name, entry->info.generation);

		if (attachment)
			attachment->quiet = false;
	}
}

int handle_commit(struct registry *registry, struct lease *lease, const request *ask, reply *answer)
{
	const gpushare_Commit *commit = &ask->verb.commit;
	struct entry *entry = permission_find(registry, lease, commit->name);

	if (!entry || entry->info.generation != commit->generation)
		return explain_other(answer, registry, lease, commit->name, commit->generation);
	if (entry->lease != lease)
		return explain(answer, GPUSHARE_E_DENIED,
			       "\"%s\" was not shared through this connection, which alone may "
			       "commit it",
			       commit->name);
	if (!entry_is_staged(entry->info.flags))
		return GPUSHARE_OK;
	entry->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
	log_line("commit: uid %u pid %d (%s), \"%s\"", lease->peer.uid, lease->peer.pid,
		 lease->peer.command, entry->info.name);
	speak(registry, entry);
	note_entry(registry, entry);
	registry_show(registry, entry);
	changes_mark(&registry->changes, entry->info.name);
	events_tell(registry, GPUSHARE_NOTICE_SHARE, entry, lease->peer.pid);
	return GPUSHARE_OK;
}
