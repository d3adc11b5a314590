// SPDX-License-Identifier: MIT
/*
 * Round trips with one client for each kind: `trips NAMES ROUNDS TRIPS KIND...`. A turn is TRIPS
 * questions of one kind. The kinds take turns, forwards and backwards. A line for each turn: ROUND
 * KIND MEDIAN P99, in us.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

#define KINDS_MOST 8
#define WARM_UP 100

static struct asker askers[KINDS_MOST];
static const struct ask_kind *kinds[KINDS_MOST];
static char (*names)[64];
static size_t names_count;

/* If a question takes less time than the clock, ask `batch` times between two readings. */
static bool turn(int which, size_t round, double *times, size_t trips, size_t batch)
{
	static size_t at;

	for (size_t i = 0; i < trips + WARM_UP; i++) {
		double started = ask_us();

		for (size_t j = 0; j < batch; j++)
			if (!kinds[which]->ask(&askers[which], names[at++ % names_count]))
				return false;
		if (i >= WARM_UP)
			times[i - WARM_UP] = (ask_us() - started) / (double)batch;
	}
	ask_sort(times, trips);
	printf("%zu\t%s\t%.3f\t%.3f\n", round, kinds[which]->name, times[trips / 2],
	       times[trips * 99 / 100]);
	return true;
}

int main(int argc, char **argv)
{
	int count = argc - 4;
	size_t rounds = argc > 4 ? strtoul(argv[2], NULL, 0) : 0;
	size_t trips = argc > 4 ? strtoul(argv[3], NULL, 0) : 0;
	double *times = calloc(trips + 1, sizeof(*times));

	names_count = argc > 4 ? strtoul(argv[1], NULL, 0) : 0;
	names = calloc(names_count + 1, sizeof(*names));
	if (!rounds || !trips || !names_count || count > KINDS_MOST || !times || !names) {
		fprintf(stderr, "usage: trips NAMES ROUNDS TRIPS KIND...\n");
		return 2;
	}
	for (size_t i = 0; i < names_count; i++)
		strcpy(names[i], ask_name(i, names_count));
	for (int i = 0; i < count; i++) {
		kinds[i] = ask_find(argv[4 + i]);
		if (!kinds[i] || !kinds[i]->open(&askers[i]))
			return 1;
	}
	for (size_t round = 0; round < rounds; round++) {
		for (int i = 0; i < count; i++) {
			int which = round % 2 ? count - 1 - i : i;

			if (!turn(which, round, times, trips,
				  strcmp(kinds[which]->name, "index") ? 1 : 100))
				return 1;
		}
	}
	free(times);
	free(names);
	return 0;
}
