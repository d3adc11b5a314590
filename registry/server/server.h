/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_SERVER_H
#define GPUSHARE_REGISTRY_SERVER_SERVER_H
/* registry.sock: its listener, and the work that becomes due. It is open until the process ends. */
#include <nng/nng.h>

#include "context/registry.h"

struct server {
	struct registry *registry;
	nng_stream_listener *listener;
	nng_aio *accepting;
	bool pausing;	      /* for the accept callback only: the last accept failed */
	int64_t ending_at_ns; /* for the main loop only: when to continue with ending sessions */

	/* Protects the fields up to `kicked`. May be locked while the registry's lock is held, but
	 * not the other way round. */
	pthread_mutex_t turns;
	struct user *todo;     /* users with connections that are listed for a turn */
	long workers, working; /* threads that give turns: at most, and now */
	nng_aio *kick;	       /* runs connections_run() for connections_kick() */
	bool kicked;	       /* `kick` is under way */

	uint32_t last_id; /* protected by the registry's lock */
};

/* Listen at `path`, which must be free. false: it failed, which is logged. */
bool server_open(struct server *server, struct registry *registry, const char *path);
/* Do what is due: parked requests, kept names whose ttl is over, peers that died. Returns the
 * latest time of the next call. If a call is due earlier, registry->wake or watch_open()'s
 * descriptor turns readable. */
int64_t server_tick(struct server *server);

/* Admit one more connection of a user to either socket. false: the caller has to close it; the
 * refusal is counted, logged and audited. *out_user is NULL only if memory is out. When an admitted
 * connection closes, call user_closes() under the lock. */
bool server_admit(struct registry *registry, uint32_t uid, int32_t pid, struct user **out_user);
/* Log and audit a refusal. `what` was refused: "connect" or "descriptors". */
void server_refused(struct registry *registry, uint32_t uid, int32_t pid, const char *what,
		    int status);
/* Drop the session's parked requests now; its names and attachments end soon. The registry's lock
 * must be held. */
void server_end_session(struct server *server, struct session *session);

#endif
