/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HANDLERS_H
#define GPUSHARE_REGISTRY_HANDLERS_H
/* One function a verb: handle_<verb>. All want the registry's lock held. */
#include "verbs/pattern.h"
#include "registry.h"

/* The name isn't there and the client would rather wait, or a List is to go on after others had the
 * lock. Only handle_request() says it. */
#define HANDLE_WAIT 1
/* A Resync is done in part, and asked again after others had the lock. */
#define HANDLE_MORE 2
/* A Subscribe waits for something to happen, in session->watcher->ask. */
#define HANDLE_LISTEN 3
/* The answer says no more than that the request belongs to fds.sock: it was none. */
#define HANDLE_ELSEWHERE 4

/*
 * Answer `ask` of `session` into *answer: status, sentence, body. Returns the status, or HANDLE_WAIT:
 * nothing is answered yet, the caller parks it for handle_wait_ms() and asks again when the name is
 * there. A List is asked again soon, with the registry->list_rest that it left; the caller frees that.
 * HANDLE_MORE: nothing is answered yet, the caller parks it and asks again after others had the lock.
 */
int handle_request(struct registry *registry, struct session *session, const request *ask,
		   reply *answer);
/* What did not even decode: `fault` is the codec's status. */
int handle_undecodable(int fault, reply *answer);
/* A parked request whose time is up. */
int handle_timeout(const struct registry *registry, const struct session *session,
		   const request *ask, reply *answer);

/* One that is longer than registry.conf lets it be. */
int handle_too_long(struct registry *registry, const struct session *session, size_t size,
		    reply *answer);

/* handle_stat.c, handle_tag.c */
int handle_stat(struct registry *registry, struct session *session, const request *ask,
		reply *answer);
int handle_tag(struct registry *registry, struct session *session, const request *ask,
	       reply *answer);
int handle_holders(struct registry *registry, struct session *session, const request *ask,
		   reply *answer);

/* handle_commit.c */
int handle_commit(struct registry *registry, struct session *session, const request *ask,
		  reply *answer);
/* handle_order.c */
int handle_order(struct registry *registry, struct session *session, const request *ask,
		 reply *answer);
/* handle_resync.c */
int handle_resync(struct registry *registry, struct session *session, const request *ask,
		  reply *answer);
/* handle_share.c */
int handle_share(struct registry *registry, struct session *session, const request *ask,
		 reply *answer);
/* What came beside the request: the reference is the caller's. NULL: nothing. */
struct held *handle_take(struct registry *registry);
/* E_INVALID: a descriptor is to go beside the answer, and the request came to the wrong socket for that. */
int handle_check_socket(const struct registry *registry, reply *answer);
/* It goes beside the answer, if that is OK. */
void handle_give(struct registry *registry, struct held *held);

/* handle_limbo.c */
int handle_limbo(struct registry *registry, struct session *session, const request *ask,
		 reply *answer);
/* Without a name rather than away: where somebody has it attached and its owner is to hold it, or its
 * owner is not the one who takes the name. */
bool handle_withdraw_limbo(struct registry *registry, struct entry *entry,
			   const gpushare_Withdraw *withdraw, reply *answer);
/* Of what has no name: its owner frees it, or wants to hold it. */
bool handle_withdraw_nameless(struct registry *registry, const struct session *session,
			      const gpushare_Withdraw *withdraw, reply *answer);

/* A List that passed many names which its peer may not see, and goes on behind the latest of them. */
struct list_rest {
	gpushare_ListReply page; /* so far */
	size_t work;
	bool looked; /* at a name that the peer may see; page.after has the latest */
	char after[GPUSHARE_NAME_MAX + 1];
	uint64_t after_generation;
};

/* A page that is made. */
struct listing {
	const struct registry *registry;
	const struct session *session;
	const gpushare_List *list;
	const char *after; /* where it begins */
	uint64_t after_generation;
	struct pattern pattern;
	pb_size_t limit;
	size_t work;
	bool looked;		  /* before, at one that the peer may see */
	const struct entry *last; /* that was looked at, of those that the peer may see */
	size_t hidden;		  /* that the peer may not see, and... */
	const struct entry *rest; /* ...the latest of those, if they were too many */
	gpushare_ListReply *page;
};

/* On to the page, where its pattern fits. false: that is enough for one, and it is said that there is
 * more. */
bool handle_list_one(struct listing *listing, const struct entry *entry);
void handle_list_limbo(struct listing *listing);
/* So many lists of that user wait that a further one is answered by E_LIMIT. */
bool handle_refuses_lists(const struct user *user);

/* The name that a lookup or attach is about, and how long it would wait; NULL and 0 for others. */
const char *handle_wait_name(const request *ask);
uint32_t handle_wait_ms(const request *ask);
/* The name that is there to be seen after a share or commit; NULL for others. */
const char *handle_shown_name(const request *ask);

#endif
