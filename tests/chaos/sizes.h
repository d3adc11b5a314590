/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_SIZES_H
#define TESTS_CHAOS_SIZES_H
/* What a registry holds and uses, as the kernel reports it. None of it may grow with time. */
#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "chaos.h"

/* X(field, its text in reports) */
#define SIZES(X) \
	X(fds, "descriptors") \
	X(keeper_fds, "descriptors of its keeper") \
	X(anonymous_kib, "KiB of memory") \
	X(threads, "threads") \
	X(state_bytes, "bytes of registry.state")

struct sizes {
	pid_t pid;
#define X(field, what) long field;
	SIZES(X)
#undef X
};

/* Count the entries except "." and ".."; -1 if the directory can't be read. */
static int sizes_count(const char *path)
{
	DIR *folder = opendir(path);
	int count = -2;

	if (!folder)
		return -1;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Return the registry's pid from its lock file, or 0 if that process is not a running registry. */
static pid_t sizes_registry(const char *directory)
{
	char path[512], text[64] = "";
	FILE *file;
	int pid = 0;

	snprintf(path, sizeof(path), "%s/registry.lock", directory);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = pid > 0 ? fopen(path, "r") : NULL;
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file) || strncmp(text, "gpushare-regis", 14))
		pid = 0;
	fclose(file);
	return pid;
}

/* Does process `pid` run as the keeper of `directory`? */
static bool sizes_is_keeper(const char *pid, const char *directory)
{
	char path[300], text[600] = "", wanted[560];
	int length, have = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	have = (int)fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	length = snprintf(wanted, sizeof(wanted), "gpushare-registry%c--keeper%c--dir%c%s", 0, 0, 0,
			  directory);
	return have > length && !memcmp(text, wanted, (size_t)length + 1);
}

/* Return the keeper's pid, or 0 if there is none. */
static pid_t sizes_keeper(const char *directory)
{
	DIR *all = opendir("/proc");
	struct dirent *one;
	pid_t pid = 0;

	while (all && !pid && (one = readdir(all)))
		if (sizes_is_keeper(one->d_name, directory))
			pid = atoi(one->d_name);
	if (all)
		closedir(all);
	return pid;
}

static long sizes_file(const char *directory, const char *name)
{
	struct stat about;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return stat(path, &about) ? 0 : (long)about.st_size;
}

/* Return a number from /proc/PID/status, or -1. */
static long sizes_status(pid_t pid, const char *what)
{
	char path[64], line[256];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file && number < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, what, strlen(what)))
			number = atol(line + strlen(what));
	if (file)
		fclose(file);
	return number;
}

static long sizes_fds(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return sizes_count(path);
}

static struct sizes sizes_now(const char *directory)
{
	struct sizes now = {.pid = sizes_registry(directory)};
	pid_t keeper = sizes_keeper(directory);

	now.fds = sizes_fds(now.pid);
	now.keeper_fds = keeper ? sizes_fds(keeper) : 0;
	now.anonymous_kib = sizes_status(now.pid, "RssAnon:");
	now.threads = sizes_status(now.pid, "Threads:");
	now.state_bytes = sizes_file(directory, "registry.state");
	return now;
}

static void sizes_print(const char *when, const struct sizes *sizes)
{
	printf("chaos: %s the registry has", when);
#define X(field, what) printf(" %ld %s,", sizes->field, what);
	SIZES(X)
#undef X
	printf(" pid %d\n", (int)sizes->pid);
}

#endif
