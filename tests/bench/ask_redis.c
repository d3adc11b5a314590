// SPDX-License-Identifier: MIT
/* Redis over its unix socket, with a minimal client (RESP). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"

bool ask_redis_open(struct asker *asker)
{
	asker->fd = ask_dial("redis.sock", SOCK_STREAM);
	return asker->fd >= 0;
}

/* Receive as much as is there and fits. Return the total size, 0 on failure. */
static size_t receive(struct asker *asker, size_t have)
{
	ssize_t got = recv(asker->fd, asker->wire + have, sizeof(asker->wire) - 1 - have, 0);

	if (got > 0)
		asker->wire[have + (size_t)got] = '\0';
	return got > 0 ? have + (size_t)got : 0;
}

/* Receive a whole bulk string into asker->wire. */
static bool receive_value(struct asker *asker)
{
	size_t have = 0, value = 0;
	char *end;

	do {
		have = receive(asker, have);
		if (!have || *asker->wire != '$' || !strncmp((char *)asker->wire, "$-1", 3))
			return false;
		value = strtoul((char *)asker->wire + 1, &end, 10);
	} while (*end != '\r' || have < (size_t)(end - (char *)asker->wire) + 2 + value + 2);
	return true;
}

bool ask_redis(struct asker *asker, const char *name)
{
	int size = snprintf((char *)asker->wire, sizeof(asker->wire),
			    "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(name), name);

	return ask_move(asker->fd, true, asker->wire, (size_t)size) && receive_value(asker);
}

void ask_redis_close(struct asker *asker)
{
	close(asker->fd);
}

bool ask_redis_set(struct asker *asker, const char *name, const void *bytes, size_t size)
{
	int head = snprintf((char *)asker->wire, sizeof(asker->wire),
			    "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(name), name, size);

	memcpy(asker->wire + head, bytes, size);
	memcpy(asker->wire + head + size, "\r\n", 2);
	return ask_move(asker->fd, true, asker->wire, (size_t)head + size + 2) &&
	       receive(asker, 0) && !strncmp((char *)asker->wire, "+OK", 3);
}

/* Redis sends each name as "$SIZE\r\nNAME\r\n": two line ends. */
long ask_redis_keys(struct asker *asker, const char *glob)
{
	int size = snprintf((char *)asker->wire, sizeof(asker->wire),
			    "*2\r\n$4\r\nKEYS\r\n$%zu\r\n%s\r\n", strlen(glob), glob);
	long count = -1, lines = 0;

	if (!ask_move(asker->fd, true, asker->wire, (size_t)size))
		return -1;
	while (count < 0 || lines < 2 * count + 1) {
		size_t got = receive(asker, 0);

		if (!got || (count < 0 && *asker->wire != '*')) {
			fprintf(stderr, "Redis does not list\n");
			return -1;
		}
		if (count < 0)
			count = strtol((char *)asker->wire + 1, NULL, 10);
		for (size_t i = 0; i < got; i++)
			lines += asker->wire[i] == '\n';
	}
	return count;
}
