/* SPDX-License-Identifier: MIT */
/* Requests that are sent ahead of the answers to earlier ones. */
#include <stdio.h>

#include "api_session.h"
#include "base/monotonic.h"

struct ahead {
	bool wanted; /* make() returned true */
	bool sent;   /* its answer is to come through the pipeline */
	unsigned int readings;
	int64_t waited_ms; /* api_waited_ms before it was sent */
};

struct asking {
	struct gpushare_session *session;
	const struct session_many *many;
	size_t count, made;		  /* make() was called for requests 0 to made - 1 */
	struct client_pipeline *pipeline; /* NULL: none so far, or the last one broke */
	unsigned int opened;
	bool send_failed; /* the last send to `pipeline` failed; answers may still come */
	struct ahead ahead[CLIENT_AHEAD]; /* the latest ones, at index % CLIENT_AHEAD */
	request ask;
};

static struct ahead *ahead_of(struct asking *asking, size_t index)
{
	return &asking->ahead[index % CLIENT_AHEAD];
}

static void open_pipeline(struct asking *asking)
{
	struct gpushare_session *session = asking->session;

	if (asking->opened == CLIENT_TRIES ||
	    !session_try_client(session, session_deadline(session)))
		return;
	asking->opened++;
	if (resync_missed(&session->resync))
		client_tell_anew(session->client);
	asking->pipeline = client_pipeline_open(session->client);
	session_give_client(session);
}

/* The registry may have carried out requests whose answers are lost now, so a resync must report
 * everything. */
static void drop_pipeline(struct asking *asking, size_t done)
{
	asking->pipeline = client_pipeline_close(asking->pipeline);
	asking->send_failed = false;
	for (; done < asking->made; done++) {
		if (ahead_of(asking, done)->sent)
			resync_miss(&asking->session->resync);
		ahead_of(asking, done)->sent = false;
	}
}

/* If the request can't be sent ahead, it is sent alone later, in its order. */
static void send_one(struct asking *asking, struct ahead *ahead)
{
	int status;

	if (asking->send_failed)
		return;
	ahead->waited_ms = api_waited_ms;
	status = client_pipeline_send(asking->pipeline, &asking->ask);
	ahead->sent = !status;
	asking->send_failed = status && status != GPUSHARE_E_TIMED_OUT;
}

/* Fill the window of CLIENT_AHEAD requests when half of it is empty, not after each answer: each
 * message may wake the registry. If no pipeline can be opened, this window's requests are sent
 * alone. A request that is sent alone may connect and resync, so the next call tries again to open
 * a pipeline. */
static void send_ahead(struct asking *asking, size_t done)
{
	const struct session_many *many = asking->many;
	bool opens = !asking->pipeline;

	if (asking->made - done > CLIENT_AHEAD / 2)
		return;
	for (; asking->made < asking->count && asking->made - done < CLIENT_AHEAD; asking->made++) {
		struct ahead *ahead = ahead_of(asking, asking->made);

		ahead->readings = resync_readings_aside(&asking->session->resync);
		ahead->sent = false;
		ahead->wanted = many->make(many->user, asking->made, &asking->ask);
		if (!ahead->wanted)
			continue;
		if (opens && asking->made + 1 < asking->count)
			open_pipeline(asking);
		opens = false;
		if (asking->pipeline)
			send_one(asking, ahead);
	}
}

/* False: the pipeline is broken. */
static bool receive(struct asking *asking, const struct ahead *ahead, struct session_answer *answer)
{
	const struct session_many *many = asking->many;
	struct gpushare_session *session = asking->session;
	const reply *got = &asking->pipeline->answer;
	int64_t began_ms = monotonic_ms();
	int status =
	    client_pipeline_receive(asking->pipeline, session_deadline(session), &answer->fd);

	session_waited(began_ms);
	if (status)
		return false;
	/* Waits before the answer no longer count against the time limit. But an answer that was
	 * there already may be as old as its request. */
	api_excuse(asking->pipeline->waited ? api_waited_ms : ahead->waited_ms);
	answer->status = got->status;
	if (!got->status)
		answer->status = session_read_answer(session, got, many->body);
	else
		api_fail(got->status, "%s",
			 *got->message ? got->message : status_text(got->status));
	if (answer->status) {
		fds_close(&answer->fd, answer->fd >= 0);
		answer->fd = -1;
	}
	return true;
}

/* Send one request alone. False: no request is needed any more. */
static bool ask_alone(struct asking *asking, size_t index, struct session_answer *answer)
{
	const struct session_many *many = asking->many;

	if (!many->make(many->user, index, &asking->ask))
		return false;
	session_ask_passing(asking->session, &asking->ask, many->body, -1, answer);
	return true;
}

static int take_one(struct asking *asking, size_t index, bool failed)
{
	const struct ahead *ahead = ahead_of(asking, index);
	struct session_answer answer = {.fd = -1, .readings = ahead->readings};
	int taken;

	if (!ahead->wanted)
		return GPUSHARE_OK;
	if (ahead->sent ? !receive(asking, ahead, &answer) : asking->send_failed)
		drop_pipeline(asking, index);
	if (!ahead->sent && (failed || !ask_alone(asking, index, &answer)))
		return GPUSHARE_OK;
	taken = asking->many->take(asking->many->user, index, &answer);
	if (answer.status && !taken) /* take() waited: later answers are out of date */
		drop_pipeline(asking, index + 1);
	return taken;
}

int session_ask_many(struct gpushare_session *session, const struct session_many *many,
		     size_t count)
{
	struct asking asking;
	char why[API_SENTENCE_MAX];
	int status = GPUSHARE_OK, taken;

	asking.session = session;
	asking.many = many;
	asking.count = count;
	asking.pipeline = NULL;
	asking.opened = 0;
	asking.send_failed = false;
	asking.made = count == 1; /* take_one() sends a single request alone */
	asking.ahead[0] = (struct ahead){.wanted = true};
	for (size_t done = 0; done < (status ? asking.made : count); done++) {
		if (!status)
			send_ahead(&asking, done);
		taken = take_one(&asking, done, status);
		if (!taken || status)
			continue;
		status = taken;
		snprintf(why, sizeof(why), "%s", gpushare_explain());
	}
	client_pipeline_close(asking.pipeline);
	return status ? api_fail(status, "%s", why) : GPUSHARE_OK;
}
