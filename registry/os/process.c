/* SPDX-License-Identifier: MIT */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A file of /proc/PID, as a string; "" when it can't be read. */
static void read_proc(int32_t pid, const char *file, char *to, size_t room)
{
	char path[64];
	ssize_t length = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, to, room - 1);
		close(fd);
	}
	to[length < 0 ? 0 : length] = '\0';
}

#define FLAG_EXITING 4 /* the kernel's PF_EXITING: its descriptors may be closed already */

/* Of fields 3 and 9 of /proc/PID/stat: whether it ends or has ended. Fields 22 and 28. The command, field 2,
 * may hold blanks and parentheses. */
static bool read_stat(int32_t pid, bool *out_ends, uint64_t *out_started, uint64_t *out_stack)
{
	char stat[1024], state;
	unsigned int flags;
	const char *after;

	read_proc(pid, "stat", stat, sizeof(stat));
	after = strrchr(stat, ')');
	if (!after ||
	    sscanf(after + 1,
		   " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%" SCNu64 " %*s %*s %*s %*s %*s %" SCNu64,
		   &state, &flags, out_started, out_stack) != 4)
		return false;
	*out_ends = state == 'Z' || state == 'X' || flags & FLAG_EXITING;
	return true;
}

void process_read(int32_t pid, uint32_t uid, struct process *out_process)
{
	struct process process = {.pid = pid, .uid = uid};
	bool ends;

	if (pid > 0) {
		if (!read_stat(pid, &ends, &process.started, &process.stack))
			process.started = process.stack = 0;
		read_proc(pid, "comm", process.command, sizeof(process.command));
		process.command[strcspn(process.command, "\n")] = '\0';
		/* It travels as a protobuf string, which must be UTF-8, and ends on terminals. */
		for (char *c = process.command; *c; c++) {
			if (*c < ' ' || *c > '~')
				*c = '?';
		}
	}
	*out_process = process;
}

bool process_is_awaited(void)
{
	struct process parent;

	process_read(getppid(), 0, &parent);
	return parent.pid > 1 && strcmp(parent.command, "systemd") != 0;
}

uint64_t process_namespace(void)
{
	struct stat is;

	return stat("/proc/self/ns/pid", &is) ? 0 : is.st_ino;
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

bool process_runs(const struct process *process)
{
	uint64_t started, stack;
	bool ends;

	return process->pid > 0 && read_stat(process->pid, &ends, &started, &stack) &&
	       started == process->started && !ends;
}

/* Not by its state alone: a process whose first thread has ended is a zombie, and lives. */
bool process_lives(const struct process *process)
{
	int fd = process->pid > 0 ? (int)syscall(SYS_pidfd_open, process->pid, 0) : -1;
	struct pollfd event = {.fd = fd, .events = POLLIN};
	struct process now;
	bool ended;

	if (fd < 0)
		return errno != ESRCH && process_runs(process);
	process_read(process->pid, process->uid, &now);
	ended = !process_is_same(&now, process) || process_is_other_program(&now, process) ||
		poll(&event, 1, 0) == 1;
	close(fd);
	return !ended;
}
