/* SPDX-License-Identifier: MIT */
#include "unseen.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watch.h"

#define ROOM_FIRST 256

struct other {
	uint64_t pid_namespace; /* 0: it can't be told */
	int32_t own_pid, pid;	/* there and here */
};

struct unseen {
	uint64_t here;
	bool shows_all; /* whoever lives and has a number here is among the others */
	bool is_first;	/* and who lives has one */
	struct other *others;
	size_t count, room;
};

static FILE *open_file(const char *proc, const char *process, const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s", proc, process, file);
	return fopen(path, "re");
}

static uint64_t namespace_of(const char *proc, const char *process)
{
	char path[PATH_MAX];
	struct stat is;

	snprintf(path, sizeof(path), "%s/%s/ns/pid", proc, process);
	return stat(path, &is) ? 0 : is.st_ino;
}

/* The file system may show each user their own processes alone, and of these not all. */
static bool hides(const char *proc)
{
	FILE *mounts = open_file(proc, "self", "mountinfo");
	bool hidden = !mounts;
	char *line = NULL;
	size_t room = 0;

	while (!hidden && getline(&line, &room, mounts) > 0) {
		const char *how = strstr(line, " - proc ");
		const char *option = how ? strstr(how, "hidepid=") : NULL;

		hidden = option && strncmp(option, "hidepid=0", strlen("hidepid=0")) != 0 &&
			 strncmp(option, "hidepid=off", strlen("hidepid=off")) != 0;
	}
	hidden = hidden || !feof(mounts);
	free(line);
	if (mounts)
		fclose(mounts);
	return hidden;
}

/* In all the namespaces that have it, from the one that is shown to its own. */
static bool read_numbers(FILE *status, int32_t *out_last, int *out_count)
{
	char *line = NULL;
	size_t room = 0;
	int count = 0;

	while (!count && getline(&line, &room, status) > 0) {
		const char *at = line + strlen("NStgid:");
		int length;

		if (strncmp(line, "NStgid:", strlen("NStgid:")) != 0)
			continue;
		while (sscanf(at, " %" SCNd32 "%n", out_last, &length) == 1) {
			at += length;
			count++;
		}
	}
	free(line);
	*out_count = count;
	return count > 0;
}

static bool add(struct unseen *unseen, const struct other *other)
{
	size_t room = unseen->room ? 2 * unseen->room : ROOM_FIRST;
	struct other *others;

	if (unseen->count == unseen->room) {
		others = reallocarray(unseen->others, room, sizeof(*others));
		if (!others)
			return false;
		unseen->others = others;
		unseen->room = room;
	}
	unseen->others[unseen->count++] = *other;
	return true;
}

/* false: it lives, or may, and can't be told from others. */
static bool read_process(struct unseen *unseen, const char *proc, const char *process)
{
	struct other other = {.pid = atoi(process)};
	FILE *status = open_file(proc, process, "status");
	int count, why = errno;
	bool is_read;

	if (!status)
		return why == ENOENT || why == ESRCH;
	is_read = read_numbers(status, &other.own_pid, &count);
	why = ferror(status) ? errno : 0;
	fclose(status);
	if (!is_read)
		return why == ESRCH;
	other.pid_namespace = count == 1 ? unseen->here : namespace_of(proc, process);
	return add(unseen, &other);
}

static bool read_all(struct unseen *unseen, const char *proc)
{
	DIR *all = opendir(proc);
	const struct dirent *each;
	bool is_whole = all;

	for (errno = 0; is_whole && (each = readdir(all)); errno = 0) {
		if (isdigit((unsigned char)*each->d_name))
			is_whole = read_process(unseen, proc, each->d_name);
	}
	is_whole = is_whole && !errno;
	if (all)
		closedir(all);
	return is_whole;
}

/* Numbers there are ours. */
static bool is_ours(const char *proc)
{
	char path[PATH_MAX], number[16];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/self", proc);
	length = readlink(path, number, sizeof(number) - 1);
	number[length > 0 ? length : 0] = '\0';
	return atoi(number) == getpid();
}

struct unseen *unseen_open(const char *proc, uint64_t first_namespace)
{
	struct unseen *unseen = calloc(1, sizeof(*unseen));

	if (!unseen || !is_ours(proc))
		return unseen;
	unseen->here = namespace_of(proc, "self");
	unseen->shows_all = unseen->here && !hides(proc) && read_all(unseen, proc);
	unseen->is_first = unseen->here == first_namespace;
	return unseen;
}

struct unseen *unseen_close(struct unseen *unseen)
{
	if (unseen)
		free(unseen->others);
	free(unseen);
	return NULL;
}

/*
 * Where one process of a namespace has a number here, all have. A namespace's own number may be
 * another one's by now: then all processes of the old one have ended.
 */
enum sight unseen_find(const struct unseen *unseen, uint64_t pid_namespace, int32_t pid,
		       int32_t *out_pid)
{
	bool shown = unseen->is_first, doubtful = !unseen->shows_all;

	for (size_t at = 0; at < unseen->count; at++) {
		const struct other *other = &unseen->others[at];

		if (other->pid_namespace == pid_namespace && other->own_pid == pid) {
			*out_pid = other->pid;
			return SIGHT_HERE;
		}
		shown |= other->pid_namespace == pid_namespace;
		doubtful |= !other->pid_namespace && other->own_pid == pid;
	}
	return shown && !doubtful ? SIGHT_GONE : SIGHT_NONE;
}

/* By what may be looked at; a uid of another user namespace is another one. */
static bool is_of(int32_t pid, uint32_t uid)
{
	char path[32];
	struct stat is;

	snprintf(path, sizeof(path), "/proc/%" PRId32, pid);
	return !stat(path, &is) && is.st_uid == uid;
}

/* With all its threads, though its parent may have to look at it still. */
static bool has_ended(int32_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool ended = fd < 0 ? errno == ESRCH : watch_ended(fd);

	if (fd >= 0)
		close(fd);
	return ended;
}

void unseen_look(const struct unseen *unseen, struct process *process, uint64_t stack)
{
	struct process found;
	int32_t pid;
	enum sight sight;

	if (!unseen || process->pid > 0 || !process->own_namespace || process->own_pid <= 0)
		return;
	sight = unseen_find(unseen, process->own_namespace, process->own_pid, &pid);
	process->gone = sight == SIGHT_GONE;
	if (sight != SIGHT_HERE)
		return;
	process_read(pid, process->uid, &found);
	process->gone = has_ended(pid);
	/* A clock of its own (time namespaces) makes another start of the same process. */
	if (process->gone || !found.started || found.started != process->own_started ||
	    !found.stack || !stack || !is_of(pid, process->uid))
		return;
	process->gone = found.stack != stack;
	if (process->gone)
		return;
	process->pid = pid;
	process->started = found.started;
	process->stack = found.stack;
}
