// SPDX-License-Identifier: MIT
#include "ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const struct ask_kind *ask_find(const char *name)
{
	static const struct ask_kind kinds[] = {
#define K(kind) {#kind, ask_##kind##_open, ask_##kind},
	    ASK_KINDS(K)
#undef K
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	fprintf(stderr, "%s: nothing of that kind\n", name);
	return NULL;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

void ask_sort(double *numbers, size_t count)
{
	qsort(numbers, count, sizeof(*numbers), compare);
}

/* Gives every number below `count` once: the step has no divisor in common with `count`. */
const char *ask_name(size_t at, size_t count)
{
	static char name[64];
	size_t number = at % count * 1000003 % count;

	snprintf(name, sizeof(name), "model%02zu/layer.%06zu.weight", number % 100, number);
	return name;
}

const char *ask_path(const char *socket)
{
	static char path[256];
	const char *place = getenv("GPUSHARE_BENCH_PLACE");

	snprintf(path, sizeof(path), "%s/%s", place ? place : ".", socket);
	return path;
}

int ask_dial(const char *socket_name, int type)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", ask_path(socket_name));
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return fd;
	fprintf(stderr, "%s: %s\n", to.sun_path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

bool ask_move(int fd, bool out, void *bytes, size_t size)
{
	unsigned char *at = bytes;

	while (size) {
		ssize_t moved = out ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);

		if (moved <= 0) {
			fprintf(stderr, "a connection ended\n");
			return false;
		}
		at += moved;
		size -= (size_t)moved;
	}
	return true;
}
