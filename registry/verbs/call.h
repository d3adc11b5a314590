/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CALL_H
#define GPUSHARE_REGISTRY_CALL_H
/* What the handlers share: a request being carried out, checks of it, and the sentences. */
#include "os/log.h"
#include "state/access.h"
#include "verbs/handlers.h"

struct call {
	struct registry *registry;
	struct state *state; /* of the registry */
	struct session *session;
	const request *ask;
	const char *name; /* request_name(ask) */
	reply *answer;
};

/* One handler for each verb. Returns a status or HANDLE_*. Where the status is OK the caller selects the
 * answer's body. E_NO_MEMORY needs no sentence. */
#define X(verb) int handle_##verb(struct call *call);
REQUEST_VERBS(X)
#undef X

/* Put a sentence into the answer; the status. */
#define refuse(call, ...) explain((call)->answer, __VA_ARGS__)
/* Log what the peer did. */
#define call_log(call, what, format, ...) \
	log_line("%s: uid %u pid %d (%s), " format, what, (call)->session->peer.uid, \
		 (call)->session->peer.pid, (call)->session->peer.command, __VA_ARGS__)

/* Take the descriptor that came with the request; the reference is the caller's. NULL: none came. */
struct fdref *call_take(const struct call *call);
/* Return a descriptor with the answer, if that is OK. */
void call_give(const struct call *call, struct fdref *fdref);
/* The call's name as its peer sees it: the record that has the name now (`generation` 0), or that
 * generation, named or not. NULL: nothing that this peer may see. */
struct entry *call_find(const struct call *call, uint64_t generation);
/* Who had the name, if the peer could see it. NULL: nobody known. */
const struct tombstone *call_find_gone(const struct call *call);

/* handle_withdraw.c. The owner has freed the buffer. It stays if it is kept, its free is deferred (`defers`) if others
 * have it attached, else it goes. true: deferred; `unsynced`: without its owner's knowledge. */
bool withdraw(const struct call *call, struct entry *entry, bool defers, bool unsynced);

/* Whether the peer may know sums of all users together; if not, its own only. */
bool may_know_all(const struct call *call);

/* check.c. OK, or a status with its sentence. */
/* Validates, and puts mode and group into the record. `with_fd`: a descriptor comes with it, or will. */
int check_share(const struct call *call, gpushare_Share *share, bool with_fd);
int check_tags(const char *name, const gpushare_Tag *tags, pb_size_t count, reply *answer);
int check_generation(const struct call *call, const char *name, uint64_t generation);
/* Whether the user may have `more` of what is limited. */
int check_limit(const struct call *call, struct user *user, enum limit what, uint64_t more);
/* Whether a user's record may have `count` tags; `entry` (may be NULL) is the record that has tags already. */
int check_tag_limit(const struct call *call, struct user *user, const struct entry *entry,
		    pb_size_t count);
int check_owner(const struct call *call, const struct entry *entry, const char *verb);
/* *out_read_only: the peer may not write. */
int check_attach(const struct call *call, const struct entry *entry, bool read_only,
		 bool *out_read_only);
/* Whether the request came to fds.sock, as its answer has a descriptor. */
int check_socket(const struct call *call);

/* explain.c. Each returns its status. */
int explain_taken(const struct call *call, const struct entry *entry);
/* The peer lacks a right that the owner and mode of `entry` don't give. */
int explain_rights(const struct call *call, const struct entry *entry, const char *may,
		   const char *cure);
/* Why the call's name can't be had, under a status of the caller's choice. */
int explain_missing(const struct call *call, int status);
/* Why the call's name isn't that generation: E_NOT_FOUND. */
int explain_other(const struct call *call, uint64_t generation);
int explain_protocol(reply *answer);

#endif
