/* SPDX-License-Identifier: MIT */
#include "persist/recall.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "close_from.h"

#define SELF "/proc/self/exe"

extern char **environ;

void recall_init(struct recall *recall, const char *directory)
{
	const char *autostart = getenv("GPUSHARE_AUTOSTART");

	*recall = (struct recall){
	    .due_ns = INT64_MAX,
	    .off = autostart && !strcmp(autostart, "0"),
	};
	snprintf(recall->directory, sizeof(recall->directory), "%s", directory);
}

/* In a child of fork(), which may call nothing but the kernel. Nobody's child, with none of what is
 * kept. */
static void become_registry(const char *program, char *const arguments[])
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	setsid();
	if (fork() != 0)
		_exit(0);
	close_from(STDERR_FILENO + 1);
	execve(program, arguments, environ);
	execve(SELF, arguments, environ);
	_exit(127);
}

/* By its path, where a newer version may be by now; where there is none any more, what we are. */
static void start(char *directory)
{
	char *const arguments[] = {
	    (char *)"gpushare-registry",  (char *)"--dir",    directory, (char *)"--idle-exit",
	    (char *)GPUSHARE_IDLE_EXIT_S, (char *)"--orphan", NULL};
	char program[PATH_MAX];
	ssize_t length = readlink(SELF, program, sizeof(program) - 1);
	pid_t child;

	program[length > 0 ? length : 0] = '\0';
	child = fork();
	if (!child)
		become_registry(program, arguments);
	if (child > 0)
		waitpid(child, NULL, 0);
}

void recall_tick(struct recall *recall, bool connected)
{
	int64_t now = clock_ns();

	if (connected || recall->off) {
		recall->due_ns = INT64_MAX;
		return;
	}
	if (recall->due_ns == INT64_MAX) {
		recall->due_ns = now + RECALL_ALONE_MS * NS_PER_MS;
		if (recall->last_ns &&
		    recall->due_ns < recall->last_ns + RECALL_AGAIN_MS * NS_PER_MS)
			recall->due_ns = recall->last_ns + RECALL_AGAIN_MS * NS_PER_MS;
	}
	if (now < recall->due_ns)
		return;
	recall->last_ns = now;
	recall->due_ns = INT64_MAX;
	start(recall->directory);
}
