// SPDX-License-Identifier: MIT
/*
 * A registry that becomes slow: `tool_slow_registry DIRECTORY REAL NTH`. It listens on DIRECTORY's
 * registry.sock and creates DIRECTORY/ready. It forwards every request to the registry in REAL and
 * returns the answer, one connection at a time. The answer to its NTH request takes 2500 ms, and
 * each later one 100 ms.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <unistd.h>

#define GREETING_SIZE 8
#define HEADER_SIZE 9
#define BODY_MAX 65536

static int left; /* requests until the slow one, itself included */

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

static int relay(int from, int to, unsigned char *bytes, size_t size)
{
	if (recv(from, bytes, size, MSG_WAITALL) != (ssize_t)size)
		return -1;
	return send(to, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

/* Forward one message. Return -1 if the connection has ended. */
static int message(int from, int to)
{
	static unsigned char bytes[HEADER_SIZE + BODY_MAX];
	uint64_t size = 0;

	if (relay(from, to, bytes, HEADER_SIZE))
		return -1;
	for (int i = 1; i < HEADER_SIZE; i++)
		size = size << 8 | bytes[i];
	return size > BODY_MAX ? -1 : relay(from, to, bytes, size);
}

static void serve(int peer, int real)
{
	unsigned char greeting[GREETING_SIZE];

	if (relay(peer, real, greeting, GREETING_SIZE) ||
	    relay(real, peer, greeting, GREETING_SIZE))
		return;
	while (!message(peer, real)) {
		usleep(--left > 0 ? 0 : left ? 100000 : 2500000);
		if (message(real, peer))
			return;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un address;
	char ready[256];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (argc != 4)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	left = atoi(argv[3]);
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
