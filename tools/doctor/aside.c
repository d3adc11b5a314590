/* SPDX-License-Identifier: MIT */
#include "aside.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIST_PATIENCE_MS 10000

void *aside_room(size_t size)
{
	void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return room == MAP_FAILED ? NULL : room;
}

static int reap(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		;
	return status;
}

/* A driver may print to standard output or error, and doctor's own output must stay clean. Threads
 * that the driver creates inherit this mask: only fault signals stay unblocked. */
static void be_quiet(void)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t all;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		dup2(null, fd);
	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(&all, own[i]);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

enum aside_end aside_do(void (*work)(void *facts), void *facts, unsigned int patience_ms,
			int *out_signal)
{
	struct pollfd over = {.events = POLLIN};
	int line[2], status;
	bool hung;
	pid_t pid;

	if (pipe2(line, O_CLOEXEC))
		return ASIDE_FAILED;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_quiet();
		work(facts);
		_exit(0);
	}
	close(line[1]);
	over.fd = line[0]; /* poll() reports POLLHUP when the child ends */
	hung = pid > 0 && poll(&over, 1, (int)patience_ms) == 0;
	close(line[0]);
	if (pid < 0)
		return ASIDE_FAILED;
	if (hung)
		kill(pid, SIGKILL);
	status = reap(pid);
	if (hung)
		return ASIDE_HUNG;
	if (!WIFSIGNALED(status))
		return ASIDE_DONE;
	*out_signal = WTERMSIG(status);
	return ASIDE_CRASHED;
}

/* List the libraries as ldd does. Source: ld.so(8), LD_TRACE_LOADED_OBJECTS. */
static void become(const char *loader, const char *program, const char *preload, int out)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	if (!setenv("LD_PRELOAD", preload, 1) && !setenv("LD_TRACE_LOADED_OBJECTS", "1", 1))
		execl(loader, loader, program, NULL);
	_exit(127);
}

int aside_list(const char *loader, const char *program, const char *preload, char *out, size_t room)
{
	struct pollfd more = {.events = POLLIN};
	size_t used = 0;
	ssize_t size = -1;
	int line[2], status;
	pid_t pid;

	if (pipe2(line, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid)
		become(loader, program, preload, line[1]);
	close(line[1]);
	more.fd = line[0];
	while (pid > 0 && used + 1 < room && poll(&more, 1, LIST_PATIENCE_MS) > 0 &&
	       (size = read(line[0], out + used, room - used - 1)) > 0)
		used += (size_t)size;
	out[used] = '\0';
	close(line[0]);
	if (pid < 0)
		return -1;
	if (size) /* too much output, or none within LIST_PATIENCE_MS */
		kill(pid, SIGKILL);
	status = reap(pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
