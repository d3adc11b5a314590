/* SPDX-License-Identifier: MIT */
/* One message there and back, by a deadline. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "client_internal.h"
#include "base/monotonic.h"

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

int client_transfer(struct client *client, bool out, uint8_t *data, size_t size, int64_t deadline)
{
	int fd = client->fd;

	while (size > 0) {
		ssize_t moved = out ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT)
				    : recv(fd, data, size, MSG_DONTWAIT);

		if (moved > 0) {
			client->heard |= !out;
			data += moved;
			size -= (size_t)moved;
			continue;
		}
		if (moved == 0 && !out)
			return GPUSHARE_E_NO_REGISTRY;
		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0 && errno != EAGAIN)
			return GPUSHARE_E_NO_REGISTRY;
		int status = client_wait(fd, out ? POLLOUT : POLLIN, deadline);
		if (status != GPUSHARE_OK)
			return status;
	}
	return GPUSHARE_OK;
}

int client_fail_transfer(struct client *client, int status, const char *doing)
{
	if (status == GPUSHARE_E_TIMED_OUT)
		client_give_up(client);
	else
		client_hang_up(client);
	if (status == GPUSHARE_E_TIMED_OUT)
		return client_fail(
		    client, status,
		    "the registry in %s did not answer in time (%u ms) while %s; is it stopped or "
		    "overloaded? GPUSHARE_TIMEOUT_MS sets the limit",
		    client->directory, client->timeout_ms, doing);
	return client_fail(
	    client, GPUSHARE_E_NO_REGISTRY,
	    "the registry in %s closed the connection while %s; it may have been ended: try again",
	    client->directory, doing);
}

/*
 * The answer, until there are `need` bytes of it at client->wire: *have come so far. As much as there
 * is is taken at once, as an answer takes a while; but not where the answer to a posted question may
 * follow.
 */
static int receive(struct client *client, size_t need, size_t *have, int64_t deadline)
{
	size_t most = client->posted ? need : GPUSHARE_MESSAGE_MAX;

	while (*have < need) {
		int status = client_wait(client->fd, POLLIN, deadline);
		ssize_t got;

		if (status != GPUSHARE_OK)
			return status;
		got = recv(client->fd, client->wire + *have, most - *have, MSG_DONTWAIT);
		if (!got || (got < 0 && errno != EINTR && errno != EAGAIN))
			return GPUSHARE_E_NO_REGISTRY;
		if (got < 0)
			continue;
		client->heard = true;
		*have += (size_t)got;
	}
	return GPUSHARE_OK;
}

/* The next message, at client->wire: *out_size bytes behind its header. It answers `id`, or what was posted. */
static int receive_one(struct client *client, uint32_t id, bool *out_posted, size_t *out_size,
		       int64_t deadline)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	size_t have = 0;
	int status;
	long body;

	client->heard = false;
	status = receive(client, header, &have, deadline);
	if (status != GPUSHARE_OK)
		return status;
	body = sp_header_body_size(client->wire);
	if (body < 0 || (size_t)body > GPUSHARE_MESSAGE_MAX - header ||
	    have > header + (size_t)body)
		return GPUSHARE_E_PROTOCOL;
	*out_posted = sp_id(client->wire + SP_HEADER_SIZE) != id;
	if (*out_posted && !client->posted)
		return GPUSHARE_E_PROTOCOL;
	*out_size = (size_t)body;
	status = receive(client, header + (size_t)body, &have, deadline);
	client->posted -= *out_posted; /* not before: see receive() */
	return status;
}

static uint32_t next_id(struct client *client)
{
	return ++client->next_id | 0x80000000u;
}

/* One message of `size` bytes, already at wire + header, there and back. */
static int exchange(struct client *client, size_t size, size_t *out_size, int64_t deadline)
{
	uint32_t id = next_id(client);
	bool posted = false;
	int status;

	client->heard = false;
	sp_header(client->wire, id, size);
	status = client_transfer(client, true, client->wire, SP_HEADER_SIZE + SP_ID_SIZE + size,
				 deadline);
	if (status != GPUSHARE_OK)
		return client_fail_transfer(client, status, "taking a request");
	do
		status = receive_one(client, id, &posted, out_size, deadline);
	while (status == GPUSHARE_OK && posted);
	if (status == GPUSHARE_E_PROTOCOL) {
		client_hang_up(client);
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "what answers in %s does not speak the registry's protocol",
				   client->directory);
	}
	return status == GPUSHARE_OK ? status : client_fail_transfer(client, status, "answering");
}

int client_settle_posted(struct client *client, int64_t deadline)
{
	int status = GPUSHARE_OK;
	bool posted;
	size_t size;

	while (status == GPUSHARE_OK && client->posted)
		status = receive_one(client, 0, &posted, &size, deadline);
	return status == GPUSHARE_OK ? status : client_fail_transfer(client, status, "answering");
}

bool client_post(struct client *client, const request *question)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	size_t size;
	ssize_t sent;

	if (codec_encode_request(question, client->wire + header, GPUSHARE_MESSAGE_MAX - header,
				 &size) != GPUSHARE_OK)
		return false;
	sp_header(client->wire, next_id(client), size);
	sent = send(client->fd, client->wire, header + size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent == (ssize_t)(header + size)) {
		client->posted++;
		return true;
	}
	if (sent > 0) /* nothing can follow half a message */
		client_give_up(client);
	return false;
}

int client_exchange(struct client *client, const request *question, reply *answer, int64_t deadline)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	size_t size = 0;
	int status = codec_encode_request(question, client->wire + header,
					  GPUSHARE_MESSAGE_MAX - header, &size);

	if (status != GPUSHARE_OK)
		return client_fail(client, status, "a request breaks the protocol's bounds");
	status = exchange(client, size, &size, deadline);
	return status == GPUSHARE_OK
		   ? client_read_answer(client, client->wire + header, size, answer)
		   : status;
}

int client_read_answer(struct client *client, const uint8_t *bytes, size_t size, reply *answer)
{
	int status = codec_decode_reply(bytes, size, answer);

	if (status != GPUSHARE_OK) {
		client_hang_up(client);
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "the registry in %s sent an answer that can't be decoded",
				   client->directory);
	}
	if (answer->status != GPUSHARE_OK)
		return client_fail(client, answer->status, "%s",
				   answer->message[0] ? answer->message
						      : status_text(answer->status));
	return GPUSHARE_OK;
}
