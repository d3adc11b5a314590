/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HANDLERS_H
#define GPUSHARE_REGISTRY_HANDLERS_H
/* What server/ needs of the verbs. Everything needs the registry's lock. */
#include "context/registry.h"

/* Results of handle_request() besides a status: */
#define HANDLE_WAIT 1	/* the name isn't there: ask again when it is, or handle_timeout() */
#define HANDLE_MORE 2	/* a Resync or List is done in part: ask again after others had the lock */
#define HANDLE_LISTEN 3 /* a Subscribe waits for notices, in session->watcher->ask */
#define HANDLE_ELSEWHERE 4 /* the answer says only that the request belongs to fds.sock */

/* A List that has passed many names which its peer may not see. It continues from here. */
struct list_rest {
	gpushare_ListReply page; /* so far; page.after has the latest name that the peer may see */
	size_t work;
	bool looked; /* at a name that the peer may see */
	char after[GPUSHARE_NAME_MAX + 1];
	uint64_t after_generation;
};

/*
 * Carry out `ask` of `session`. Returns the status, which is in *answer with its sentence and body, or one of
 * the results above; with HANDLE_WAIT, _MORE and _LISTEN there is no answer yet. A List takes its list_rest
 * from the registry and leaves it there; the caller frees it. `again`: it has waited, and is counted already.
 */
int handle_request(struct registry *registry, struct session *session, const request *ask,
		   bool again, reply *answer);
/* Refuse what is too long or could not be decoded; `fault` is the codec's status. OK: it is neither. */
int handle_fault(struct registry *registry, struct session *session, size_t size, int fault,
		 reply *answer);
/* Count and audit an answer that the caller has made. `ask` is NULL if the request could not be decoded. */
void handle_answered(struct registry *registry, struct session *session, const request *ask,
		     const reply *answer);
/* Answer a waiting request whose time is up. */
void handle_timeout(struct registry *registry, struct session *session, const request *ask,
		    reply *answer);

/* How long a request may wait for its name. */
uint32_t handle_wait_ms(const request *ask);
/* Whether a request makes its name visible to others, who may be waiting for it. */
bool handle_shows(const request *ask);
/* So many Lists of this user wait that the next one gets E_LIMIT. */
bool handle_refuses_lists(const struct user *user);

/* Put a sentence into the answer. Returns `status`. */
int explain(reply *answer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether this user may have one more descriptor. OK, or E_LIMIT with its sentence. */
int check_descriptor(struct registry *registry, struct user *user, reply *answer);

#endif
