/* SPDX-License-Identifier: MIT */
/* Attaching at the registry, with a wait for a name that does not exist so far. */
#include <string.h>

#include "api_session.h"
#include "base/monotonic.h"

static int attach_ask(struct gpushare_session *session, const char *name, enum attach_kind kind,
		      struct attach_answer *out_answer)
{
	request ask = {.which_verb = gpushare_Request_attach_tag};

	memcpy(ask.verb.attach.name, name, strlen(name) + 1);
	ask.verb.attach.event = kind == ATTACH_EVENT;
	ask.verb.attach.read_only = kind == ATTACH_READ_ONLY;
	out_answer->fd = -1;
	return session_ask_passing(session, &ask, gpushare_Reply_attach_tag, &out_answer->reply,
				   sizeof(out_answer->reply), &out_answer->readings, -1,
				   &out_answer->fd);
}

/* Attach at the registry, and wait up to wait_ms for the name. Between the wait's end and the
 * attach, the name may be withdrawn and the registry may be replaced: then wait again. Wait again
 * also if too many requests wait at the registry. */
int attach_register(struct gpushare_session *session, const char *name, uint32_t wait_ms,
		    enum attach_kind kind, struct attach_answer *out_answer)
{
	const struct client_options options = {
	    .directory = session->client->directory,
	    .who = "api wait",
	    .timeout_ms = session->timeout_ms,
	};
	char why[API_SENTENCE_MAX];
	int64_t deadline = monotonic_ms() + 1 + wait_ms; /* monotonic_ms() rounds down */
	int status = attach_ask(session, name, kind, out_answer);
	bool waits = status == GPUSHARE_E_NOT_FOUND && wait_ms;

	while (waits && (status == GPUSHARE_E_NOT_FOUND || status == GPUSHARE_E_NO_REGISTRY)) {
		int64_t now = monotonic_ms();

		if (now >= deadline)
			return api_fail(GPUSHARE_E_TIMED_OUT, "'%s' did not appear within %u ms",
					name, wait_ms);
		status =
		    client_await_name(&options, name, (uint32_t)(deadline - now), why, sizeof(why));
		api_waited_ms = 0; /* the wait has a limit of its own */
		status = !status || status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_LIMIT
			     ? attach_ask(session, name, kind, out_answer)
			     : api_fail(status, "%s", why);
	}
	return status;
}
