/* SPDX-License-Identifier: MIT */
/*
 * A connection that only tells whether a registry runs: a listener takes connections while its
 * process is stopped, but it greets none of them then.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "client_internal.h"

void client_drop_probe(struct client *client)
{
	if (client_socket_is_ours(&client->probe))
		close(client->probe.fd);
	client->probe.fd = -1;
}

/* A connection that nng 1.5.2 takes and that ends without a greeting makes its listener deaf for 100 ms. */
static bool greet(int fd)
{
	uint8_t mine[SP_GREETING_SIZE];

	sp_greeting(mine, SP_REQ);
	return send(fd, mine, sizeof(mine), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(mine);
}

/* OK: one is there, and says nothing so far. */
static int dial(struct client *client)
{
	char path[GPUSHARE_PATH_MAX];
	struct stat is;
	int fd;

	if (!client->directory[0] || directory_socket(client->directory, path) != GPUSHARE_OK)
		return GPUSHARE_E_NO_REGISTRY;
	fd = client_dial(path, SOCK_STREAM);
	if (fd < 0)
		return fd == -EAGAIN ? GPUSHARE_OK : GPUSHARE_E_NO_REGISTRY;
	if (!greet(fd) || fstat(fd, &is)) {
		close(fd);
		return GPUSHARE_OK;
	}
	client->probe = (struct client_socket){.fd = fd, .device = is.st_dev, .inode = is.st_ino};
	return GPUSHARE_OK;
}

int client_probe(struct client *client)
{
	ssize_t got = -1;
	char byte;
	int status;

	if (client_socket_is_ours(&client->probe)) {
		got = recv(client->probe.fd, &byte, 1, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return GPUSHARE_E_TIMED_OUT;
		client_drop_probe(client);
	}
	if (got > 0)
		return GPUSHARE_OK;
	status = dial(client);
	return status == GPUSHARE_OK ? GPUSHARE_E_TIMED_OUT : client_await_next(client, status);
}
