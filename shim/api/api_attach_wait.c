/* SPDX-License-Identifier: MIT */
/* Attaching at the registry, with a wait for a name that does not exist so far. */
#include <string.h>

#include "api_session.h"
#include "base/monotonic.h"

int64_t attach_deadline(uint32_t wait_ms)
{
	return monotonic_ms() + 1 + wait_ms; /* monotonic_ms() rounds down */
}

void attach_request(const char *name, enum attach_kind kind, request *out_request)
{
	*out_request = (request){.which_verb = gpushare_Request_attach_tag};
	memcpy(out_request->verb.attach.name, name, strlen(name) + 1);
	out_request->verb.attach.event = kind == ATTACH_EVENT;
	out_request->verb.attach.read_only = kind == ATTACH_READ_ONLY;
}

int attach_ask(struct gpushare_session *session, const char *name, enum attach_kind kind,
	       struct attach_answer *out_answer)
{
	request ask;

	attach_request(name, kind, &ask);
	out_answer->fd = -1;
	return session_ask_passing(session, &ask, gpushare_Reply_attach_tag, &out_answer->reply,
				   sizeof(out_answer->reply), &out_answer->readings, -1,
				   &out_answer->fd);
}

/* Between the wait's end and the attach, the name may be withdrawn and the registry may be
 * replaced: then wait again. Wait again also if too many requests wait at the registry. */
int attach_await(struct gpushare_session *session, const char *name, const struct attach_way *way,
		 struct attach_answer *out_answer)
{
	const struct client_options options = {
	    .directory = session->client->directory,
	    .who = "api wait",
	    .timeout_ms = session->timeout_ms,
	};
	char why[API_SENTENCE_MAX];
	int status = GPUSHARE_E_NOT_FOUND;

	while (status == GPUSHARE_E_NOT_FOUND || status == GPUSHARE_E_NO_REGISTRY) {
		int64_t now = monotonic_ms();

		if (now >= way->deadline_ms)
			return api_fail(GPUSHARE_E_TIMED_OUT, "'%s' did not appear within %u ms",
					name, way->wait_ms);
		status = client_await_name(&options, name, (uint32_t)(way->deadline_ms - now), why,
					   sizeof(why));
		api_excuse(api_waited_ms); /* the wait has a limit of its own */
		status = !status || status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_LIMIT
			     ? attach_ask(session, name, way->kind, out_answer)
			     : api_fail(status, "%s", why);
	}
	return status;
}
