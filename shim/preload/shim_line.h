/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINE_H
#define GPUSHARE_SHIM_LINE_H
/* The shim's one connection to the registry. The turn is the lock of that connection, held from
 * line_enter() to line_leave(). After a transport failure the shim sends no request for a while. */
#include "core/buffer/resync.h"

struct line {
	struct client *client;
	int64_t until_ms; /* this turn's deadline */
};

extern struct line line; /* only for the thread that has the turn */

/* Wait for the turn. The wait and the calls of the turn share one deadline. E_TIMED_OUT,
 * E_NO_REGISTRY, E_NO_MEMORY: the caller has no turn, and `why` says the reason. */
int line_enter(char *why, size_t why_size);
/* The same, with `until_ms` as the latest deadline. */
int line_enter_by(int64_t until_ms, char *why, size_t why_size);
/*
 * Take the turn without waiting, if a connection is established. Call it only if this process has
 * sent a request before, such as a share: `line.client` must exist. Any status but GPUSHARE_OK
 * means no turn. E_TIMED_OUT: another thread has the turn, or a registry listens but may be stopped
 * (SIGSTOP). E_NO_REGISTRY, E_NOT_READY: see client_probe(). *out_runs is true if another registry
 * runs, to which line_enter() would connect.
 */
int line_enter_standing(bool *out_runs);
/* End the turn. Then, outside any turn, share again the buffers that the registry has asked for. */
void line_leave(void);

/* Call both in a turn. line_ask() returns a zeroed request to fill in. line_call() sends it and
 * waits for the answer, for the rest of the turn. */
request *line_ask(pb_size_t verb);
int line_call(char *why, size_t why_size);
/* line_call() for a withdraw or a detach. Even if the turn has no time left, the request gets a
 * quarter of the time limit. A registry is started for it only if the previous one left its
 * records. */
int line_give_back(char *why, size_t why_size);
/* Call it in a turn (from line_enter() to line_leave()): client_fetch_changes(), which gets the
 * rest of the turn's time. Does nothing if no time is left. */
void line_fetch_changes(void);
/* Did the latest failed call get no answer in time? If so, the registry may have received the
 * request. Needs no turn. */
bool line_is_unanswered(void);
/* Get the number of the established connection, as in client->connections; 0: there is none. Call
 * it only if this process has sent a request before. Needs no turn and doesn't wait. Return false
 * if a thread has the turn: then the number is unknown. */
bool line_standing(unsigned int *out_connection);

/* shim_resync.c: what the preload reports to a restarted registry and shares again.
 * shim_resync_share() shares again what the registry asked for, until `until_ms`. errno, context
 * and capture stay unchanged. */
extern const struct resync_calls shim_resync_calls;
void shim_resync_share(int64_t until_ms);

#endif
