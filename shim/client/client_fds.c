/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client_internal.h"
#include "base/monotonic.h"

static int fail_transfer(struct client *client, int status)
{
	switch (status) {
	case GPUSHARE_E_TIMED_OUT:
	case GPUSHARE_E_NO_REGISTRY:
	case GPUSHARE_E_PROTOCOL:
		return client_fail_transfer(client, status, "passing a file descriptor");
	case GPUSHARE_E_LIMIT:
		return client_fail(
		    client, status,
		    "this process can have or send no more file descriptors; see 'ulimit -n'");
	default:
		return client_fail(client, status,
				   "a file descriptor can't be sent to the registry in %s: %s; is "
				   "the descriptor open?",
				   client->directory, status_text(status));
	}
}

/* The registry rejected the message. Don't return its E_TIMED_OUT: that would mean that no answer
 * came. */
static int fail_answer(struct client *client, int status)
{
	if (status == GPUSHARE_E_LIMIT)
		return client_fail(
		    client, status,
		    "the registry in %s takes no more file descriptors from this process, or from "
		    "any; free some buffers, or raise the registry's 'ulimit -n'",
		    client->directory);
	return client_fail(
	    client, status < 0 && status != GPUSHARE_E_TIMED_OUT ? status : GPUSHARE_E_PROTOCOL,
	    "the registry in %s refused a request with a file descriptor (over " GPUSHARE_FDS_SOCKET
	    "): %s",
	    client->directory, status_text(status));
}

/* Does the main connection end within `within_ms`, and by the deadline? When a registry is killed,
 * fds.sock may end first. If the connection outlived one such wait, later calls don't wait:
 * otherwise each allocation would wait after a chroot(), which hides fds.sock. */
static bool is_ending(struct client *client, int within_ms, int64_t deadline_ms)
{
	int64_t until_ms = monotonic_ms() + within_ms;
	bool outlived = client->outlived == client->connections, whole = until_ms <= deadline_ms;

	if (!whole)
		until_ms = deadline_ms;
	if (client_wait(client->socket.fd, POLLRDHUP, outlived ? 0 : until_ms) == GPUSHARE_OK)
		return true;
	if (whole)
		client->outlived = client->connections;
	return false;
}

static int dial(struct client *client, int64_t deadline_ms, int *out_fd)
{
	char path[GPUSHARE_PATH_MAX];
	int fd;

	directory_join(client->directory, GPUSHARE_FDS_SOCKET,
		       path); /* fits: the main socket's longer path did */
	while ((fd = client_dial(path, SOCK_SEQPACKET)) == -EAGAIN) {
		if (monotonic_ms() + CLIENT_RETRY_MS >= deadline_ms)
			return fail_transfer(client, GPUSHARE_E_TIMED_OUT);
		poll(NULL, 0, CLIENT_RETRY_MS);
	}
	*out_fd = fd;
	if (fd >= 0)
		return GPUSHARE_OK;
	if (fd != -ENOENT && fd != -ECONNREFUSED)
		return client_fail(
		    client, fd == -EACCES ? GPUSHARE_E_DENIED : status_from_errno(-fd),
		    "the registry's socket %s can't be connected to: %s", path, strerror(-fd));
	if (is_ending(client, ENDING_MS, deadline_ms))
		return fail_transfer(client, GPUSHARE_E_NO_REGISTRY);
	if (monotonic_ms() >= deadline_ms)
		return fail_transfer(client, GPUSHARE_E_TIMED_OUT);
	return client_fail(client, GPUSHARE_E_NOT_SUPPORTED,
			   "the registry in %s takes no file descriptors; it is older than "
			   "gpushare " GPUSHARE_VERSION ": end it and try again",
			   client->directory);
}

/* Do both sockets belong to one registry? If not, the directory of a running registry was removed,
 * and another registry was started there. */
static bool is_one_registry(const struct client *client, int fd)
{
	struct ucred one, other;
	socklen_t size = sizeof(one);

	return !getsockopt(client->socket.fd, SOL_SOCKET, SO_PEERCRED, &one, &size) &&
	       !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) && one.pid == other.pid;
}

/* If another registry serves the directory now, the main connection is useless, too. */
static int connect_fds(struct client *client, int64_t deadline_ms, int *out_fd)
{
	int fd = -1, status = dial(client, deadline_ms, &fd);

	if (!status)
		status = client_check_peer(client, fd);
	if (!status && !is_one_registry(client, fd)) {
		client_disconnect(client);
		status = fail_transfer(client, GPUSHARE_E_NO_REGISTRY);
	}
	if (!status)
		*out_fd = fd;
	else if (fd >= 0)
		close(fd);
	return status;
}

static struct fds_header header_of(const struct client *client, enum fds_verb verb)
{
	struct fds_header header = {
	    .version = FDS_VERSION, .verb = (uint8_t)verb, .connection = client->connection};

	memcpy(header.session, client->session_key, sizeof(header.session));
	return header;
}

/* Send `size` bytes at client->out, with the descriptor `goes`; -1: none. */
static int send_ask(struct client *client, int fd, enum fds_verb verb, size_t size, int goes,
		    int64_t deadline_ms)
{
	const struct fds_header header = header_of(client, verb);
	int status;

	while ((status = fds_send(fd, &header, client->out, size, goes)) == GPUSHARE_E_TIMED_OUT) {
		if ((status = client_wait(fd, POLLOUT, deadline_ms)))
			break;
	}
	return status ? fail_transfer(client, status) : GPUSHARE_OK;
}

static int receive(struct client *client, int fd, enum fds_verb verb, size_t room, size_t *out_size,
		   int *out_came, int64_t deadline_ms)
{
	struct fds_header header;
	int status;

	while (!(status = client_wait(fd, POLLIN, deadline_ms))) {
		status = fds_receive(fd, &header, client->in, room, out_size, out_came);
		if (status != GPUSHARE_E_TIMED_OUT)
			break;
	}
	if (!status && header.verb != verb)
		status = GPUSHARE_E_PROTOCOL;
	if (status)
		return fail_transfer(client, status);
	return header.status ? fail_answer(client, header.status) : GPUSHARE_OK;
}

int client_page(struct client *client, enum fds_verb verb, int *out_fd)
{
	int64_t deadline_ms = monotonic_ms() + client->timeout_ms;
	int status = client_connect_by(client, deadline_ms), came = -1;
	_cleanup_close_ int fd = -1;
	size_t size;

	if (!status)
		status = connect_fds(client, deadline_ms, &fd);
	if (!status)
		status = send_ask(client, fd, verb, 0, -1, deadline_ms);
	if (!status)
		status = receive(client, fd, verb, 0, &size, &came, deadline_ms);
	if (!status && came < 0)
		status = fail_transfer(client, GPUSHARE_E_PROTOCOL);
	if (!status)
		*out_fd = came;
	return status;
}

/* A request failed, but the registry may have carried it out. If the registry has ended, the main
 * connection is useless; else a resync is needed. */
static int doubt(struct client *client, int status, int within_ms, int64_t deadline_ms)
{
	client_close_socket(client, &client->fds);
	if (client->socket.fd < 0)
		return status;
	if (status == GPUSHARE_E_NO_REGISTRY && is_ending(client, within_ms, deadline_ms))
		client_disconnect(client);
	else
		client_tell_anew(client);
	return status;
}

static int connect_kept(struct client *client, int64_t deadline_ms)
{
	int fd, status;

	client_close_socket(client, &client->fds);
	status = connect_fds(client, deadline_ms, &fd);
	if (status || client_socket_of(fd, &client->fds))
		return status;
	close(fd);
	return fail_transfer(client, GPUSHARE_E_IO);
}

bool client_reach_fds(struct client *client, int64_t deadline_ms)
{
	return client_socket_is_ours(&client->fds) || !connect_kept(client, deadline_ms);
}

/* Send `size` bytes at client->out over client->fds, or over a new connection if the registry has
 * closed that one. */
static int send_kept(struct client *client, size_t size, int64_t deadline_ms)
{
	int status = GPUSHARE_E_NO_REGISTRY;

	if (client_socket_is_ours(&client->fds))
		status = send_ask(client, client->fds.fd, FDS_ASK, size, client->goes, deadline_ms);
	if (status != GPUSHARE_E_NO_REGISTRY)
		return status;
	status = connect_kept(client, deadline_ms);
	return status ? status
		      : send_ask(client, client->fds.fd, FDS_ASK, size, client->goes, deadline_ms);
}

int client_exchange_fds(struct client *client, const request *question, int ending_ms,
			int64_t deadline_ms)
{
	size_t size = 0;
	int status = client_settle(client, deadline_ms);

	if (status)
		return status;
	client->next_id++; /* count the request like others, although its answer has no id */
	status = codec_encode_request(question, client->out, GPUSHARE_MESSAGE_MAX, &size);
	if (status)
		return client_fail(client, status,
				   "a request is too large for the protocol, or can't be encoded");
	status = send_kept(client, size, deadline_ms);
	if (status)
		return status == GPUSHARE_E_NO_REGISTRY
			   ? doubt(client, status, ending_ms, deadline_ms)
			   : status;
	client->asked = true;
	status = receive(client, client->fds.fd, FDS_ASK, GPUSHARE_MESSAGE_MAX, &size,
			 &client->came, deadline_ms);
	if (status == GPUSHARE_E_TIMED_OUT)
		client_note_late(client, question, 0);
	else if (!status)
		status = client_decode(client, client->in, size);
	else
		return doubt(client, status, ending_ms, deadline_ms);
	return status ? status : client_reply_status(client);
}

int client_settle_fds(struct client *client, int64_t deadline_ms)
{
	size_t size = 0;
	int came = -1, status = GPUSHARE_E_NO_REGISTRY;

	if (client_socket_is_ours(&client->fds))
		status = receive(client, client->fds.fd, FDS_ASK, GPUSHARE_MESSAGE_MAX, &size,
				 &came, deadline_ms);
	if (status == GPUSHARE_E_TIMED_OUT)
		return status;
	if (came >= 0)
		close(came);
	if (!status)
		status = client_decode(client, client->in, size);
	if (!status) {
		client_undo(client);
		return GPUSHARE_OK;
	}
	client->late.verb = 0;
	doubt(client, status, ENDING_MS, deadline_ms);
	return client->socket.fd < 0 ? status : GPUSHARE_OK;
}

struct client_pipeline *client_pipeline_open(struct client *client)
{
	struct client_pipeline *pipeline;
	int fd = -1;

	/* A request of the pipeline must not overtake a resync that is due, or requests that are
	 * unanswered on the main connection. */
	if (!client_stands(client) || client->fresh || client_is_late(client) || client->unanswered)
		return NULL;
	if (connect_fds(client, monotonic_ms() + client->timeout_ms, &fd) ||
	    !(pipeline = malloc(sizeof(*pipeline)))) {
		fds_close(&fd, fd >= 0);
		return NULL;
	}
	pipeline->fd = fd;
	pipeline->header = header_of(client, FDS_ASK);
	return pipeline;
}

int client_pipeline_send(struct client_pipeline *pipeline, const request *question)
{
	size_t size;
	int status =
	    codec_encode_request(question, pipeline->bytes, sizeof(pipeline->bytes), &size);

	return status ? status
		      : fds_send(pipeline->fd, &pipeline->header, pipeline->bytes, size, -1);
}

int client_pipeline_receive(struct client_pipeline *pipeline, int64_t deadline_ms, int *out_fd)
{
	struct fds_header header;
	size_t size = 0;
	int status;

	*out_fd = -1;
	pipeline->waited = false;
	while ((status = fds_receive(pipeline->fd, &header, pipeline->bytes,
				     sizeof(pipeline->bytes), &size, out_fd)) ==
	       GPUSHARE_E_TIMED_OUT) {
		pipeline->waited = true;
		if ((status = client_wait(pipeline->fd, POLLIN, deadline_ms)))
			break;
	}
	if (!status && (header.verb != FDS_ASK || header.status))
		status = GPUSHARE_E_PROTOCOL;
	if (!status)
		status = codec_decode_reply(pipeline->bytes, size, &pipeline->answer);
	if (status) {
		fds_close(out_fd, *out_fd >= 0);
		*out_fd = -1;
	}
	return status;
}

struct client_pipeline *client_pipeline_close(struct client_pipeline *pipeline)
{
	if (!pipeline)
		return NULL;
	shutdown(pipeline->fd, SHUT_RDWR); /* a forked child may hold it too */
	close(pipeline->fd);
	free(pipeline);
	return NULL;
}
