/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_ASK_H
#define TESTS_BENCH_ASK_H
/*
 * The same question, "what stands under this name?", put to each of those that are compared. Their
 * servers run already (serve.c, gpushare-registry, redis-server), in the folder $GPUSHARE_BENCH_PLACE.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ASK_WIRE 65536
#define ASK_MESSAGE 64 /* bytes that are echoed, as many as a look-up and its name take */

struct client;
struct gpushare_session;

/* One client of one of them. */
struct asker {
	int fd;
	uint32_t id; /* of the latest message */
	struct client *client;
	struct gpushare_session *session;
	char own[32]; /* shared by this client; its stream-sync page is what is fetched */
	uint64_t own_generation;
	unsigned char wire[ASK_WIRE];
};

/* K(kind, what it is) */
#define ASK_KINDS(K) \
	K(echo, "bare SOCK_SEQPACKET echo") \
	K(nng_echo, "echo by an nng server, plain client") \
	K(registry, "registry, over its socket") \
	K(nng, "registry, nng client") \
	K(redis, "Redis GET") \
	K(index, "registry, by its index") \
	K(fd_echo, "bare SOCK_SEQPACKET server of descriptors, connected anew") \
	K(descriptor, "registry, a descriptor from fds.sock")

struct ask_kind {
	const char *name, *text;
	/* Both: false, and a line on stderr: it can't be. */
	bool (*open)(struct asker *asker);
	bool (*ask)(struct asker *asker, const char *name);
	void (*close)(struct asker *asker);
};

#define K(kind, text) \
	bool ask_##kind##_open(struct asker *asker); \
	bool ask_##kind(struct asker *asker, const char *name); \
	void ask_##kind##_close(struct asker *asker);
ASK_KINDS(K)
#undef K

/* NULL: there is none of that name, which is said. */
const struct ask_kind *ask_find(const char *name);
/* That many names are shared, in an order that is none: the one at `at`. */
const char *ask_name(size_t at, size_t count);
/* Connected to a socket of that folder; -1, and a line on stderr. */
int ask_dial(const char *socket, int type);
const char *ask_path(const char *socket);
/* The whole of it; false, and a line on stderr. */
bool ask_move(int fd, bool out, void *bytes, size_t size);
/* Its value is `bytes` from now on; false, and a line on stderr. */
bool ask_redis_set(struct asker *asker, const char *name, const void *bytes, size_t size);
/* How many of Redis's names fit the pattern; -1, and a line on stderr. */
long ask_redis_keys(struct asker *asker, const char *glob);

static inline double ask_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

#endif
