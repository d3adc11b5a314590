/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_SERVER_H
#define GPUSHARE_REGISTRY_SERVER_SERVER_H
/* registry.sock: the listener, which stays open until the process ends, and the work that becomes
 * due. */
#include <nng/nng.h>

#include "context/registry.h"

struct server {
	struct registry *registry;
	nng_stream_listener *listener;
	nng_aio *accepting;
	bool pausing; /* used by the accept callback only: the last accept failed */
	/* used by the main loop only: when to continue with ending sessions */
	int64_t ending_at_ns;

	/* Protects the fields up to `kicked`. If a thread needs the registry's lock, too, it takes
	 * that first. */
	pthread_mutex_t turns;
	struct user *todo;     /* users with connections that are listed for a turn */
	long workers, working; /* threads that may give turns; threads that do so now */
	nng_aio *kick;	       /* runs connections_run() for connections_kick() */
	bool kicked;	       /* `kick` is under way */

	uint32_t last_id; /* protected by the registry's lock */
};

/* Listen at `path`, which must be free. false: it failed, which is logged. */
bool server_open(struct server *server, struct registry *registry, const char *path);
/* Do what is due: end sessions of dead peers, resume parked requests, remove kept buffers whose ttl
 * is over, repeat marks. Returns when to call this again at the latest. If a call is due earlier,
 * registry->wake or watch_open()'s descriptor turns readable. */
int64_t server_tick(struct server *server);

/* Admit one more connection of a user to either socket. When an admitted connection closes, call
 * user_closes() under the lock. false: the caller has to close the connection; the refusal was
 * counted, logged and audited. *out_user is NULL only if memory is out. */
bool server_admit(struct registry *registry, uint32_t uid, int32_t pid, struct user **out_user);
/* Log and audit a refusal. `what`: as the verb of audit_refused(). */
void server_refused(struct registry *registry, uint32_t uid, int32_t pid, const char *what,
		    int status);
/* End a session: free its parked requests, and remove its names and attachments, perhaps in later
 * pieces. The registry's lock must be held. */
void server_end_session(struct server *server, struct session *session);

#endif
