/* SPDX-License-Identifier: MIT */
/* commit: what was shared staged is there for all who may see it. */
#include "permission.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"

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
	log_line("commit: uid %u pid %d (%s), \"%s\"", session->peer.uid, session->peer.pid,
		 session->peer.command, entry->info.name);
	buffer_commit(&registry->state, entry);
	return GPUSHARE_OK;
}
