/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CALL_H
#define GPUSHARE_REGISTRY_CALL_H
/* Shared by the handlers: the request being handled, its checks, and the error messages. */
#include "os/log.h"
#include "state/session.h"
#include "verbs/handlers.h"

struct call {
	struct registry *registry;
	struct state *state; /* &registry->state */
	struct session *session;
	const request *ask;
	const char *name;		    /* request_name(ask) */
	const struct identity_group *group; /* the group that a Share names */
	reply *answer;
	bool again; /* the request has waited, or is done in part */
};

/* One handler for each verb. It returns a status or HANDLE_*. If that is OK or HANDLE_ELSEWHERE,
 * the caller selects the answer's body. A handler may return E_NO_MEMORY without a message: the
 * caller adds one. */
#define X(verb) int handle_##verb(struct call *call);
REQUEST_VERBS(X)
#undef X

/* Put an error message into the answer. Evaluates to the status. */
#define refuse(call, ...) explain((call)->answer, __VA_ARGS__)
/* Log what the peer did. */
#define call_log(call, what, format, ...) \
	log_line("%s: uid %u pid %d (%s), " format, what, (call)->session->peer.uid, \
		 (call)->session->peer.pid, (call)->session->peer.command, __VA_ARGS__)

/* Take the descriptor that came with the request; there must be one. The caller gets the
 * reference. */
struct fdref *call_take(const struct call *call);
/* Return a descriptor with the answer, for a request that came to fds.sock. Adds a reference. If
 * the handler's status isn't OK, the server releases the descriptor and sends none. */
void call_give(const struct call *call, struct fdref *fdref);
/* The buffer that the request names. `generation` 0: the one that has the name now; else that
 * generation, even if it has lost its name. NULL: there is none that the peer may see. */
struct entry *call_find(const struct call *call, uint64_t generation);
/* The tombstone of the request's name. NULL: there is none, or the peer could not see the
 * buffer. */
const struct tombstone *call_find_gone(const struct call *call);

/*
 * handle_withdraw.c. Withdraw a buffer that its owner has freed, or left out of a resync. A kept
 * buffer stays, without an owner. If `defers`, and a buffer with a CUDA IPC handle is attached, its
 * free is deferred unless a limit is reached. Otherwise the buffer is removed. Returns whether the
 * free is deferred. `unsynced`: a resync left the buffer out, so the owner doesn't know that the
 * free is deferred.
 */
bool withdraw(const struct call *call, struct entry *entry, bool defers, bool unsynced);

/* Whether the peer may read the sums over all users. If not, it gets those of its own user only. */
bool may_know_all(const struct call *call);

/* check.c. Each check returns OK, or a status after putting its message into the answer. */
/* Validates a Share, and writes its mode and group into share->buffer. `with_fd`: a descriptor came
 * with the request, or will come with it at fds.sock. */
int check_share(const struct call *call, gpushare_Share *share, bool with_fd);
int check_tags(const struct call *call, const gpushare_Tag *tags, pb_size_t count);
int check_generation(const struct call *call, const char *name, uint64_t generation);
/* Whether the user may have `more` of a limited resource. */
int check_limit(const struct call *call, struct user *user, enum limit what, uint64_t more);
/* Whether a buffer of the user may have `count` tags. They replace the tags of `entry`, which may
 * be NULL. */
int check_tag_limit(const struct call *call, struct user *user, const struct entry *entry,
		    pb_size_t count);
int check_owner(const struct call *call, const struct entry *entry, const char *verb);
/* *out_read_only: the attachment is read-only, by request or because the peer may not write. */
int check_attach(const struct call *call, const struct entry *entry, bool read_only,
		 bool *out_read_only);
/* Check that the request came to fds.sock, because the answer has a descriptor. */
int check_socket(const struct call *call);

/* Each puts an error message into the answer and returns its status. */
int explain_taken(const struct call *call, const struct entry *entry);
/* The owner, group and mode of `entry` don't grant the right. Returns E_DENIED. `may` and `cure`
 * are parts of the message: `may` completes "uid N ...", for example "may only read it"; `cure` is
 * the remedy. */
int explain_rights(const struct call *call, const struct entry *entry, const char *may,
		   const char *cure);
/* Why the request's name is not available. Returns `status`. */
int explain_missing(const struct call *call, int status);
/* Why the request's name doesn't stand for that generation. Returns E_NOT_FOUND. */
int explain_other(const struct call *call, uint64_t generation);
int explain_protocol(const struct call *call);

#endif
