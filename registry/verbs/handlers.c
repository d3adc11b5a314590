/* SPDX-License-Identifier: MIT */
/* Dispatch: from a request to its handler, and what all answers have in common. */
#include "verbs/handlers.h"

#include <inttypes.h>
#include <string.h>

#include "persist/persist.h"
#include "verbs/call.h"

/* The answers to these verbs have no body. */
enum { gpushare_Reply_detach_tag, gpushare_Reply_tag_tag = 0, gpushare_Reply_commit_tag = 0 };

static const struct {
	int (*handle)(struct call *call);
	pb_size_t body;
} verbs[] = {
#define X(verb) [gpushare_Request_##verb##_tag] = {handle_##verb, gpushare_Reply_##verb##_tag},
    REQUEST_VERBS(X)
#undef X
};

_Static_assert(sizeof(verbs) / sizeof(*verbs) <= COUNTS_VERBS, "each verb is counted");

uint32_t handle_wait_ms(const request *ask)
{
	uint32_t wait_ms = ask->verb.lookup.wait_ms;

	return wait_ms < LIMIT_WAIT_MS ? wait_ms : LIMIT_WAIT_MS;
}

struct fdref *call_take(const struct call *call)
{
	struct passing *passing = call->registry->passing;
	struct fdref *came = passing->came;

	passing->came = NULL;
	return came;
}

void call_give(const struct call *call, struct fdref *fdref)
{
	call->registry->passing->goes = fdref_again(fdref);
}

struct entry *call_find(const struct call *call, uint64_t generation)
{
	struct entry *entry = generation ? buffer_find(call->state, call->name, generation)
					 : store_find(&call->state->store, call->name);

	return entry && access_sees(call->session, entry) ? entry : NULL;
}

const struct tombstone *call_find_gone(const struct call *call)
{
	const struct tombstone *gone = tombstone_find(call->state, call->name);
	const struct session *session = call->session;

	if (!gone || (gone->staged && !process_is_same(&gone->owner, &session->peer)))
		return NULL;
	return access_grants(gone->owner.uid, gone->gid, gone->mode, &session->who) & ACCESS_SEE
		   ? gone
		   : NULL;
}

static int dispatch(struct call *call)
{
	pb_size_t verb = call->ask->which_verb;
	int status;

	if (!call->session->greeted && verb != gpushare_Request_hello_tag)
		return refuse(call, GPUSHARE_E_PROTOCOL,
			      "the first request on a connection must be hello");
	if (call->session->given_up) /* the client no longer reads answers of this connection */
		return refuse(call, GPUSHARE_E_DENIED,
			      "this process has moved to another connection");
	state_end_name(call->state, call->name);
	status = verbs[verb].handle(call);
	if (status == GPUSHARE_OK || status == HANDLE_ELSEWHERE)
		call->answer->which_body = verbs[verb].body;
	if (status == GPUSHARE_E_NO_MEMORY)
		refuse(call, status, "the registry is out of memory");
	return status;
}

void handle_answered(struct registry *registry, const struct ask *ask)
{
	user_answered(ask->session->user, ask->request.which_verb, registry->reply.status);
	audit_request(&registry->audit, ask->session, &ask->request, &registry->reply);
}

/* Begin an answer. A list's page is far larger than all other bodies, so handle_list() initialises
 * it. */
static struct call begin(struct registry *registry, const struct ask *ask)
{
	reply *answer = &registry->reply;

	answer->status = GPUSHARE_OK;
	*answer->message = '\0';
	answer->which_body = 0;
	memset(&answer->body, 0, sizeof(answer->body.subscribe));
	return (struct call){.registry = registry,
			     .state = &registry->state,
			     .session = ask->session,
			     .ask = &ask->request,
			     .name = request_name(&ask->request),
			     .group = &ask->group,
			     .answer = answer,
			     .again = ask->waits != 0};
}

/* Refuse a request that is too long or could not be decoded. */
static int refuse_invalid(const struct call *call, const struct ask *ask)
{
	uint64_t most = call->state->users.limits.message_bytes;

	if (ask->size > most) {
		user_count(call->session->user, limits[COUNTS_LIMITS - 1]);
		return refuse(call, GPUSHARE_E_LIMIT,
			      "the request has %zu bytes; the limit is %" PRIu64
			      " (message_bytes in registry.conf)",
			      ask->size, most);
	}
	if (ask->fault == GPUSHARE_E_NAME)
		return refuse(call, GPUSHARE_E_NAME,
			      "the request has an invalid name; a name is 1 to 255 bytes of A-Z "
			      "a-z 0-9 . _ / -");
	return explain_protocol(call);
}

int handle_request(struct registry *registry, struct ask *ask)
{
	bool invalid = ask->fault || ask->size > registry->state.users.limits.message_bytes;
	struct session *session = ask->session;
	struct call call;
	int status;

	if (invalid)
		ask->request.which_verb = 0; /* the request is undefined */
	call = begin(registry, ask);
	if (!invalid && !call.again)
		user_count(session->user, requests);
	registry->asking = &session->peer;
	status = invalid ? refuse_invalid(&call, ask) : dispatch(&call);
	registry->asking = NULL;
	registry->reply.status = status == HANDLE_ELSEWHERE ? GPUSHARE_OK : status;
	if (status <= GPUSHARE_OK)
		handle_answered(registry, ask);
	if (status == HANDLE_ELSEWHERE) { /* the request will be counted at fds.sock */
		session->user->own.requests--;
		registry->state.users.total.requests--;
	}
	save_flush(registry);
	return status;
}

/* Write no audit line: audit_wait() audits a request when it begins to wait. */
void handle_timeout(struct registry *registry, const struct ask *ask)
{
	const struct call call = begin(registry, ask);

	registry->reply.status = explain_missing(&call, GPUSHARE_E_TIMED_OUT);
	user_answered(ask->session->user, ask->request.which_verb, GPUSHARE_E_TIMED_OUT);
}
