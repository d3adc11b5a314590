// SPDX-License-Identifier: MIT
/* Servers that send the message back: the share of the kernel, and of nng, in a round trip. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "protocol.h"

bool ask_echo_open(struct asker *asker)
{
	asker->fd = ask_dial("echo.sock", SOCK_SEQPACKET);
	return asker->fd >= 0;
}

bool ask_echo(struct asker *asker, const char *name)
{
	char sent[ASK_MESSAGE] = "";

	memcpy(sent, name, strnlen(name, sizeof(sent)));
	return ask_move(asker->fd, true, sent, sizeof(sent)) &&
	       ask_move(asker->fd, false, asker->wire, sizeof(sent)) &&
	       !memcmp(sent, asker->wire, sizeof(sent));
}

bool ask_nng_echo_open(struct asker *asker)
{
	uint8_t greeting[SP_GREETING_SIZE];

	asker->fd = ask_dial("nng.sock", SOCK_STREAM);
	sp_greeting(greeting, SP_REQ);
	return asker->fd >= 0 && ask_move(asker->fd, true, greeting, sizeof(greeting)) &&
	       ask_move(asker->fd, false, greeting, sizeof(greeting)) &&
	       sp_greeting_is(greeting, SP_REP);
}

bool ask_nng_echo(struct asker *asker, const char *name)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	char *body = (char *)asker->wire + header;

	memset(body, 0, ASK_MESSAGE);
	memcpy(body, name, strnlen(name, ASK_MESSAGE));
	sp_header(asker->wire, ++asker->id | 0x80000000u, ASK_MESSAGE);
	return ask_move(asker->fd, true, asker->wire, header + ASK_MESSAGE) &&
	       ask_move(asker->fd, false, asker->wire, header) &&
	       sp_header_body_size(asker->wire) == ASK_MESSAGE &&
	       ask_move(asker->fd, false, body, ASK_MESSAGE) && !strncmp(body, name, ASK_MESSAGE);
}

bool ask_fd_echo_open(struct asker *asker)
{
	return true;
}

static int take_fd(int fd)
{
	char bytes[ASK_MESSAGE], control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {bytes, sizeof(bytes)};
	struct msghdr answer = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(fd, &answer, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = got == sizeof(bytes) ? CMSG_FIRSTHDR(&answer) : NULL;
	int came = -1;

	if (header)
		memcpy(&came, CMSG_DATA(header), sizeof(came));
	return came;
}

bool ask_fd_echo(struct asker *asker, const char *name)
{
	char sent[ASK_MESSAGE] = "";
	int fd = ask_dial("fd.sock", SOCK_SEQPACKET), came = -1;

	memcpy(sent, name, strnlen(name, sizeof(sent)));
	if (fd >= 0 && ask_move(fd, true, sent, sizeof(sent)))
		came = take_fd(fd);
	if (came >= 0)
		close(came);
	close(fd);
	return came >= 0;
}
