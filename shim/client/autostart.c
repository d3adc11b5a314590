/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "close_from.h"

#define PROGRAM "gpushare-registry"
#define STACK_SIZE 65536
#define FDS_LEAST 32 /* a registry has about 24 open before its first client connects */

extern char **environ;

/* All that the child needs. The parent prepares it: the child shares the parent's memory, so it may
 * only make system calls. */
struct launch {
	char program[PATH_MAX];
	char self[PATH_MAX]; /* the path of this library or program */
	char *arguments[8];
	char **environment;
	char *inner_stack;
	int said;	  /* fd: the registry's standard error until it listens; -1: /dev/null */
	sigset_t nothing; /* empty: the registry's signal mask */
	int error;	  /* errno of a failed exec: the child writes it here (CLONE_VM) */
};

static bool try_program(struct launch *launch, const char *folder, int folder_length,
			const char *rest)
{
	int length =
	    snprintf(launch->program, PATH_MAX, "%.*s%s" PROGRAM, folder_length, folder, rest);

	return length > 0 && length < PATH_MAX && !access(launch->program, X_OK);
}

static bool find_on_path(struct launch *launch)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t length = strcspn(path, ":");

		if (length > 0 && try_program(launch, path, (int)length, "/"))
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}

static int visit_self(struct dl_phdr_info *info, size_t size, void *user)
{
	const char **out_path = user;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD &&
		    (uintptr_t)visit_self - (info->dlpi_addr + part->p_vaddr) < part->p_memsz) {
			*out_path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
			return 1;
		}
	}
	return 0;
}

/* Find the path that this code was loaded from. dladdr() can't be used: it waits for the loader's
 * lock, which a thread in dlopen() may hold while its constructor waits for us. */
static bool find_self(char out[PATH_MAX])
{
	const char *path = NULL;

	dl_iterate_phdr(visit_self, &path);
	return path && realpath(path, out);
}

/* If $GPUSHARE_REGISTRY is set, try nothing else. Otherwise try the directory of this library or
 * program, ../bin and ../../bin from there, then PATH. */
static bool find_program(struct launch *launch)
{
	const char *given = getenv("GPUSHARE_REGISTRY");
	const char *self = launch->self, *slash;

	if (given && *given) {
		snprintf(launch->program, PATH_MAX, "%s", given);
		return !access(launch->program, X_OK);
	}
	slash = find_self(launch->self) ? strrchr(self, '/') : NULL;
	if (slash && (try_program(launch, self, (int)(slash - self), "/") ||
		      try_program(launch, self, (int)(slash - self), "/../bin/") ||
		      try_program(launch, self, (int)(slash - self), "/../../bin/")))
		return true;
	return find_on_path(launch);
}

/* Execute the registry in a new session, with default signal handlers and none of the program's
 * fds. */
static int become_registry(void *argument)
{
	struct launch *launch = argument;
	struct sigaction plain = {.sa_handler = SIG_DFL};
	int null;

	setsid();
	for (int number = 1; number < NSIG; number++)
		syscall(SYS_rt_sigaction, number, &plain, NULL, sizeof(unsigned long));
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	if (launch->said >= 0)
		dup2(launch->said, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	if (!chdir("/")) {
		sigprocmask(SIG_SETMASK, &launch->nothing, NULL);
		execve(launch->program, launch->arguments, launch->environment);
	}
	launch->error = errno;
	_exit(127);
}

/* The intermediate process exits as soon as the daemon runs, so that the daemon is not a child of
 * the program. */
static int spawn_registry(void *argument)
{
	struct launch *launch = argument;
	/* No CLONE_FILES: the child closes all fds in a table of its own. */
	int child = clone(become_registry, launch->inner_stack + STACK_SIZE, CLONE_VM | CLONE_VFORK,
			  launch);

	_exit(child < 0 ? 1 : 0);
}

static bool is_loader_variable(const char *entry)
{
	return !strncmp(entry, "LD_PRELOAD=", 11) || !strncmp(entry, "LD_AUDIT=", 9);
}

/* The environment without the variables that would load libraries into the daemon. */
static char **registry_environment(void)
{
	size_t count = 0, kept = 0;
	char **copy;

	while (environ && environ[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++)
		if (!is_loader_variable(environ[i]))
			copy[kept++] = environ[i];
	return copy;
}

/*
 * Two clones with CLONE_VM|CLONE_VFORK: copying the page tables, as fork() does, is slow in a CUDA
 * process. The exit signal is 0, so no SIGCHLD is sent and the program's wait(NULL) doesn't see the
 * intermediate process; we reap it ourselves with __WCLONE. Signals are blocked throughout: a
 * handler must not run in the child, which shares our memory.
 */
static int run_clones(struct launch *launch, char *stack)
{
	sigset_t all, before;
	int child, outcome = 0, error;

	sigfillset(&all);
	sigemptyset(&launch->nothing);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = clone(spawn_registry, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, launch);
	error = child < 0 ? errno : 0;
	if (child > 0)
		while (waitpid(child, &outcome, __WCLONE) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error && WIFEXITED(outcome) && WEXITSTATUS(outcome) != 0)
		error = EAGAIN;
	return error ? error : launch->error;
}

/* A registry raises its soft limit of descriptors to the hard limit. If the hard limit is too low,
 * the registry can't report that, so check it here. */
static bool has_fds(const char *directory, char *why, size_t why_size)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_max >= FDS_LEAST)
		return true;
	snprintf(why, why_size,
		 "no registry runs for %s, and one that is started here may have only %llu file "
		 "descriptors (ulimit -Hn), but needs %d; start gpushare-registry where the limit "
		 "is higher",
		 directory, (unsigned long long)files.rlim_max, FDS_LEAST);
	return false;
}

int autostart_registry(const char *directory, int said, char *why, size_t why_size)
{
	_cleanup_free_ struct launch *launch = calloc(1, sizeof(*launch));
	_cleanup_free_ char **environment = registry_environment();
	_cleanup_free_ char *stacks = malloc(2 * STACK_SIZE);
	int error;

	if (!launch || !environment || !stacks) {
		snprintf(why, why_size, "no memory to start a registry");
		return GPUSHARE_E_NO_MEMORY;
	}
	if (getauxval(AT_SECURE)) {
		snprintf(why, why_size,
			 "no registry runs for %s, and a program that has other rights than its "
			 "caller (set-uid) starts none; start gpushare-registry as the program's "
			 "effective user",
			 directory);
		return GPUSHARE_E_NO_REGISTRY;
	}
	if (!has_fds(directory, why, why_size))
		return GPUSHARE_E_NO_REGISTRY;
	if (!find_program(launch)) {
		snprintf(why, why_size,
			 "no registry runs for %s and " PROGRAM
			 " was not found: not in $GPUSHARE_REGISTRY, "
			 "beside the library, in ../bin from there, nor on PATH",
			 directory);
		return GPUSHARE_E_NO_REGISTRY;
	}
	launch->said = said;
	launch->environment = environment;
	launch->inner_stack = stacks + STACK_SIZE;
	launch->arguments[0] = launch->program;
	launch->arguments[1] = (char *)"--dir";
	launch->arguments[2] = (char *)(uintptr_t)directory;
	launch->arguments[3] = (char *)"--idle-exit";
	launch->arguments[4] = (char *)GPUSHARE_IDLE_EXIT_S;
	launch->arguments[5] = (char *)"--orphan";
	error = run_clones(launch, stacks);
	if (error) {
		snprintf(why, why_size, "no registry runs for %s and %s can't be started: %s",
			 directory, launch->program, strerror(error));
		return GPUSHARE_E_NO_REGISTRY;
	}
	return GPUSHARE_OK;
}
