// SPDX-License-Identifier: MIT
/*
 * A registry that misbehaves: `tool_fake_registry DIRECTORY HOW...`. It listens on DIRECTORY's
 * registry.sock, creates DIRECTORY/ready, and treats every connection as HOW says until it is
 * killed. All but silent and noise send the greeting and read a request first.
 *
 * silent: sends nothing                      mute: then sends nothing
 * noise: sends noise instead of a greeting   garbage: sends an answer with noise as its body
 * oversize: announces an answer of 2^40 bytes
 * wrongid: sends an answer with another id than the request's
 * drip: sends an answer by one byte every 50 ms, without an end
 * dies: exits                               closes: closes the connection before the greeting
 * slow REAL NTH: forwards every request to the registry in REAL and returns the answer; on
 *                registry.sock, one connection at a time. The answer to its NTH request takes
 *                2500 ms, and to each later one on registry.sock 100 ms.
 * deaf REAL NTH: the same, but later requests on fds.sock get no answer
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

static const unsigned char greeting[8] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

static void nap(long ms)
{
	const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

static struct sockaddr_un address_of(const char *directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/%s", directory, name);
	return address;
}

static int listen_at(const char *directory, const char *name, int type)
{
	struct sockaddr_un address = address_of(directory, name);
	int fd = socket(AF_UNIX, type, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 8)) {
		fprintf(stderr, "fake registry: %s: %s\n", address.sun_path, strerror(errno));
		exit(1);
	}
	return fd;
}

static int put(int fd, const void *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

static int get(int fd, void *bytes, size_t size)
{
	return recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size ? 0 : -1;
}

/* Read the peer's greeting and one whole request. Set *id to the request's id. */
static int question(int fd, unsigned char id[4])
{
	unsigned char header[9], body[65536];
	uint64_t size = 0;

	if (get(fd, header, 8) || get(fd, header, 9))
		return -1;
	for (int i = 1; i < 9; i++)
		size = size << 8 | header[i];
	if (size < 4 || size > sizeof(body) || get(fd, body, size))
		return -1;
	memcpy(id, body, 4);
	return 0;
}

static void answer(int fd, const unsigned char id[4], uint64_t size, const void *body, size_t sent)
{
	unsigned char header[13] = {1};

	for (int i = 0; i < 8; i++)
		header[1 + i] = (unsigned char)((size + 4) >> (56 - 8 * i));
	memcpy(header + 9, id, 4);
	if (!put(fd, header, sizeof(header)))
		put(fd, body, sent);
}

static void drip(int fd, const unsigned char id[4])
{
	answer(fd, id, 1000, "", 0);
	while (!put(fd, "\x0a", 1))
		nap(50);
}

static void serve(int fd, const char *how)
{
	unsigned char noise[64], id[4] = {0x80, 0, 0, 1};

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (unsigned char)(i * 73 + 129);
	if (!strcmp(how, "closes"))
		return;
	if (!strcmp(how, "silent")) {
		for (;;)
			pause();
	}
	if (!strcmp(how, "noise")) {
		put(fd, noise, sizeof(noise));
		nap(60000); /* a closed connection would be another fault */
		return;
	}
	if (put(fd, greeting, sizeof(greeting)) || question(fd, id))
		return;
	if (!strcmp(how, "dies"))
		_exit(0);
	if (!strcmp(how, "mute"))
		for (;;)
			pause();
	if (!strcmp(how, "drip"))
		drip(fd, id);
	if (!strcmp(how, "garbage"))
		answer(fd, id, sizeof(noise), noise, sizeof(noise));
	if (!strcmp(how, "oversize"))
		answer(fd, id, (uint64_t)1 << 40, noise, sizeof(noise));
	if (!strcmp(how, "wrongid")) {
		id[3] ^= 0x55;
		answer(fd, id, 0, "", 0);
		nap(60000);
	}
	nap(60000);
}

static int relay(int from, int to, unsigned char *bytes, size_t size)
{
	return get(from, bytes, size) ? -1 : put(to, bytes, size);
}

/* Forward one message. Return -1 if the connection has ended. */
static int message(int from, int to)
{
	static unsigned char bytes[65536];
	uint64_t size = 0;

	if (relay(from, to, bytes, 9))
		return -1;
	for (int i = 1; i < 9; i++)
		size = size << 8 | bytes[i];
	return size > sizeof(bytes) ? -1 : relay(from, to, bytes, size);
}

static atomic_int left; /* requests until the slow one, itself included */
static bool deaf;

/* Wait as long as the answer to the next request takes. `later_ms`: to one after the slow one */
static void delay(long later_ms)
{
	int now = --left;

	nap(now > 0 ? 0 : now ? later_ms : 2500);
}

static void serve_slowly(int peer, const char *directory)
{
	const struct sockaddr_un to = address_of(directory, "registry.sock");
	int real = socket(AF_UNIX, SOCK_STREAM, 0);
	unsigned char bytes[8];

	if (connect(real, (const struct sockaddr *)&to, sizeof(to))) {
		perror("the real registry");
		exit(1);
	}
	if (!relay(peer, real, bytes, 8) && !relay(real, peer, bytes, 8)) {
		while (!message(peer, real)) {
			delay(100);
			if (message(real, peer))
				break;
		}
	}
	close(real);
	close(peer);
}

struct passing {
	int peer, real;
};

/* Forward one request to fds.sock, and its answer; without descriptors. Requests for pages are not
 * counted. */
static int pass_message(const struct passing *passing)
{
	char bytes[65536];
	ssize_t size = recv(passing->peer, bytes, sizeof(bytes), 0);

	if (deaf && left <= 0)
		pause(); /* until this process is killed */
	if (size <= 0 || put(passing->real, bytes, (size_t)size))
		return -1;
	if (((struct fds_header *)bytes)->verb == FDS_ASK)
		delay(0);
	size = recv(passing->real, bytes, sizeof(bytes), 0);
	return size <= 0 ? -1 : put(passing->peer, bytes, (size_t)size);
}

static void *pass(void *argument)
{
	const struct passing passing = *(const struct passing *)argument;

	free(argument);
	while (!pass_message(&passing))
		;
	close(passing.real);
	close(passing.peer);
	return NULL;
}

static int fds_fd;

static void *pass_all(void *real)
{
	const struct sockaddr_un to = address_of(real, "fds.sock");

	for (;;) {
		struct passing *passing = malloc(sizeof(*passing));
		pthread_t thread;

		passing->peer = accept(fds_fd, NULL, NULL);
		passing->real = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (connect(passing->real, (const struct sockaddr *)&to, sizeof(to)) ||
		    pthread_create(&thread, NULL, pass, passing)) {
			perror("the real registry's fds.sock");
			exit(1);
		}
		pthread_detach(thread);
	}
	return NULL;
}

static void serve_fds(const char *directory, char *real)
{
	pthread_t thread;

	fds_fd = listen_at(directory, "fds.sock", SOCK_SEQPACKET);
	if (pthread_create(&thread, NULL, pass_all, real))
		exit(1);
}

int main(int argc, char **argv)
{
	char ready[256];
	int fd;

	if (argc != 3 && argc != 5)
		return 2;
	left = argc == 5 ? atoi(argv[4]) : 0;
	deaf = !strcmp(argv[2], "deaf");
	if (argc == 5)
		serve_fds(argv[1], argv[3]);
	fd = listen_at(argv[1], "registry.sock", SOCK_STREAM);
	snprintf(ready, sizeof(ready), "%s/ready", argv[1]);
	close(open(ready, O_CREAT | O_WRONLY, 0600));
	for (;;) {
		int peer = accept(fd, NULL, NULL);

		if (peer < 0)
			continue;
		if (argc == 5) {
			serve_slowly(peer, argv[3]);
			continue;
		}
		/* One child per connection: one that hangs must not delay the next. */
		if (strcmp(argv[2], "dies") && fork()) {
			close(peer);
			continue;
		}
		/* The test kills only the process that it started: no child may outlive that. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(peer, argv[2]);
		return 0;
	}
}
