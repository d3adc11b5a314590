// SPDX-License-Identifier: MIT
/*
 * Look-ups per second: `rates NAMES ROUNDS MS CLIENTS,... KIND...`. CLIENTS processes ask one kind
 * at the same time for MS milliseconds, then the next kind. A line for each: ROUND KIND CLIENTS
 * PER_SECOND.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "ask.h"

/* Shared by the processes of one measurement. */
struct shared {
	_Atomic int ready, failed;
	_Atomic bool go, stop;
	_Atomic uint64_t asked;
};

static struct shared *shared;
static size_t names;

static void be_client(const struct ask_kind *kind, size_t at)
{
	static struct asker asker;
	uint64_t asked = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Twice, so that the index is in use from then on. */
	if (!kind->open(&asker) || !kind->ask(&asker, ask_name(at, names)) ||
	    !kind->ask(&asker, ask_name(at, names)))
		atomic_fetch_add(&shared->failed, 1);
	atomic_fetch_add(&shared->ready, 1);
	while (!atomic_load(&shared->go))
		usleep(200);
	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
		if (!kind->ask(&asker, ask_name(at + asked, names))) {
			atomic_fetch_add(&shared->failed, 1);
			break;
		}
		asked++;
	}
	atomic_fetch_add(&shared->asked, asked);
	_exit(0);
}

static bool measure(size_t round, const struct ask_kind *kind, int clients, int ms)
{
	double started;

	*shared = (struct shared){.ready = 0};
	for (int i = 0; i < clients; i++) {
		pid_t pid = fork();

		if (!pid)
			be_client(kind, (size_t)i * 7919);
		if (pid < 0)
			return false;
	}
	while (atomic_load(&shared->ready) < clients)
		usleep(1000);
	started = ask_us();
	atomic_store(&shared->go, true);
	usleep((useconds_t)ms * 1000);
	atomic_store(&shared->stop, true);
	started = ask_us() - started;
	while (wait(NULL) > 0)
		;
	if (atomic_load(&shared->failed))
		return false;
	printf("%zu\t%s\t%d\t%.0f\n", round, kind->name, clients,
	       (double)atomic_load(&shared->asked) / started * 1e6);
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 5 ? strtoul(argv[2], NULL, 0) : 0;
	int ms = argc > 5 ? atoi(argv[3]) : 0;

	names = argc > 5 ? strtoul(argv[1], NULL, 0) : 0;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!names || !rounds || ms <= 0 || shared == MAP_FAILED) {
		fprintf(stderr, "usage: rates NAMES ROUNDS MS CLIENTS,... KIND...\n");
		return 2;
	}
	for (size_t round = 0; round < rounds; round++) {
		for (char *at = argv[4]; at; at = strchr(at, ',')) {
			int clients = atoi(at += *at == ',');

			for (int i = 5; i < argc; i++) {
				const struct ask_kind *kind = ask_find(argv[i]);

				if (!kind || !measure(round, kind, clients, ms))
					return 1;
			}
		}
	}
	return 0;
}
