/* SPDX-License-Identifier: MIT */
/* commit: what was shared staged is there for all who may see it. */
#include "permission.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "save.h"

/* Those that its owner's process has made meanwhile are told of from now on. */
static void speak(const struct registry *registry, const struct entry *entry)
{
	for (struct session *session = registry->sessions.by_id; session;
	     session = session->hh.next) {
		struct attachment *attachment =
		    session_find_attachment(session, entry->info.name, entry->info.generation);

		if (attachment)
			attachment->quiet = false;
	}
}

int handle_commit(struct registry *registry, struct session *session, const request *ask,
		  reply *answer)
{
	const gpushare_Commit *commit = &ask->verb.commit;
	struct entry *entry = permission_find(registry, session, commit->name);

	if (!entry || entry->info.generation != commit->generation)
		return explain_other(answer, registry, session, commit->name, commit->generation);
	if (entry->session != session)
		return explain(answer, GPUSHARE_E_DENIED,
			       "\"%s\" was not shared through this connection, which alone may "
			       "commit it",
			       commit->name);
	if (!entry_is_staged(entry->info.flags))
		return GPUSHARE_OK;
	entry->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
	log_line("commit: uid %u pid %d (%s), \"%s\"", session->peer.uid, session->peer.pid,
		 session->peer.command, entry->info.name);
	speak(registry, entry);
	save_entry(registry, entry);
	registry_show(registry, entry);
	changes_mark(&registry->changes, entry->info.name);
	events_tell(registry, GPUSHARE_NOTICE_SHARE, entry, session->peer.pid);
	return GPUSHARE_OK;
}
