/* SPDX-License-Identifier: MIT */
#include "verbs/handlers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "permission.h"
#include "os/clock.h"
#include "explain.h"
#include "os/log.h"
#include "save.h"
#include "verbs/pattern.h"
#include "restore.h"
#include "quota.h"

const char *handle_shown_name(const request *ask)
{
	switch (ask->which_verb) {
	case gpushare_Request_share_tag:
		return ask->verb.share.buffer.name;
	case gpushare_Request_commit_tag:
		return ask->verb.commit.name;
	}
	return NULL;
}

const char *handle_wait_name(const request *ask)
{
	if (ask->which_verb == gpushare_Request_lookup_tag)
		return ask->verb.lookup.name;
	if (ask->which_verb == gpushare_Request_attach_tag)
		return ask->verb.attach.name;
	return NULL;
}

uint32_t handle_wait_ms(const request *ask)
{
	uint32_t wait_ms = 0;

	if (ask->which_verb == gpushare_Request_lookup_tag)
		wait_ms = ask->verb.lookup.wait_ms;
	else if (ask->which_verb == gpushare_Request_attach_tag)
		wait_ms = ask->verb.attach.wait_ms;
	return wait_ms < LIMIT_WAIT_MS ? wait_ms : LIMIT_WAIT_MS;
}

static int handle_hello(struct registry *registry, struct session *session, const request *ask,
			reply *answer)
{
	const gpushare_Hello *hello = &ask->verb.hello;
	int status;

	if (hello->protocol != GPUSHARE_PROTOCOL)
		return explain(
		    answer, GPUSHARE_E_NOT_SUPPORTED,
		    "this registry (gpushare %s) speaks protocol %d, the client (%s) speaks "
		    "protocol %" PRIu32 "; install the same version on both sides",
		    GPUSHARE_VERSION, GPUSHARE_PROTOCOL, hello->client, hello->protocol);
	process_says(&session->peer, hello->self.pid_namespace, hello->self.pid,
		     hello->self.started);
	status = limit_check(registry, session->user, LIMIT_connections, 0, answer); /* it counts */
	if (status)
		return status;
	session->greeted = true;
	session->attempt = hello->attempt;
	answer->body.hello.resumed = restore_resume(registry, session, hello->resume);
	memcpy(answer->body.hello.session, session->key, sizeof(session->key));
	answer->body.hello.connection = session->id;
	answer->which_body = gpushare_Reply_hello_tag;
	answer->body.hello.protocol = GPUSHARE_PROTOCOL;
	answer->body.hello.pid = getpid();
	snprintf(answer->body.hello.version, sizeof(answer->body.hello.version), "%s",
		 GPUSHARE_VERSION);
	log_line("hello: uid %u pid %d (%s), %s", session->peer.uid, session->peer.pid,
		 session->peer.command, hello->client);
	return GPUSHARE_OK;
}

struct held *handle_take(struct registry *registry)
{
	struct held *came = registry->passing ? registry->passing->came : NULL;

	if (came)
		registry->passing->came = NULL;
	return came;
}

int handle_check_socket(const struct registry *registry, reply *answer)
{
	if (registry->passing)
		return GPUSHARE_OK;
	return explain(answer, GPUSHARE_E_INVALID,
		       "a file descriptor goes beside this answer: ask at " GPUSHARE_FDS_SOCKET);
}

void handle_give(struct registry *registry, struct held *held)
{
	held->references++;
	registry->passing->goes = held;
}

/* Nothing of that name: wait, or say why not. */
static int answer_missing(struct registry *registry, const struct session *session,
			  const request *ask, const char *name, reply *answer)
{
	int status;

	if (!handle_wait_ms(ask))
		return explain_missing(answer, GPUSHARE_E_NOT_FOUND, registry, session, name);
	status = limit_check(registry, session->user, LIMIT_waiters, 1, answer);
	return status ? status : HANDLE_WAIT;
}

/* What somebody has had: it stands, it has gone, or nobody has told of it since the restart. */
static int lookup_generation(const struct registry *registry, const struct session *session,
			     const gpushare_Lookup *lookup, reply *answer)
{
	const struct entry *entry = buffer_find(&registry->state, lookup->name, lookup->generation);

	if (entry && !access_sees(session, entry))
		entry = NULL; /* as if it were not there */
	if (!entry && buffer_has_gone(&registry->state, lookup->name, lookup->generation))
		return explain_other(answer, registry, session, lookup->name, lookup->generation);
	answer->which_body = gpushare_Reply_lookup_tag;
	answer->body.lookup.has_buffer = entry != NULL;
	if (entry)
		registry_tell(registry, session, entry, &answer->body.lookup.buffer);
	return GPUSHARE_OK;
}

static int handle_lookup(struct registry *registry, struct session *session, const request *ask,
			 reply *answer)
{
	const struct entry *entry = permission_find(registry, session, ask->verb.lookup.name);

	if (ask->verb.lookup.generation)
		return lookup_generation(registry, session, &ask->verb.lookup, answer);
	if (!entry || (entry->info.missing && handle_wait_ms(ask)))
		return answer_missing(registry, session, ask, ask->verb.lookup.name, answer);
	answer->which_body = gpushare_Reply_lookup_tag;
	answer->body.lookup.has_buffer = true;
	registry_tell(registry, session, entry, &answer->body.lookup.buffer);
	return GPUSHARE_OK;
}

/* The handle of the one is nothing to who asks for the other. */
static int check_kind(const struct known *info, bool event, reply *answer)
{
	if ((info->backing == GPUSHARE_BACKING_EVENT) == event)
		return GPUSHARE_OK;
	return explain(answer, GPUSHARE_E_INVALID,
		       event ? "\"%s\" is a buffer, no event; attach it with gpushare_attach()"
			     : "\"%s\" is an event, no buffer; open it with "
			       "gpushare_event_open()",
		       info->name);
}

/* An attachment has one name; its client said another one in a Resync. */
static int check_told(const struct session *session, const struct known *info, reply *answer)
{
	const struct attachment *told = session_find_generation(session, info->generation);

	if (!told || !strcmp(told->name, info->name))
		return GPUSHARE_OK;
	return explain(answer, GPUSHARE_E_INVALID,
		       "this connection has told that generation %" PRIu64
		       " is \"%s\", not \"%s\"; detach it first",
		       info->generation, told->name, info->name);
}

static int handle_attach(struct registry *registry, struct session *session, const request *ask,
			 reply *answer)
{
	struct entry *entry = permission_find(registry, session, ask->verb.attach.name);
	gpushare_AttachReply *attach = &answer->body.attach;
	const struct attachment *held;
	int status;

	if (!entry || entry->info.missing)
		return answer_missing(registry, session, ask, ask->verb.attach.name, answer);
	status = limit_check(registry, session->user, LIMIT_attachments, 1, answer);
	if (!status)
		status = check_kind(&entry->info, ask->verb.attach.event, answer);
	if (!status)
		status = check_told(session, &entry->info, answer);
	if (!status)
		status = permission_check_attach(session, entry, ask->verb.attach.read_only,
						 &attach->read_only, answer);
	if (!status && entry->held && !registry->passing) {
		answer->which_body = gpushare_Reply_attach_tag;
		attach->at_fds = true;
		return HANDLE_ELSEWHERE;
	}
	if (status)
		return status;
	if (entry->held)
		handle_give(registry, entry->held);
	held = session_find_attachment(session, entry->info.name, entry->info.generation);
	if (!buffer_attach(&registry->state, session, entry->info.name, entry->info.generation,
			   held ? held->count + 1 : 1))
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	answer->which_body = gpushare_Reply_attach_tag;
	attach->has_buffer = true;
	attach->own = entry->session && process_is_same(&session->peer, &entry->owner);
	registry_tell(registry, session, entry, &attach->buffer);
	memcpy(attach->handle, entry->handle, sizeof(attach->handle));
	log_line("attach: uid %u pid %d (%s), \"%s\"", session->peer.uid, session->peer.pid,
		 session->peer.command, entry->info.name);
	return GPUSHARE_OK;
}

static int handle_detach(struct registry *registry, struct session *session, const request *ask,
			 reply *answer)
{
	const gpushare_Detach *detach = &ask->verb.detach;
	struct attachment *attachment =
	    session_find_attachment(session, detach->name, detach->generation);

	if (!attachment)
		return explain(answer, GPUSHARE_E_NOT_FOUND,
			       "this connection has not attached \"%s\", generation %" PRIu64,
			       detach->name, detach->generation);
	buffer_detach(&registry->state, session, attachment, 1);
	log_line("detach: uid %u pid %d (%s), \"%s\"", session->peer.uid, session->peer.pid,
		 session->peer.command, detach->name);
	return GPUSHARE_OK;
}

static int handle_withdraw(struct registry *registry, struct session *session, const request *ask,
			   reply *answer)
{
	const gpushare_Withdraw *withdraw = &ask->verb.withdraw;
	struct entry *entry = permission_find(registry, session, withdraw->name);
	bool unlink = !withdraw->generation;

	if (handle_withdraw_nameless(registry, session, withdraw, answer))
		return GPUSHARE_OK;
	if (!entry)
		return explain_missing(answer, GPUSHARE_E_NOT_FOUND, registry, session,
				       withdraw->name);
	if (!unlink && entry->info.generation != withdraw->generation)
		return explain_other(answer, registry, session, withdraw->name,
				     withdraw->generation);
	if (!unlink && entry->session != session)
		return explain(answer, GPUSHARE_E_DENIED,
			       "\"%s\" was not shared through this connection; unlink it instead",
			       withdraw->name);
	if (!(access_of(session, entry) & ACCESS_OWN))
		return permission_deny_owner(session, entry, "unlink", answer);
	log_line("%s: uid %u pid %d (%s), \"%s\"", unlink ? "unlink" : "withdraw",
		 session->peer.uid, session->peer.pid, session->peer.command, withdraw->name);
	if (!unlink && entry_stays(entry->info.flags))
		buffer_orphan(&registry->state, entry);
	else if (!handle_withdraw_limbo(registry, entry, withdraw, answer))
		buffer_remove(&registry->state, entry,
			      unlink ? DEPARTURE_UNLINKED : DEPARTURE_WITHDRAWN);
	return GPUSHARE_OK;
}

static bool is_asked_for(const gpushare_List *list, const struct entry *entry)
{
	return (entry->info.backing == GPUSHARE_BACKING_EVENT) == list->events &&
	       entry->info.in_limbo == list->limbo;
}

bool handle_list_one(struct listing *listing, const struct entry *entry)
{
	gpushare_ListReply *page = listing->page;

	if (!access_sees(listing->session, entry)) {
		/* The page does not end here: that would tell of it. */
		if (++listing->hidden == LIMIT_LIST_HIDDEN)
			listing->rest = entry;
		return !listing->rest;
	}
	listing->work += LIMIT_LIST_LOOK;
	page->more = (listing->last || listing->looked) && listing->work >= LIMIT_LIST_WORK;
	if (!page->more && is_asked_for(listing->list, entry) &&
	    pattern_fits(&listing->pattern, entry->info.name, &listing->work)) {
		page->more = page->buffers_count == listing->limit;
		if (!page->more)
			registry_tell(listing->registry, listing->session, entry,
				      &page->buffers[page->buffers_count++]);
	}
	if (!page->more)
		listing->last = entry;
	return !page->more;
}

static void list_names(struct listing *listing)
{
	const struct store *store = &listing->registry->store;
	const struct pattern *pattern = &listing->pattern;
	const struct entry *entry;

	for (entry = pattern_seek(pattern, store, listing->after);
	     entry && !pattern_is_past(pattern, entry->info.name) &&
	     handle_list_one(listing, entry);)
		entry = store_after(store, entry->info.name);
}

bool handle_refuses_lists(const struct user *user)
{
	return user->list_count >= LIMIT_LISTS_QUEUED;
}

static int rest_list(const struct listing *listing, struct list_rest **rest, reply *answer)
{
	if (!*rest)
		*rest = malloc(sizeof(**rest));
	if (!*rest)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	(*rest)->page = *listing->page;
	(*rest)->work = listing->work;
	(*rest)->looked = listing->last || listing->looked;
	strcpy((*rest)->after, listing->rest->info.name);
	(*rest)->after_generation = listing->rest->info.generation;
	return HANDLE_WAIT;
}

_Static_assert(sizeof(((gpushare_ListReply *)0)->buffers) == LIMIT_PAGE * sizeof(record),
	       "registry.options");

static int handle_list(struct registry *registry, struct session *session, const request *ask,
		       reply *answer)
{
	const gpushare_List *list = &ask->verb.list;
	struct list_rest *rest = registry->list_rest;
	struct listing listing = {
	    .registry = registry,
	    .session = session,
	    .list = list,
	    .after = rest ? rest->after : list->after,
	    .after_generation = rest ? rest->after_generation : list->after_generation,
	    .work = rest ? rest->work : 0,
	    .looked = rest && rest->looked,
	    .pattern = pattern_begin(list->glob),
	    .limit = list->limit < LIMIT_PAGE ? list->limit : LIMIT_PAGE,
	    .page = &answer->body.list,
	};

	if (handle_refuses_lists(session->user))
		return explain(answer, GPUSHARE_E_LIMIT,
			       "%d lists of this user wait to be made, which is all that this "
			       "registry takes of one user; ask again later",
			       LIMIT_LISTS_QUEUED);
	if (!listing.limit)
		listing.limit = LIMIT_PAGE_UNASKED;
	if (rest)
		*listing.page = rest->page;
	(list->limbo ? handle_list_limbo : list_names)(&listing);
	if (listing.last) {
		strcpy(listing.page->after, listing.last->info.name);
		listing.page->after_generation = listing.last->info.generation;
	}
	if (listing.rest)
		return rest_list(&listing, &registry->list_rest, answer);
	answer->which_body = gpushare_Reply_list_tag;
	if (!listing.page->more) {
		*listing.page->after = '\0';
		listing.page->after_generation = 0;
	}
	return GPUSHARE_OK;
}

static int handle_subscribe(struct registry *registry, struct session *session, const request *ask,
			    reply *answer)
{
	int status = session->watcher
			 ? GPUSHARE_OK
			 : limit_check(registry, session->user, LIMIT_watchers, 1, answer);

	(void)ask;
	if (status)
		return status;
	if (!session->watcher && events_enter(&registry->events, session, registry->unix_ns))
		return explain(answer, GPUSHARE_E_NO_MEMORY, "no memory for another watcher");
	if (session->watcher->ask)
		return explain(answer, GPUSHARE_E_INVALID,
			       "this connection waits for notices already; subscribe again when "
			       "they have come");
	answer->which_body = gpushare_Reply_subscribe_tag;
	return events_take(session->watcher, &answer->body.subscribe) ? GPUSHARE_OK : HANDLE_LISTEN;
}

static int handle_verb(struct registry *registry, struct session *session, const request *ask,
		       reply *answer)
{
	if (!session->greeted && ask->which_verb != gpushare_Request_hello_tag)
		return explain(answer, GPUSHARE_E_PROTOCOL,
			       "the first request on a connection must be hello");
	if (session->given_up) /* nobody waits for that, or is told of it */
		return explain(answer, GPUSHARE_E_DENIED,
			       "this process goes on by another connection");
	state_end_name(&registry->state, request_name(ask));
	switch (ask->which_verb) {
#define X(verb) \
	case gpushare_Request_##verb##_tag: \
		return handle_##verb(registry, session, ask, answer);
		REQUEST_VERBS(X)
#undef X
	}
	return handle_undecodable(GPUSHARE_E_PROTOCOL, answer);
}

int handle_request(struct registry *registry, struct session *session, const request *ask,
		   reply *answer)
{
	int status;

	user_asks(registry, session->user, 1);
	*answer = (reply){0};
	registry->events.actor = session->peer.pid;
	registry->asking = &session->peer;
	status = handle_verb(registry, session, ask, answer);
	answer->status = status == HANDLE_ELSEWHERE ? GPUSHARE_OK : status;
	registry->asking = NULL;
	registry->events.actor = 0;
	if (status <= GPUSHARE_OK) {
		user_answered(registry, session->user, ask->which_verb, status);
		audit_request(&registry->audit, session, ask, answer);
	} else if (status == HANDLE_ELSEWHERE) {
		user_asks(registry, session->user, -1);
	}
	save_flush(registry);
	return status;
}

int handle_undecodable(int fault, reply *answer)
{
	*answer = (reply){.status = fault};
	if (fault == GPUSHARE_E_NAME)
		return explain(
		    answer, fault,
		    "the request holds no valid name: 1 to 255 bytes of A-Z a-z 0-9 . _ / -");
	return explain(answer, fault,
		       "this registry (gpushare %s, protocol %d) can't make sense of the request",
		       GPUSHARE_VERSION, GPUSHARE_PROTOCOL);
}

int handle_too_long(struct registry *registry, const struct session *session, size_t size,
		    reply *answer)
{
	limit_count(registry, session->user, COUNTS_LIMITS - 1);
	*answer = (reply){.status = GPUSHARE_E_LIMIT};
	return explain(answer, GPUSHARE_E_LIMIT,
		       "the request has %zu bytes, where %" PRIu64
		       " are all that this registry takes (message_bytes in registry.conf)",
		       size, registry->limits.message_bytes);
}

int handle_timeout(const struct registry *registry, const struct session *session,
		   const request *ask, reply *answer)
{
	*answer = (reply){.status = GPUSHARE_E_TIMED_OUT};
	return explain_missing(answer, GPUSHARE_E_TIMED_OUT, registry, session,
			       handle_wait_name(ask));
}
