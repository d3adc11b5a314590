/* SPDX-License-Identifier: MIT */
/* One message there and back, by a deadline. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "client_internal.h"
#include "monotonic.h"

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
 * is is taken at once: nothing comes that was not asked for, and an answer takes a while.
 */
static int receive(struct client *client, size_t need, size_t *have, int64_t deadline)
{
	while (*have < need) {
		int status = client_wait(client->fd, POLLIN, deadline);
		ssize_t got;

		if (status != GPUSHARE_OK)
			return status;
		got = recv(client->fd, client->wire + *have, GPUSHARE_MESSAGE_MAX - *have,
			   MSG_DONTWAIT);
		if (!got || (got < 0 && errno != EINTR && errno != EAGAIN))
			return GPUSHARE_E_NO_REGISTRY;
		if (got < 0)
			continue;
		client->heard = true;
		*have += (size_t)got;
	}
	return GPUSHARE_OK;
}

/* One message of `size` bytes, already at wire + header, there and back. */
static int exchange(struct client *client, size_t size, size_t *out_size, int64_t deadline)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	uint32_t id = ++client->next_id | 0x80000000u;
	size_t have = 0;
	int status;
	long body;

	client->heard = false;
	sp_header(client->wire, id, size);
	status = client_transfer(client, true, client->wire, header + size, deadline);
	if (status != GPUSHARE_OK)
		return client_fail_transfer(client, status, "taking a request");
	status = receive(client, header, &have, deadline);
	if (status != GPUSHARE_OK)
		return client_fail_transfer(client, status, "answering");
	body = sp_header_body_size(client->wire);
	if (body < 0 || (size_t)body > GPUSHARE_MESSAGE_MAX - header ||
	    have > header + (size_t)body || sp_id(client->wire + SP_HEADER_SIZE) != id) {
		client_hang_up(client);
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "what answers in %s does not speak the registry's protocol",
				   client->directory);
	}
	status = receive(client, header + (size_t)body, &have, deadline);
	if (status != GPUSHARE_OK)
		return client_fail_transfer(client, status, "answering");
	*out_size = (size_t)body;
	return GPUSHARE_OK;
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
	if (status != GPUSHARE_OK)
		return status;
	status = codec_decode_reply(client->wire + header, size, answer);
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
