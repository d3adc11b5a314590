// SPDX-License-Identifier: MIT
/*
 * A registry that fails at its NTH request: `tool_failing_registry DIRECTORY REAL HOW NTH`. It
 * listens on DIRECTORY's registry.sock and creates DIRECTORY/ready. It forwards every request to
 * the registry in REAL and returns the answer, one connection at a time. HOW says what it does at
 * the NTH request; after closes, limit and late it works again:
 *
 * dies: exits                      closes: closes that connection
 * mute: never answers any more     limit: answers E_LIMIT
 * late: forwards the request, but closes the connection instead of returning the answer
 * drags: the answer takes 2500 ms, and each later one 100 ms
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <unistd.h>

#include "gpushare.h"

#define GREETING_SIZE 8
#define HEADER_SIZE 9
#define ID_SIZE 4
#define BODY_MAX 65536

static const char *how;
static int left; /* requests until the one that fails, itself included */

static int stop(const char *what)
{
	perror(what);
	exit(1);
}

static struct sockaddr_un address_of(const char *directory)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/registry.sock", directory);
	return address;
}

static int dial(const char *directory)
{
	const struct sockaddr_un to = address_of(directory);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		stop("the real registry");
	return fd;
}

static int put(int fd, const void *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

/* Forward `size` bytes, and keep them in `bytes`; to < 0: only receive them. */
static int relay(int from, int to, unsigned char *bytes, size_t size)
{
	if (recv(from, bytes, size, MSG_WAITALL) != (ssize_t)size)
		return -1;
	return to < 0 ? 0 : put(to, bytes, size);
}

/* Forward one message; to < 0: only receive it. Return the size of its id and body in bytes, or -1
 * if the connection has ended. */
static long message(int from, int to, unsigned char *bytes)
{
	uint64_t size = 0;

	if (relay(from, to, bytes, HEADER_SIZE))
		return -1;
	for (int i = 1; i < HEADER_SIZE; i++)
		size = size << 8 | bytes[i];
	if (size < ID_SIZE || size > BODY_MAX || relay(from, to, bytes + HEADER_SIZE, size))
		return -1;
	return (long)size;
}

/* The body is an encoded Reply (registry.proto): status, a zigzag number, and message. */
static void answer_limit(int fd, const unsigned char *id)
{
	unsigned char wire[HEADER_SIZE + ID_SIZE + 8] = {1};
	const unsigned char body[] = {0x08, -2 * GPUSHARE_E_LIMIT - 1, 0x12, 4, 'f', 'u', 'l', 'l'};

	wire[HEADER_SIZE - 1] = ID_SIZE + sizeof(body);
	memcpy(wire + HEADER_SIZE, id, ID_SIZE);
	memcpy(wire + HEADER_SIZE + ID_SIZE, body, sizeof(body));
	put(fd, wire, sizeof(wire));
}

/* Fail the next request as `how` says. Return 0 if the connection must be closed. */
static int go_wrong(int peer, int real, unsigned char *bytes)
{
	if (!strcmp(how, "drags")) {
		message(peer, real, bytes);
		usleep(2500000);
		return message(real, peer, bytes) >= 0;
	}
	if (!strcmp(how, "late")) {
		message(peer, real, bytes);
		message(real, -1, bytes);
		return 0;
	}
	if (message(peer, -1, bytes) < 0)
		return 0;
	if (!strcmp(how, "dies"))
		exit(0);
	while (!strcmp(how, "mute"))
		pause();
	if (!strcmp(how, "limit"))
		answer_limit(peer, bytes + HEADER_SIZE);
	return !strcmp(how, "limit");
}

static void serve(int peer, int real)
{
	static unsigned char bytes[HEADER_SIZE + BODY_MAX];

	if (relay(peer, real, bytes, GREETING_SIZE) || relay(real, peer, bytes, GREETING_SIZE))
		return;
	for (;;) {
		if (--left == 0) {
			if (!go_wrong(peer, real, bytes))
				return;
		} else {
			if (message(peer, real, bytes) < 0)
				return;
			if (left < 0 && !strcmp(how, "drags"))
				usleep(100000);
			if (message(real, peer, bytes) < 0)
				return;
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un address;
	char ready[256];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (argc != 5)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	how = argv[3];
	left = atoi(argv[4]);
	address = address_of(argv[1]);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) || listen(fd, 8))
		stop(address.sun_path);
	snprintf(ready, sizeof(ready), "%s/ready", argv[1]);
	close(open(ready, O_CREAT | O_WRONLY, 0600));
	for (;;) {
		int peer = accept(fd, NULL, NULL), real;

		if (peer < 0)
			continue;
		real = dial(argv[2]);
		serve(peer, real);
		close(real);
		close(peer);
	}
}
