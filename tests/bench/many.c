// SPDX-License-Identifier: MIT
/*
 * Many names. `many share COUNT` shares COUNT names and holds them until its input ends. It prints
 * the seconds that this took. `many list ROUNDS GLOB...` lists them and prints GLOB COUNT MS (the
 * median).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "ask.h"
#include "gpushare.h"

#define SHARERS 4 /* connections that share at the same time, each in its own process */

static struct asker asker;

static int fail(const char *why)
{
	fprintf(stderr, "many: %s\n", why);
	return 1;
}

/* Share the names `first`, `first` + SHARERS, ... */
static int share_part(size_t first, size_t count)
{
	if (!ask_registry_open(&asker))
		return 1;
	for (size_t at = first; at < count; at += SHARERS)
		if (!ask_share(&asker, ask_name(at, count)))
			return 1;
	return 0;
}

static int sharer(size_t first, size_t count, int done)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (share_part(first, count) || write(done, "", 1) != 1)
		return 1;
	close(done);
	for (;;)
		pause();
}

static int do_share(size_t count)
{
	double started = ask_us();
	int done[2];
	char bytes[SHARERS];
	size_t shared = 0;

	if (pipe(done))
		return fail("no pipe");
	for (size_t i = 0; i < SHARERS; i++)
		if (!fork())
			_exit(sharer(i, count, done[1]));
	close(done[1]);
	while (shared < SHARERS) {
		ssize_t got = read(done[0], bytes, SHARERS);

		if (got <= 0)
			return fail("not all could be shared");
		shared += (size_t)got;
	}
	printf("%.3f\n", (ask_us() - started) / 1e6);
	fflush(stdout);
	while (read(STDIN_FILENO, bytes, 1) > 0)
		;
	return 0;
}

static int count_one(const struct gpushare_info *info, void *user)
{
	++*(long *)user;
	return 0;
}

static long list(const char *glob)
{
	long count = 0;

	if (gpushare_list(asker.session, glob, count_one, &count)) {
		fprintf(stderr, "%s\n", gpushare_explain());
		return -1;
	}
	return count;
}

static int do_list(size_t rounds, char **globs)
{
	double *times = calloc(rounds + 1, sizeof(*times));

	for (; times && *globs; globs++) {
		long count = 0;

		for (size_t i = 0; i < rounds; i++) {
			double started = ask_us();

			count = list(*globs);
			if (count < 0)
				return 1;
			times[i] = (ask_us() - started) / 1e3;
		}
		ask_sort(times, rounds);
		printf("%s\t%ld\t%.3f\n", *globs, count, times[rounds / 2]);
	}
	free(times);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	size_t number = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;

	if (number && argc == 3 && !strcmp(verb, "share"))
		return do_share(number);
	if (number && argc > 3 && !strcmp(verb, "list"))
		return !ask_index_open(&asker) || do_list(number, argv + 3);
	fprintf(stderr, "usage: many share COUNT | list ROUNDS GLOB...\n");
	return 2;
}
