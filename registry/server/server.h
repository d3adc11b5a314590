/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_SERVER_H
#define GPUSHARE_REGISTRY_SERVER_SERVER_H
/* registry.sock: its listener, and what becomes due. It serves until the process ends. */
#include <nng/nng.h>

#include "context/registry.h"

struct server {
	struct registry *registry;
	nng_stream_listener *listener;
	nng_aio *accepting;
	bool pausing; /* the accepting callback's: the last connection could not be accepted */
	int wake;     /* eventfd: the main loop is to look again */
	int watches;  /* readable when a peer has died: os/process.h */
	int64_t ending_at_ns; /* the main loop's: when to go on with sessions that end */

	pthread_mutex_t turns; /* over what follows; taken under the registry's lock, or alone */
	struct user *todo;     /* users with connections that are to have a turn */
	long workers, working; /* threads that give them turns, at most and now */
	nng_aio *kick;	       /* connections_kick() */
	bool kicked;	       /* it is under way */

	uint32_t last_id; /* under the registry's lock */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool server_open(struct server *server, struct registry *registry, const char *path);
/* Do what is due: parked requests, kept names whose time is up, peers that died. Returns when to call it again at
 * the latest; server->wake or ->watches is readable when that should be earlier. */
int64_t server_tick(struct server *server);

/* One more socket of that user, at either door. false: it is to be closed, which is counted, logged and audited.
 * *out_user is NULL only if memory is out. user->sockets falls when it closes, under the lock. */
bool server_admit(struct registry *registry, uint32_t uid, int32_t pid, struct user **out_user);
/* Log and audit that a peer was refused what it wanted: "connect", "descriptors". */
void server_refused(struct registry *registry, uint32_t uid, int32_t pid, const char *what,
		    int status);
/* Under the lock: its parked requests go now, its names and attachments soon. */
void server_end_session(struct server *server, struct session *session);

#endif
