/* SPDX-License-Identifier: MIT */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol.h"

#define FLAG_EXITING 4 /* the kernel's PF_EXITING: the process may have closed its descriptors */

struct stat_line {
	char command[GPUSHARE_COMMAND_MAX + 1];
	char state;
	unsigned int flags;
	long threads;
	uint64_t started, stack;
};

/* Reads fields 2, 3, 9, 20, 22 and 28 of proc_pid_stat(5). Field 2, the command, may contain blanks
 * and parentheses. */
static bool read_stat(int32_t pid, struct stat_line *out)
{
	char path[64], text[1024];
	const char *begin, *end;
	ssize_t length = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[length < 0 ? 0 : length] = '\0';
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (!begin || !end)
		return false;
	snprintf(out->command, sizeof(out->command), "%.*s", (int)(end - begin - 1), begin + 1);
	return sscanf(end + 1,
		      " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		      "%ld %*s %" SCNu64 " %*s %*s %*s %*s %*s %" SCNu64,
		      &out->state, &out->flags, &out->threads, &out->started, &out->stack) == 5;
}

void process_read(int32_t pid, uint32_t uid, struct process *out_process)
{
	struct process process = {.pid = pid, .uid = uid};
	struct stat_line stat;

	if (pid > 0 && read_stat(pid, &stat)) {
		process.started = stat.started;
		process.stack = stat.stack;
		strcpy(process.command, stat.command);
		/* Protobuf strings must be UTF-8, and tools print the command on terminals. */
		for (char *c = process.command; *c; c++) {
			if (*c < ' ' || *c > '~')
				*c = '?';
		}
	}
	*out_process = process;
}

void process_forget_pid(struct process *process, uint64_t pid_namespace)
{
	if (process->pid <= 0)
		return;
	if (!process->own_namespace)
		process_says(process, pid_namespace, process->pid, process->started);
	process->pid = 0;
	process->started = process->stack = 0;
}

void process_says(struct process *process, uint64_t pid_namespace, int32_t pid, uint64_t started)
{
	process->own_namespace = pid_namespace;
	process->own_pid = pid;
	process->own_started = started;
}

bool process_says_same(const struct process *a, const struct process *b)
{
	return a->own_namespace && a->own_namespace == b->own_namespace && a->own_pid > 0 &&
	       a->own_pid == b->own_pid && a->own_started == b->own_started && a->uid == b->uid;
}

bool process_is_same(const struct process *a, const struct process *b)
{
	if (a->pid > 0 || b->pid > 0)
		return a->pid == b->pid && a->started == b->started;
	return process_says_same(a, b);
}

bool process_is_other_program(const struct process *a, const struct process *b)
{
	return a->stack && b->stack && a->stack != b->stack;
}

static bool is_dead(char state)
{
	return state == 'Z' || state == 'X';
}

bool process_runs(const struct process *process)
{
	struct stat_line stat;

	return process->pid > 0 && read_stat(process->pid, &stat) &&
	       stat.started == process->started && !is_dead(stat.state) &&
	       !(stat.flags & FLAG_EXITING);
}

/* If only its first thread has ended, a process has the state of a zombie, but still lives. */
bool process_lives(const struct process *process)
{
	struct stat_line stat;

	if (process->pid <= 0)
		return false;
	errno = 0;
	/* other errors, e.g. EMFILE in this process, don't mean that the peer is dead */
	if (!read_stat(process->pid, &stat))
		return errno != ENOENT && errno != ESRCH;
	return stat.started == process->started && (!is_dead(stat.state) || stat.threads > 1) &&
	       !(process->stack && stat.stack && stat.stack != process->stack);
}

static int watches = -1, watch_most;

int watch_open(int highest)
{
	watch_most = highest;
	watches = epoll_create1(EPOLL_CLOEXEC);
	return watches;
}

int watch_add(int32_t pid, uint32_t id)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = id};
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0)
		return -1;
	if (fd <= watch_most && !epoll_ctl(watches, EPOLL_CTL_ADD, fd, &event))
		return fd;
	close(fd);
	return -1;
}

void watch_remove(int watch)
{
	if (watch >= 0)
		/* it is the pidfd's only descriptor, so epoll forgets the pidfd, too */
		close(watch);
}

bool watch_ended(int watch)
{
	struct pollfd event = {.fd = watch, .events = POLLIN};

	return watch >= 0 && poll(&event, 1, 0) == 1;
}

bool watch_next(uint32_t *out_id)
{
	struct epoll_event event;

	if (epoll_wait(watches, &event, 1, 0) != 1)
		return false;
	*out_id = event.data.u32;
	return true;
}

#define GROUP_ROOM_MAX (1u << 20)

/* The second of the line's four numbers is the effective id. */
static bool is_effective(const char *line, uint32_t wanted)
{
	uint32_t effective;

	return sscanf(line, "%*u %" SCNu32, &effective) == 1 && effective == wanted;
}

static int compare(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

static void parse_groups(struct identity *identity, const char *line)
{
	/* `line` is like "N N N " */
	uint32_t *groups = malloc((strlen(line) / 2 + 1) * sizeof(*groups));
	char *end;

	if (!groups)
		return;
	for (;; line = end) {
		unsigned long group = strtoul(line, &end, 10);

		if (end == line)
			break;
		groups[identity->count++] = (uint32_t)group;
	}
	qsort(groups, identity->count, sizeof(*groups), compare);
	identity->groups = groups;
}

void identity_read(struct identity *identity, const struct process *peer, uint32_t gid)
{
	bool is_user = false, is_group = false;
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *status;

	*identity = (struct identity){.uid = peer->uid, .gid = gid};
	if (peer->pid <= 0 || !peer->started)
		return;
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/status", peer->pid);
	status = fopen(path, "re");
	while (status && getline(&line, &room, status) > 0) {
		if (!strncmp(line, "Uid:", 4))
			is_user = is_effective(line + 4, peer->uid);
		else if (!strncmp(line, "Gid:", 4))
			is_group = is_effective(line + 4, gid);
		else if (!strncmp(line, "Groups:", 7))
			parse_groups(identity, line + 7);
	}
	/* Check last whether the peer runs: if so, the file was that of the peer, not of a process
	 * that reused its pid. */
	if (!is_user || !is_group || !process_runs(peer))
		identity_finish(identity);
	free(line);
	if (status)
		fclose(status);
}

void identity_finish(struct identity *identity)
{
	free(identity->groups);
	identity->groups = NULL;
	identity->count = 0;
}

bool identity_is_in(const struct identity *identity, uint32_t gid)
{
	if (gid == IDENTITY_NO_GROUP)
		return false;
	return gid == identity->gid ||
	       (identity->count && bsearch(&gid, identity->groups, identity->count,
					   sizeof(*identity->groups), compare));
}

static int find_by_number(const char *name, uint32_t *out_gid)
{
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(name, &end, 10);
	if (*end || errno || number >= IDENTITY_NO_GROUP)
		return GPUSHARE_E_NOT_FOUND;
	*out_gid = (uint32_t)number;
	return GPUSHARE_OK;
}

static int find_by_name(const char *name, uint32_t *out_gid)
{
	struct group group, *found = NULL;
	char *room = NULL;
	int error = ERANGE;

	for (size_t size = 4096; error == ERANGE && size <= GROUP_ROOM_MAX; size *= 4) {
		char *grown = realloc(room, size);

		if (!grown)
			break;
		room = grown;
		error = getgrnam_r(name, &group, room, size, &found);
	}
	if (found)
		*out_gid = group.gr_gid;
	free(room);
	if (found)
		return GPUSHARE_OK;
	return !error || error == ENOENT || error == ESRCH ? GPUSHARE_E_NOT_FOUND : GPUSHARE_E_IO;
}

void identity_find_group(const char *name, struct identity_group *out_group)
{
	*out_group = (struct identity_group){.gid = IDENTITY_NO_GROUP};
	out_group->status = name_is_number(name) ? find_by_number(name, &out_group->gid)
						 : find_by_name(name, &out_group->gid);
}
