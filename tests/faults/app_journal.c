// SPDX-License-Identifier: MIT
/*
 * A service manager's journal for one program. `app_journal FILE PROGRAM WORD...` starts the
 * program where /run/systemd/journal/socket is a socket of this process, and appends each message
 * to FILE. Needs root. Without a program, its exit code says whether that is possible.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(99);
}

static int journal(void)
{
	const struct sockaddr_un at = {.sun_family = AF_UNIX,
				       .sun_path = "/run/systemd/journal/socket"};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(!unshare(CLONE_NEWNS), "unshare");
	must(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	must(!mount("none", "/run", "tmpfs", 0, NULL), "/run");
	must(!mkdir("/run/systemd", 0755) && !mkdir("/run/systemd/journal", 0755), "mkdir");
	must(fd >= 0 && !bind(fd, (const struct sockaddr *)&at, sizeof(at)), at.sun_path);
	return fd;
}

static void listen_to(int from, const char *path, pid_t parent)
{
	int to = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	char entry[8192];
	ssize_t size;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	while (to >= 0 && (size = recv(from, entry, sizeof(entry), 0)) >= 0)
		if (write(to, entry, (size_t)size) != size || write(to, "\n", 1) != 1)
			break;
	_exit(1);
}

int main(int argc, char **argv)
{
	pid_t parent = getpid();
	int fd = journal();

	if (argc < 3)
		return 0;
	if (!fork())
		listen_to(fd, argv[1], parent);
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 99;
}
