/* SPDX-License-Identifier: MIT */
#include "client_fds.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "client_internal.h"
#include "monotonic.h"

#define ENDING_MS 100

static int fail_transfer(struct client *client, int status)
{
	switch (status) {
	case GPUSHARE_E_TIMED_OUT:
		return client_fail(
		    client, status,
		    "the registry in %s did not take or give file descriptors in time "
		    "(%u ms); is it stopped or overloaded? GPUSHARE_TIMEOUT_MS sets the "
		    "limit",
		    client->directory, client->timeout_ms);
	case GPUSHARE_E_NO_REGISTRY:
		return client_fail(
		    client, status,
		    "the registry in %s closed the connection to " GPUSHARE_FDS_SOCKET
		    "; it may have been ended: try again",
		    client->directory);
	case GPUSHARE_E_PROTOCOL:
		return client_fail(client, status,
				   "what answers at " GPUSHARE_FDS_SOCKET
				   " in %s does not speak the registry's protocol",
				   client->directory);
	case GPUSHARE_E_LIMIT:
		return client_fail(
		    client, status,
		    "this process can have or send no more file descriptors; see 'ulimit -n'");
	default:
		return client_fail(
		    client, status,
		    "file descriptors could not be sent to the registry in %s: %s; are they "
		    "open?",
		    client->directory, status_text(status));
	}
}

/* What the registry itself says. */
static int fail_answer(struct client *client, int status)
{
	switch (status) {
	case GPUSHARE_E_LIMIT:
		return client_fail(
		    client, status,
		    "the registry in %s takes no more file descriptors, of this process, of "
		    "this user (user_descriptors in registry.conf) or at all (descriptors); "
		    "free some buffers, or raise its 'ulimit -n'",
		    client->directory);
	case GPUSHARE_E_INVALID:
		return client_fail(
		    client, status,
		    "the registry in %s takes memory (a memfd, a dma-buf, memory of NVIDIA's "
		    "driver), not a socket or a directory or another file",
		    client->directory);
	case GPUSHARE_E_NOT_FOUND:
		return client_fail(
		    client, status,
		    "the registry in %s keeps no descriptor for that ticket any more; it "
		    "serves once and for ten seconds: attach again",
		    client->directory);
	default:
		return client_fail(client, status < 0 ? status : GPUSHARE_E_PROTOCOL,
				   "the registry in %s refused at " GPUSHARE_FDS_SOCKET ": %s",
				   client->directory, status_text(status));
	}
}

/* Whether the connection ends in a moment: of a registry that is killed this socket may go first. A
 * connection that did not end is not waited for again: after a chroot() each allocation would wait. */
static bool is_ending(struct client *client)
{
	int64_t until_ms = monotonic_ms();

	if (client->fdless != client->connections)
		until_ms += ENDING_MS;
	while (!client_has_ended(client)) {
		if (monotonic_ms() >= until_ms) {
			client->fdless = client->connections;
			return false;
		}
		poll(NULL, 0, 1);
	}
	return true;
}

static int reach(struct client *client, int64_t deadline_ms, int *out_fd)
{
	char path[GPUSHARE_PATH_MAX];

	for (;;) {
		int fd, status = client_connect_by(client, deadline_ms);

		if (status)
			return status;
		directory_fds_socket(client->directory, path); /* it had room for the other one */
		fd = client_dial(path, SOCK_SEQPACKET);
		if (fd >= 0) {
			*out_fd = fd;
			return GPUSHARE_OK;
		}
		if (fd != -EAGAIN && fd != -ENOENT && fd != -ECONNREFUSED)
			return client_fail(
			    client, fd == -EACCES ? GPUSHARE_E_DENIED : status_from_errno(-fd),
			    "the registry's socket %s can't be connected to: %s", path,
			    strerror(-fd));
		if (fd != -EAGAIN && !is_ending(client))
			return client_fail(
			    client, GPUSHARE_E_NOT_SUPPORTED,
			    "the registry in %s takes no file descriptors; it is older than "
			    "gpushare " GPUSHARE_VERSION ": end it and try again",
			    client->directory);
		if (monotonic_ms() + CLIENT_RETRY_MS >= deadline_ms)
			return fail_transfer(client, GPUSHARE_E_TIMED_OUT);
		if (fd != -EAGAIN)
			client_disconnect(client); /* the next turn starts another registry */
		else
			poll(NULL, 0, CLIENT_RETRY_MS);
	}
}

static int send_by(int fd, const struct fds_message *ask, const int *fds, size_t count,
		   int64_t deadline_ms)
{
	int status;

	while ((status = fds_send(fd, ask, fds, count)) == GPUSHARE_E_TIMED_OUT) {
		if ((status = client_wait(fd, POLLOUT, deadline_ms)))
			return status;
	}
	return status;
}

static int receive_by(int fd, struct fds_message *answer, int fds[FDS_MAX], size_t *out_count,
		      int64_t deadline_ms)
{
	int status;

	while ((status = fds_receive(fd, answer, fds, out_count)) == GPUSHARE_E_TIMED_OUT) {
		if ((status = client_wait(fd, POLLIN, deadline_ms)))
			return status;
	}
	return status;
}

/* An answer to another question is none, and `want` descriptors come or a status. */
static int check_answer(struct client *client, const struct fds_message *ask,
			const struct fds_message *answer, size_t want, size_t got)
{
	if (answer->verb != ask->verb || (answer->status ? got != 0 : got != want) ||
	    (!answer->status && answer->count != ask->count))
		return fail_transfer(client, GPUSHARE_E_PROTOCOL);
	return answer->status ? fail_answer(client, answer->status) : GPUSHARE_OK;
}

/* Somebody may have removed the directory under one registry, and started another. */
static bool is_one_registry(const struct client *client, int fd)
{
	struct ucred one, other;
	socklen_t size = sizeof(one);

	return !getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &one, &size) &&
	       !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) && one.pid == other.pid;
}

/* One message there and one back; `want` descriptors come into `in`. *out_closed: the registry ended
 * with it in its hands. */
static int exchange_once(struct client *client, struct fds_message *ask, const int *out,
			 size_t out_count, int in[FDS_MAX], size_t want, int64_t deadline_ms,
			 bool *out_closed)
{
	_cleanup_close_ int fd = -1;
	struct fds_message *answer = &client->fds_answer;
	size_t got = 0;
	int status = reach(client, deadline_ms, &fd);

	*out_closed = false;
	if (!status)
		status = client_check_peer(client, fd);
	if (!status && (ask->verb == FDS_CHANGES || ask->verb == FDS_INDEX) &&
	    !is_one_registry(client, fd))
		status = fail_transfer(client, GPUSHARE_E_NO_REGISTRY);
	if (status)
		return status;
	status = send_by(fd, ask, out, out_count, deadline_ms);
	if (!status)
		status = receive_by(fd, answer, in, &got, deadline_ms);
	*out_closed = status == GPUSHARE_E_NO_REGISTRY;
	if (status)
		return fail_transfer(client, status);
	status = check_answer(client, ask, answer, want, got);
	if (status)
		fds_close(in, got);
	else
		memcpy(ask->tickets, answer->tickets, sizeof(ask->tickets));
	return status;
}

/* What it did not answer another one may be asked: a deposit is used up by a share alone. */
static int exchange(struct client *client, struct fds_message *ask, const int *out,
		    size_t out_count, int in[FDS_MAX], size_t want, int64_t deadline_ms)
{
	struct client_endings endings = {0};
	bool closed;
	int status;

	do {
		status = exchange_once(client, ask, out, out_count, in, want, deadline_ms, &closed);
	} while (status && closed && client_outlives(client->server, &endings, deadline_ms));
	return status;
}

static struct fds_message *begin(struct client *client, enum fds_verb verb, size_t count)
{
	client->fds_ask = (struct fds_message){
	    .version = FDS_VERSION, .verb = (uint8_t)verb, .count = (uint16_t)count};
	return &client->fds_ask;
}

int client_deposit(struct client *client, const int *fds, size_t count,
		   uint8_t (*out_tickets)[GPUSHARE_TICKET_SIZE])
{
	int64_t deadline_ms = monotonic_ms() + client->timeout_ms;

	while (count) {
		size_t part = count < FDS_MAX ? count : FDS_MAX;
		struct fds_message *message = begin(client, FDS_DEPOSIT, part);
		int status = exchange(client, message, fds, part, client->fds_came, 0, deadline_ms);

		if (status)
			return status;
		memcpy(out_tickets, message->tickets, part * sizeof(*out_tickets));
		out_tickets += part;
		fds += part;
		count -= part;
	}
	return GPUSHARE_OK;
}

int client_page(struct client *client, enum fds_verb verb, int *out_fd)
{
	int64_t deadline_ms = monotonic_ms() + client->timeout_ms;
	int status =
	    exchange(client, begin(client, verb, 0), NULL, 0, client->fds_came, 1, deadline_ms);

	if (!status)
		*out_fd = client->fds_came[0];
	return status;
}

int client_withdraw(struct client *client, const uint8_t ticket[GPUSHARE_TICKET_SIZE], int *out_fd)
{
	struct fds_message *message = begin(client, FDS_WITHDRAW, 1);
	int64_t deadline_ms = monotonic_ms() + client->timeout_ms;
	int status;

	memcpy(message->tickets[0], ticket, GPUSHARE_TICKET_SIZE);
	status = exchange(client, message, NULL, 0, client->fds_came, 1, deadline_ms);
	if (!status)
		*out_fd = client->fds_came[0];
	return status;
}
