/* SPDX-License-Identifier: MIT */
/*
 * Requests and answers over one stream, with a deadline. If a call gives up at its deadline, unsent
 * bytes stay at client->out and received bytes at client->in; the next call continues there.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "client_internal.h"
#include "base/monotonic.h"

#define HEADER (SP_HEADER_SIZE + SP_ID_SIZE)

static uint32_t id_of(uint32_t number)
{
	return number | 0x80000000u;
}

int client_fail(struct client *client, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(client->why, sizeof(client->why), format, arguments);
	va_end(arguments);
	return status;
}

int client_wait(int fd, short events, int64_t deadline_ms)
{
	struct pollfd one = {.fd = fd, .events = events};

	for (;;) {
		int64_t left = deadline_ms - monotonic_ms();
		int ready;

		if (left <= 0)
			left = 0;
		ready = poll(&one, 1, left > INT32_MAX ? INT32_MAX : (int)left);
		if (ready > 0)
			return GPUSHARE_OK;
		if (ready == 0)
			return GPUSHARE_E_TIMED_OUT;
		if (errno != EINTR)
			return GPUSHARE_E_IO;
	}
}

int client_fail_transfer(struct client *client, int status, const char *doing)
{
	if (status == GPUSHARE_E_TIMED_OUT)
		return client_fail(
		    client, status,
		    "the registry in %s did not answer in time (%u ms) while %s; is it stopped or "
		    "overloaded? GPUSHARE_TIMEOUT_MS sets the limit",
		    client->directory, client->timeout_ms, doing);
	if (status == GPUSHARE_E_PROTOCOL)
		return client_fail(
		    client, status,
		    "the program that answers in %s does not speak the registry's protocol",
		    client->directory);
	return client_fail(
	    client, GPUSHARE_E_NO_REGISTRY,
	    "the registry in %s closed the connection while %s; it may have been ended: try again",
	    client->directory, doing);
}

static int fail_transfer(struct client *client, int status)
{
	const char *doing = !client->greeted   ? "greeting"
			    : client->out_size ? "taking a request"
					       : "answering";

	if (client->socket.fd < 0) /* reported already */
		return status;
	if (status != GPUSHARE_E_TIMED_OUT)
		client_disconnect(client);
	return client_fail_transfer(client, status, doing);
}

static void skip(uint8_t *bytes, size_t *size, size_t count)
{
	*size -= count;
	memmove(bytes, bytes + count, *size);
}

/* Write as much of client->out as the socket takes now. */
static int flush(struct client *client)
{
	while (client->out_size) {
		ssize_t sent = send(client->socket.fd, client->out, client->out_size,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent >= 0)
			skip(client->out, &client->out_size, (size_t)sent);
		else if (errno == EAGAIN)
			return GPUSHARE_OK;
		else if (errno != EINTR)
			return GPUSHARE_E_NO_REGISTRY;
	}
	return GPUSHARE_OK;
}

static int read_in(struct client *client)
{
	ssize_t got = recv(client->socket.fd, client->in + client->in_size,
			   GPUSHARE_MESSAGE_MAX - client->in_size, MSG_DONTWAIT);

	if (!got || (got < 0 && errno != EINTR && errno != EAGAIN))
		return GPUSHARE_E_NO_REGISTRY;
	if (got > 0)
		client->in_size += (size_t)got;
	return GPUSHARE_OK;
}

/* Wait for `need` bytes at client->in; meanwhile write pending output. */
static int receive(struct client *client, size_t need, int64_t deadline)
{
	int status = flush(client);

	while (status == GPUSHARE_OK && client->in_size < need) {
		status = client_wait(client->socket.fd,
				     client->out_size ? POLLIN | POLLOUT : POLLIN, deadline);
		if (status == GPUSHARE_OK)
			status = flush(client);
		if (status == GPUSHARE_OK)
			status = read_in(client);
	}
	return status;
}

/* Wait for the next answer at client->in; *out_size is its size with its header. */
static int receive_answer(struct client *client, size_t *out_size, int64_t deadline)
{
	int status = receive(client, HEADER, deadline);
	long body;

	if (status != GPUSHARE_OK)
		return status;
	body = sp_header_body_size(client->in);
	if (body < 0 || (size_t)body > GPUSHARE_MESSAGE_MAX - HEADER)
		return GPUSHARE_E_PROTOCOL;
	*out_size = HEADER + (size_t)body;
	return receive(client, *out_size, deadline);
}

static bool is_ahead(const struct client *client, const request *question)
{
	const gpushare_List *of = &client->ahead_of, *list = &question->verb.list;

	return client->ahead && question->which_verb == gpushare_Request_list_tag &&
	       of->deferred == list->deferred && of->events == list->events &&
	       of->limit == list->limit && of->after_generation == list->after_generation &&
	       !strcmp(of->after, list->after) && !strcmp(of->glob, list->glob);
}

/* If `page` answers a List in client->request, request the next page now: the registry makes it
 * while this one is decoded. */
static void ask_ahead(struct client *client, const uint8_t *page, size_t size)
{
	gpushare_List *next = &client->own.verb.list;
	gpushare_PageEnd end;

	if (client->request.which_verb != gpushare_Request_list_tag ||
	    !codec_page_ends(page, size, &end) || !end.more)
		return;
	client->own = client->request;
	memcpy(next->after, end.after, sizeof(next->after));
	next->after_generation = end.after_generation;
	client->ahead_of = *next;
	client->ahead = client_post(client, &client->own);
}

/* Receive one answer. *out_mine: it answers request `id`, and is in client->reply. If it answers
 * the late request, that request is undone. Any other answer is discarded. */
static int take_answer(struct client *client, uint32_t id, bool *out_mine, int64_t deadline)
{
	bool late;
	size_t size;
	uint32_t found;
	int status = receive_answer(client, &size, deadline);

	if (status != GPUSHARE_OK)
		return status;
	found = sp_id(client->in + SP_HEADER_SIZE);
	*out_mine = found == id;
	if (found == client->ahead)
		client->ahead = 0;
	late = !*out_mine && client_is_late(client) && found == client->late.id;
	if (client->unanswered < (*out_mine || !id ? 1u : 2u))
		return GPUSHARE_E_PROTOCOL;
	client->unanswered--;
	if (!client->unanswered && client->in_size > size)
		return GPUSHARE_E_PROTOCOL;
	if (*out_mine)
		ask_ahead(client, client->in + HEADER, size - HEADER);
	if ((*out_mine || late) &&
	    client_decode(client, client->in + HEADER, size - HEADER) != GPUSHARE_OK)
		return GPUSHARE_E_PROTOCOL;
	skip(client->in, &client->in_size, size);
	if (late)
		client_undo(client);
	return GPUSHARE_OK;
}

int client_await(struct client *client, uint32_t id, bool *out_answered, int64_t deadline)
{
	int status = GPUSHARE_OK;

	*out_answered = false;
	while (status == GPUSHARE_OK && !*out_answered)
		status = take_answer(client, id, out_answered, deadline);
	return status == GPUSHARE_OK ? client_reply_status(client) : fail_transfer(client, status);
}

int client_greet(struct client *client, int64_t deadline)
{
	int status = receive(client, SP_GREETING_SIZE, deadline);

	if (status != GPUSHARE_OK)
		return fail_transfer(client, status);
	if (!sp_greeting_is(client->in, SP_REP)) {
		client_disconnect(client);
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "the program that listens in %s is not a gpushare registry",
				   client->directory);
	}
	skip(client->in, &client->in_size, SP_GREETING_SIZE);
	client->greeted = true;
	return GPUSHARE_OK;
}

int client_settle(struct client *client, int64_t deadline)
{
	int status = GPUSHARE_OK;
	bool mine;

	while (status == GPUSHARE_OK && client->unanswered)
		status = take_answer(client, 0, &mine, deadline);
	if (status != GPUSHARE_OK)
		return fail_transfer(client, status);
	return client_is_late(client) ? client_settle_fds(client, deadline) : GPUSHARE_OK;
}

int client_queue(struct client *client, const request *question, uint32_t *out_id)
{
	uint8_t *at = client->out + client->out_size;
	size_t room = GPUSHARE_MESSAGE_MAX - client->out_size, size = 0;
	int status = room < HEADER
			 ? GPUSHARE_E_LIMIT
			 : codec_encode_request(question, at + HEADER, room - HEADER, &size);

	if (status != GPUSHARE_OK)
		return client_fail(client, status,
				   "a request is too large for the protocol, or can't be encoded");
	*out_id = id_of(++client->next_id);
	sp_header(at, *out_id, size);
	client->out_size += HEADER + size;
	client->unanswered++;
	return GPUSHARE_OK;
}

uint32_t client_post(struct client *client, const request *question)
{
	size_t whole;
	uint32_t id;

	if (flush(client) != GPUSHARE_OK || client->out_size ||
	    client_queue(client, question, &id) != GPUSHARE_OK)
		return 0;
	whole = client->out_size;
	if (flush(client) == GPUSHARE_OK && client->out_size < whole)
		return id;
	client->out_size = 0;
	client->unanswered--;
	return 0;
}

int client_exchange(struct client *client, const request *question, int64_t deadline)
{
	int status = GPUSHARE_OK;
	bool answered;
	uint32_t id;

	if (client_is_late(client) || client->out_size)
		status = client_settle(client, deadline);
	id = client->ahead;
	if (status == GPUSHARE_OK && !is_ahead(client, question))
		status = client_queue(client, question, &id);
	if (status != GPUSHARE_OK)
		return status;
	client->asked |= question == &client->request;
	status = client_await(client, id, &answered, deadline);
	if (!answered && client->socket.fd >= 0)
		client_note_late(client, question, id);
	return status;
}

int client_reply_status(struct client *client)
{
	const reply *answer = &client->reply;

	if (answer->status == GPUSHARE_OK)
		return GPUSHARE_OK;
	return client_fail(client, answer->status, "%s",
			   answer->message[0] ? answer->message : status_text(answer->status));
}

int client_decode(struct client *client, const uint8_t *bytes, size_t size)
{
	if (codec_decode_reply(bytes, size, &client->reply) == GPUSHARE_OK)
		return GPUSHARE_OK;
	client_disconnect(client);
	return client_fail(client, GPUSHARE_E_PROTOCOL,
			   "the registry in %s sent an answer that can't be decoded",
			   client->directory);
}
