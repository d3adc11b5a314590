/* SPDX-License-Identifier: MIT */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "protocol.h"

#define PROC_PATH_MAX 64
#define PROC_TEXT_MAX 4096

static const struct daemon_starter
    by_unknown = {"unknown", "unknown: /proc doesn't show the process here"},
    by_systemd = {"systemd", "systemd"},
    by_keeper = {"keeper", "its keeper, after the previous registry had ended"},
    by_program = {"program", "a program that needed it; it exits when idle"},
    by_hand = {"hand", "hand"};

int daemon_connect(const char *directory)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd < 0)
		return -1;
	if (directory_join(directory, GPUSHARE_FDS_SOCKET, to.sun_path))
		errno = ENAMETOOLONG;
	else if (!connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* Read /proc/PID/NAME, and append a NUL. Returns the length without the NUL; -1: can't be read. */
static ssize_t read_proc(int32_t pid, const char *name, char out[PROC_TEXT_MAX])
{
	char path[PROC_PATH_MAX];
	_cleanup_close_ int fd = -1;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, out, PROC_TEXT_MAX - 1);
	out[length > 0 ? length : 0] = '\0';
	return length;
}

/* The pid of the process's parent; 0: unknown. */
static int32_t parent_of(int32_t pid)
{
	char text[PROC_TEXT_MAX];
	const char *behind;
	int parent = 0;

	read_proc(pid, "stat", text);
	behind = strrchr(text, ')'); /* the last one: the command's name may contain ')' */
	return behind && sscanf(behind, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Find the process's systemd service: the last part of its cgroup's path, such as
 * /user.slice/user-1000.slice/user@1000.service/app.slice/gpushare-registry.service. */
static bool find_unit(int32_t pid, char out[NAME_MAX + 1])
{
	static const char suffix[] = ".service\n";
	char text[PROC_TEXT_MAX], *end, *begin;

	read_proc(pid, "cgroup", text);
	end = strstr(text, suffix);
	begin = end ? memrchr(text, '/', (size_t)(end - text)) : NULL;
	if (!begin)
		return false;
	end[sizeof(suffix) - 2] = '\0';
	snprintf(out, NAME_MAX + 1, "%s", begin + 1);
	return true;
}

static const struct daemon_starter *find_starter(struct daemon *daemon)
{
	int32_t parent = parent_of(daemon->pid);
	char words[PROC_TEXT_MAX], command[PROC_TEXT_MAX];
	ssize_t length = read_proc(daemon->pid, "cmdline", words);
	bool orphan;

	if (length <= 0 || !parent)
		return &by_unknown;
	orphan = memmem(words, (size_t)length, "\0--orphan", sizeof("\0--orphan"));
	read_proc(parent, "comm", command);
	command[strcspn(command, "\n")] = '\0';
	if (!strcmp(command, KEEPER_NAME))
		return &by_keeper;
	/* A program starts the registry with --orphan. Systemd may adopt it, so test this first. */
	if (orphan)
		return &by_program;
	if (strcmp(command, "systemd") != 0 || !find_unit(daemon->pid, daemon->unit))
		return &by_hand;
	daemon->of_user = parent != 1;
	return &by_systemd;
}

static void find_log(struct daemon *daemon)
{
	char path[PROC_PATH_MAX];
	struct stat is;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)daemon->pid);
	length = readlink(path, daemon->log, sizeof(daemon->log) - 1);
	daemon->log[length > 0 ? length : 0] = '\0';
	if (stat(daemon->log, &is) || !S_ISREG(is.st_mode))
		*daemon->log = '\0';
}

int daemon_find(const char *directory, struct daemon *out_daemon)
{
	_cleanup_close_ int fd = daemon_connect(directory);
	struct ucred ucred;
	socklen_t size = sizeof(ucred);

	*out_daemon = (struct daemon){.starter = &by_unknown};
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size))
		return errno;
	out_daemon->pid = ucred.pid;
	out_daemon->uid = ucred.uid;
	if (ucred.pid > 0) {
		out_daemon->starter = find_starter(out_daemon);
		find_log(out_daemon);
	}
	return 0;
}
