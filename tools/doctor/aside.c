/* SPDX-License-Identifier: MIT */
#include "aside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "common/tool.h"

#define LIST_PATIENCE_MS 10000
#define EVERY_MS 5

void *aside_room(size_t size)
{
	void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return room == MAP_FAILED ? NULL : room;
}

/* Keep the driver's own messages out of doctor's output. Block all signals except those of faults;
 * threads that the driver creates inherit this. */
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
			int *out_code)
{
	uint64_t until = tool_now_ms() + patience_ms;
	int status = 0;
	pid_t pid = fork(), ended;

	if (pid < 0)
		return ASIDE_FAILED;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_quiet();
		work(facts);
		_exit(0);
	}
	/* Poll: Linux before 5.3 and some containers have no pidfd to wait for. */
	while (!(ended = waitpid(pid, &status, WNOHANG)) && tool_now_ms() < until)
		poll(NULL, 0, EVERY_MS);
	if (!ended) {
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	*out_code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	return !ended ? ASIDE_HUNG : WIFSIGNALED(status) ? ASIDE_CRASHED : ASIDE_DONE;
}

struct listing {
	const char *loader, *program, *preload;
	int out;
};

/* List the libraries as ldd does. Source: ld.so(8), LD_TRACE_LOADED_OBJECTS. */
static void become_loader(void *user)
{
	const struct listing *listing = user;

	dup2(listing->out, STDOUT_FILENO);
	dup2(listing->out, STDERR_FILENO);
	if (!setenv("LD_PRELOAD", listing->preload, 1) &&
	    !setenv("LD_TRACE_LOADED_OBJECTS", "1", 1))
		execl(listing->loader, listing->loader, listing->program, NULL);
	_exit(127);
}

int aside_list(const char *loader, const char *program, const char *preload, char *out, size_t room)
{
	_cleanup_close_ int file = memfd_create("list", MFD_CLOEXEC);
	struct listing listing = {loader, program, preload, file};
	int code = -1;
	enum aside_end end =
	    file < 0 ? ASIDE_FAILED : aside_do(become_loader, &listing, LIST_PATIENCE_MS, &code);
	ssize_t size = pread(file, out, room - 1, 0);

	out[size > 0 ? size : 0] = '\0';
	return end == ASIDE_HUNG || end == ASIDE_CRASHED ? 128 + code : code;
}
