/* SPDX-License-Identifier: MIT */
/*
 * Connections that were not answered in time. The session_key is one of theirs, or is about to be: the
 * registry may read their hello yet. Closed before the next one's hello is answered it ends, and all
 * that is shared and attached with it.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
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

/* Its hello has been, too late. The answer stays where it is. */
static bool is_answered(struct client *client, const struct client_socket *socket)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	ssize_t got =
	    client_socket_is_ours(socket)
		? recv(socket->fd, client->wire, GPUSHARE_MESSAGE_MAX, MSG_PEEK | MSG_DONTWAIT)
		: -1;
	const uint8_t *body = client->wire + header;

	return got > (ssize_t)header &&
	       sp_header_body_size(client->wire) == got - (ssize_t)header &&
	       codec_decode_reply(body, (size_t)got - header, &client->reply) == GPUSHARE_OK &&
	       client->reply.status == GPUSHARE_OK &&
	       client->reply.which_body == gpushare_Reply_hello_tag;
}

/*
 * Those before the latest one that was answered have the session_key no more, nor get it any more: the registry
 * looks at Hello.attempt. Where none was, the first one is whose session_key it was, and of the others the
 * oldest is most likely to have had its turn before them.
 */
static void make_room(struct client *client)
{
	unsigned int latest = client->given_up_count;

	while (--latest > 0 && !is_answered(client, &client->given_up[latest]))
		;
	for (unsigned int before = latest; before-- > 0;)
		drop(client, before);
	if (!latest)
		drop(client, 1);
}

void client_give_up(struct client *client)
{
	if (client->fd < 0 || !client_has_session(client)) {
		client_hang_up(client);
		return;
	}
	if (client->given_up_count == CLIENT_GIVEN_UP)
		make_room(client);
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
