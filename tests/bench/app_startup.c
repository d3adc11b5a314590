/* SPDX-License-Identifier: MIT */
/*
 * app_startup COUNT PROGRAM CASE...: starts PROGRAM and waits for its end, COUNT times for each
 * case, in turns. A CASE is added to the environment: words separated by blanks
 * ("LD_PRELOAD=x GPUSHARE_NAME=w"), or "" for nothing. One line for each case:
 *   WALL_US CPU_US ADDED_US LEAST MOST
 * The first three are medians: of the wall-clock time, of the program's CPU time, and of the
 * wall-clock time beyond that of the first case in the same turn. LEAST and MOST are the quartiles
 * of the last.
 */
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define CASES_MOST 8
#define WORDS_MOST 8
#define WARM_UP 5

extern char **environ;

struct kind {
	char **environment;
	double *wall_us, *cpu_us, *added_us;
};

static void stop(const char *what)
{
	fprintf(stderr, "app_startup: %s\n", what);
	exit(1);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double time_us(struct timeval time)
{
	return (double)time.tv_sec * 1e6 + (double)time.tv_usec;
}

static void *numbers_new(size_t count)
{
	void *made = calloc(count, sizeof(double));

	if (!made)
		stop("out of memory");
	return made;
}

static void kind_init(struct kind *kind, char *words, size_t count)
{
	size_t size = 0;

	while (environ[size])
		size++;
	kind->environment = numbers_new(size + WORDS_MOST + 1);
	memcpy(kind->environment, environ, size * sizeof(*environ));
	for (char *word; (word = strsep(&words, " "));) {
		if (*word)
			kind->environment[size++] = word;
	}
	kind->wall_us = numbers_new(count);
	kind->cpu_us = numbers_new(count);
	kind->added_us = numbers_new(count);
}

/* posix_spawn works like vfork, so it does not copy this process's memory. */
static void run(char *program, char **environment, double *wall_us, double *cpu_us)
{
	char *arguments[] = {program, NULL};
	struct rusage used;
	double began = now_us();
	int status;
	pid_t child;

	if (posix_spawn(&child, program, NULL, NULL, arguments, environment))
		stop("can't start the program");
	if (wait4(child, &status, 0, &used) != child || status)
		stop("the program did not end with 0");
	*wall_us = now_us() - began;
	*cpu_us = time_us(used.ru_utime) + time_us(used.ru_stime);
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void sort(double *numbers, size_t count)
{
	qsort(numbers, count, sizeof(*numbers), compare);
}

static void report(struct kind *kind, size_t count)
{
	sort(kind->wall_us, count);
	sort(kind->cpu_us, count);
	sort(kind->added_us, count);
	printf("%.1f %.1f %.1f %.1f %.1f\n", kind->wall_us[count / 2], kind->cpu_us[count / 2],
	       kind->added_us[count / 2], kind->added_us[count / 4], kind->added_us[count * 3 / 4]);
}

int main(int argc, char **argv)
{
	size_t count = argc >= 4 ? strtoul(argv[1], NULL, 0) : 0;
	size_t kinds = argc >= 4 ? (size_t)argc - 3 : 0;
	struct kind kind[CASES_MOST];
	double unused[2];

	if (!count || kinds > CASES_MOST) {
		fprintf(stderr, "usage: app_startup COUNT PROGRAM CASE...\n");
		return 2;
	}
	for (size_t k = 0; k < kinds; k++)
		kind_init(&kind[k], argv[3 + k], count);
	for (size_t i = 0; i < WARM_UP * kinds; i++)
		run(argv[2], kind[i % kinds].environment, &unused[0], &unused[1]);
	for (size_t i = 0; i < count; i++) {
		/* alternate the order, so that no case always follows the same one */
		for (size_t k = 0; k < kinds; k++) {
			struct kind *one = &kind[i % 2 ? kinds - 1 - k : k];

			run(argv[2], one->environment, &one->wall_us[i], &one->cpu_us[i]);
		}
		for (size_t k = 0; k < kinds; k++)
			kind[k].added_us[i] = kind[k].wall_us[i] - kind[0].wall_us[i];
	}
	for (size_t k = 0; k < kinds; k++)
		report(&kind[k], count);
	return 0;
}
