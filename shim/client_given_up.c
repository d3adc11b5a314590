/* SPDX-License-Identifier: MIT */
/*
 * Connections that were not answered in time. The lease is one of theirs, or is about to be: the
 * registry may read their hello yet. Closed before the next one's hello is answered it ends, and all
 * that is shared and attached with it.
 */
#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"
#include "client_internal.h"

bool client_socket_is_ours(const struct client_socket *socket)
{
	struct stat is;

	return socket->fd >= 0 && !fstat(socket->fd, &is) && is.st_dev == socket->device &&
	       is.st_ino == socket->inode;
}

static void drop(struct client *client, unsigned int at)
{
	if (client_socket_is_ours(&client->given_up[at]))
		close(client->given_up[at].fd);
	client->given_up_count--;
	memmove(&client->given_up[at], &client->given_up[at + 1],
		(client->given_up_count - at) * sizeof(client->given_up[0]));
}

void client_give_up(struct client *client)
{
	if (client->fd < 0 || !client_has_lease(client)) {
		client_hang_up(client);
		return;
	}
	/* The first one is whose lease it was: that of the others nobody knows. */
	if (client->given_up_count == CLIENT_GIVEN_UP)
		drop(client, 1);
	client->given_up[client->given_up_count++] = (struct client_socket){
	    .fd = client->fd, .device = client->fd_device, .inode = client->fd_inode};
	client->fd = -1;
}

void client_drop_given_up(struct client *client)
{
	while (client->given_up_count)
		drop(client, client->given_up_count - 1);
}

void client_drop_ended(struct client *client)
{
	for (unsigned int at = client->given_up_count; at-- > 0;) {
		const struct client_socket *socket = &client->given_up[at];

		if (!client_socket_is_ours(socket) || client_fd_has_ended(socket->fd))
			drop(client, at);
	}
}
