/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_API_CHECK_H
#define TESTS_FAULTS_API_CHECK_H
/*
 * One output line for each API call, checks that must hold for every call, and what the process
 * holds at its end.
 */
#include <dirent.h>

#include "../e2e/programs/api_cuda.h"
#include "../e2e/programs/status.h"

#define SIZE ((size_t)3 << 20)
#define UNTOUCHED ((void *)0x5eed)

static struct gpushare_session *session;
static unsigned char bytes[SIZE], back[SIZE];

static int did(const char *what, int status)
{
	const char *name = status_name(status);

	printf("%s: %s\n", what, name);
	if (*name == '?')
		printf("wrong: %s: %d is no status\n", what, status);
	if (status && !*gpushare_explain())
		printf("wrong: %s: %s and no sentence\n", what, name);
	else if (status)
		fprintf(stderr, "%s: %s\n", what, gpushare_explain());
	return status == 0;
}

/* Like did(), for a call that makes something. *out is NULL if the call failed. */
static int made(const char *what, int status, void *out)
{
	void **slot = out;

	if (!did(what, status)) {
		if (*slot != UNTOUCHED)
			printf("wrong: %s: it failed and set its result\n", what);
		*slot = NULL;
	}
	return *slot != NULL;
}

static void wrong_unless(int good, const char *what)
{
	if (!good)
		printf("wrong: %s\n", what);
}

static void contents(struct gpushare_buffer *buffer, unsigned char first)
{
	memset(back, 0, SIZE);
	if (!did("copy_from", gpushare_copy_from(buffer, 0, back, SIZE)))
		return;
	for (size_t i = 0; i < SIZE; i++)
		if (back[i] != (unsigned char)(first + i % 251)) {
			printf("wrong: byte %zu is %d\n", i, back[i]);
			return;
		}
}

static int fill(struct gpushare_buffer *buffer, unsigned char first)
{
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(first + i % 251);
	if (!did("copy_to", gpushare_copy_to(buffer, 0, bytes, SIZE)))
		return 0;
	contents(buffer, first);
	return 1;
}

static int count_one(const struct gpushare_info *info, void *user)
{
	++*(int *)user;
	return 0;
}

/*
 * The name must not exist: not after a failed call that would have made it, and not after its free.
 */
static void must_be_gone(const char *name, const char *when)
{
	struct gpushare_info info;
	int status = gpushare_stat(session, name, &info);

	if (status == GPUSHARE_OK)
		printf("wrong: %s: the name is there\n", when);
}

/*
 * Count the open descriptors except those of the simulated driver, which keeps some for reuse.
 * bytes_since() covers its memory.
 */
static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *one;
	char path[300], link[64];
	int count = 0;

	while (folder && (one = readdir(folder))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", one->d_name);
		length = readlink(path, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = '\0';
		count += strncmp(link, "/memfd:gpushare-sim", 19) != 0;
	}
	if (folder)
		closedir(folder);
	return count;
}

/*
 * How many more are open than `before`? Retry, because the simulated driver's threads open some for
 * a moment.
 */
static int descriptors_since(int before)
{
	int more = descriptors() - before;

	for (int tries = 0; more > 0 && tries < 100; tries++) {
		usleep(2000);
		more = descriptors() - before;
	}
	return more;
}

static size_t free_bytes(void)
{
	size_t here = 0, total;

	cu.cuMemGetInfo_v2(&here, &total);
	return here;
}

/* Retry: another process may free its memory a moment later. */
static ssize_t bytes_since(size_t before)
{
	ssize_t more = (ssize_t)(before - free_bytes());

	for (int tries = 0; more > 0 && tries < 100; tries++) {
		usleep(5000);
		more = (ssize_t)(before - free_bytes());
	}
	return more;
}

/* Pending stream work holds resources, so wait for it. */
static void streams_have_come(void)
{
	wrong_unless(!cu.cuStreamSynchronize(NULL), "the streams don't come to their end");
}

#endif
