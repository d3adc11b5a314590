/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_ASK_H
#define TESTS_BENCH_ASK_H
/*
 * The same question, "which record has this name?", for each of the compared servers. They run
 * already (serve.c, gpushare-registry), with sockets in the folder $GPUSHARE_BENCH_PLACE.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ASK_WIRE 65536
#define ASK_MESSAGE 64 /* bytes of an echo, as many as a look-up with its name */

struct client;
struct gpushare_session;

/* One client of one server. */
struct asker {
	int fd;
	uint32_t id; /* of the latest message */
	struct client *client;
	struct gpushare_session *session;
	char own[32]; /* a name shared by this client, whose stream-sync page it fetches */
	uint64_t own_generation;
	unsigned char wire[ASK_WIRE];
};

/* registry_report.bash says what each is. */
#define ASK_KINDS(K) K(echo) K(nng_echo) K(registry) K(nng) K(index) K(fd_echo) K(descriptor)

struct ask_kind {
	const char *name;
	/* Both return false, with a line on stderr, if they fail. The end of the process closes. */
	bool (*open)(struct asker *asker);
	bool (*ask)(struct asker *asker, const char *name);
};

#define K(kind) \
	bool ask_##kind##_open(struct asker *asker); \
	bool ask_##kind(struct asker *asker, const char *name);
ASK_KINDS(K)
#undef K

/* Share `name` over the asker's connection to the registry. */
bool ask_share(struct asker *asker, const char *name);
/* Return NULL, with a line on stderr, if there is no such kind. */
const struct ask_kind *ask_find(const char *name);
/* Of `count` shared names, return the one at `at` in a scattered order. */
const char *ask_name(size_t at, size_t count);
/* Return a descriptor connected to a socket of that folder, or -1 with a line on stderr. */
int ask_dial(const char *socket, int type);
const char *ask_path(const char *socket);
/* Send or receive all of it. Return false, with a line on stderr, if that fails. */
bool ask_move(int fd, bool out, void *bytes, size_t size);

static inline double ask_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Sort the numbers. */
void ask_sort(double *numbers, size_t count);

#endif
