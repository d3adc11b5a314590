/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_H
#define TESTS_E2E_SCRIPT_H
/*
 * A test program's arguments are its script: words `verb` or `verb=argument,argument`, executed in
 * order. Verbs avoid printing what may differ from run to run. The verbs of this file use no GPU:
 * files for synchronization, ways to end, children, file descriptors, time limits.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SCRIPT_ARGUMENTS 8

struct script_verb {
	const char *name;
	int least, most; /* arguments */
	void (*run)(char **argument, int count);
	struct script_verb *next;
};

static struct script_verb *script_verbs;

/* Define the verb `word`, which takes `least` to `most` arguments. The function's body follows. */
#define VERB(word, least, most) \
	static void verb_##word(char **argument, int count); \
	__attribute__((constructor)) static void verb_##word##_add(void) \
	{ \
		static struct script_verb verb = {#word, least, most, verb_##word, NULL}; \
\
		verb.next = script_verbs; \
		script_verbs = &verb; \
	} \
	static void verb_##word(char **argument, int count)

static volatile sig_atomic_t script_sigchlds;
static long script_limit_ms; /* 0: none */
static char **script_words;
static char **script_at; /* the next word */

__attribute__((noreturn)) static inline void script_stop(const char *what)
{
	fprintf(stderr, "script: %s\n", what);
	exit(99);
}

static inline long script_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void script_nap_ms(long ms)
{
	const struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&nap, NULL);
}

static inline uint64_t script_number(const char *text)
{
	char *end;
	uint64_t number = strtoull(text, &end, 0);

	if (!strcmp(end, "Ki"))
		number <<= 10, end += 2;
	else if (!strcmp(end, "Mi"))
		number <<= 20, end += 2;
	if (end == text || *end)
		script_stop("not a number");
	return number;
}

/* The byte at `index` of the pattern that `seed` makes. */
static inline unsigned char script_pattern(uint64_t seed, uint64_t index)
{
	return (unsigned char)(seed + index * 7 + (index >> 8) * 13);
}

static inline unsigned char *script_pattern_new(uint64_t seed, size_t size)
{
	unsigned char *bytes = malloc(size ? size : 1);

	if (!bytes)
		script_stop("out of memory");
	for (size_t i = 0; i < size; i++)
		bytes[i] = script_pattern(seed, i);
	return bytes;
}

static inline void script_save(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");

	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
		script_stop("can't save");
}

VERB(touch, 1, 1)
{
	script_save(argument[0], "", 0);
}

VERB(remove, 1, 1)
{
	unlink(argument[0]);
}

VERB(await, 1, 1)
{
	long deadline = script_now_ms() + 240000; /* less than a test's limit on a GPU */

	while (access(argument[0], F_OK)) {
		if (script_now_ms() > deadline)
			script_stop("await: the file did not come");
		script_nap_ms(2);
	}
}

/* within=MS: every later verb that takes longer prints `late` */
VERB(within, 1, 1)
{
	script_limit_ms = (long)script_number(argument[0]);
}

VERB(exit, 1, 1)
{
	exit((int)script_number(argument[0]));
}

VERB(_exit, 1, 1)
{
	_exit((int)script_number(argument[0]));
}

VERB(abort, 0, 0)
{
	abort();
}

/* fork=exit, fork=_exit: fork a child that ends at once in that way, and reap it */
VERB(fork, 1, 1)
{
	pid_t child = fork();
	int status = -1;

	if (!child) {
		if (!strcmp(argument[0], "exit"))
			exit(0);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		script_stop("waitpid failed");
	printf("child: %d\n", status);
}

/* forkhold=FILE[,raw]: fork a child that keeps all that it inherited until it is killed; its pid
 * goes to FILE. raw: by the clone system call, so that no handler of pthread_atfork() runs. */
VERB(forkhold, 1, 2)
{
	pid_t child = count > 1 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	char part[512], text[16];

	if (!child)
		for (;;)
			pause();
	snprintf(part, sizeof(part), "%s.part", argument[0]);
	script_save(part, text, (size_t)snprintf(text, sizeof(text), "%d", (int)child));
	if (rename(part, argument[0]))
		script_stop("rename failed");
}

static void script_on_sigchld(int number)
{
	script_sigchlds++;
}

VERB(sigchld, 0, 0)
{
	struct sigaction action = {.sa_handler = script_on_sigchld};

	sigaction(SIGCHLD, &action, NULL);
}

/* children: print how many SIGCHLDs have arrived, and what waitpid() finds */
VERB(children, 0, 0)
{
	pid_t child = waitpid(-1, NULL, WNOHANG);

	printf("children: %d signals, wait %s\n", (int)script_sigchlds,
	       child < 0 && errno == ECHILD ? "ECHILD" : "found one");
}

static int script_count(const char *folder)
{
	DIR *open_folder = opendir(folder);
	int count = 0;

	if (!open_folder)
		script_stop("can't list a folder of /proc");
	while (readdir(open_folder))
		count++;
	closedir(open_folder);
	return count - 2;
}

static bool script_is_unix_socket(int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_UNIX;
}

VERB(census, 0, 0)
{
	int sockets = 0;

	for (int fd = 3; fd < 1024; fd++)
		sockets += script_is_unix_socket(fd);
	printf("census: %d threads, %d fds, %d unix sockets\n", script_count("/proc/self/task"),
	       script_count("/proc/self/fd") - 1, sockets);
}

/* sockets=close: close every Unix socket. sockets=steal,FILE[,BELOW]: replace every Unix socket by
 * FILE; with BELOW, only file descriptors below that number, and print how many. */
VERB(sockets, 1, 3)
{
	int file = count > 1 ? open(argument[1], O_RDWR | O_CREAT, 0600) : -1;
	int below = count > 2 ? (int)script_number(argument[2]) : 1024, found = 0;

	for (int fd = 3; fd < below; fd++) {
		if (fd == file || !script_is_unix_socket(fd))
			continue;
		found++;
		if (file < 0)
			close(fd);
		else if (dup2(file, fd) < 0)
			script_stop("dup2 failed");
	}
	if (count > 2)
		printf("sockets below %d: %d\n", below, found);
}

VERB(closefrom, 1, 1)
{
	for (int fd = (int)script_number(argument[0]); fd < 1024; fd++)
		close(fd);
}

static struct stat script_seized;
static int script_seized_below;

/* seize=FILE,BELOW: replace every file descriptor from 3 to below BELOW by FILE. seized: print how
 * many of these have been closed since then. */
VERB(seize, 2, 2)
{
	int file = open(argument[0], O_RDWR | O_CREAT, 0600);

	script_seized_below = (int)script_number(argument[1]);
	if (file < 0 || fstat(file, &script_seized))
		script_stop("seize: the file can't be opened");
	for (int fd = 3; fd < script_seized_below; fd++)
		if (dup2(file, fd) < 0)
			script_stop("dup2 failed");
}

VERB(seized, 0, 0)
{
	int closed = 0;
	struct stat is;

	for (int fd = 3; fd < script_seized_below; fd++)
		closed += fstat(fd, &is) || is.st_ino != script_seized.st_ino;
	printf("seized: %d closed\n", closed);
}

/* cramp=SIZE: let the address space grow by at most SIZE from now on */
VERB(cramp, 1, 1)
{
	struct rlimit limit = {.rlim_max = RLIM_INFINITY};
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu", &pages) != 1)
		script_stop("cramp: /proc/self/statm can't be read");
	fclose(file);
	limit.rlim_cur = (rlim_t)pages * (rlim_t)getpagesize() + script_number(argument[0]);
	if (setrlimit(RLIMIT_AS, &limit))
		script_stop("setrlimit failed");
}

VERB(chroot, 1, 1)
{
	if (chroot(argument[0]) || chdir("/"))
		script_stop("chroot failed");
}

/* pend=NAME: leave an error message pending for dlerror() */
VERB(pend, 1, 1)
{
	dlerror();
	if (dlsym(RTLD_DEFAULT, argument[0]))
		script_stop("pend: such a symbol exists");
}

/* dlerror: print the pending error message */
VERB(dlerror, 0, 0)
{
	const char *text = dlerror();

	printf("dlerror: %s\n", text ? text : "nothing");
}

static inline void script_do(const char *word)
{
	char text[1024], *argument[SCRIPT_ARGUMENTS], *rest;
	const struct script_verb *verb = script_verbs;
	long began_ms = script_now_ms();
	int count = 0;

	if (strlen(word) >= sizeof(text))
		script_stop("word too long");
	strcpy(text, word);
	rest = strchr(text, '=');
	if (rest)
		*rest++ = '\0';
	for (char *one; rest && count < SCRIPT_ARGUMENTS && (one = strsep(&rest, ","));)
		argument[count++] = one;
	while (verb && strcmp(verb->name, text))
		verb = verb->next;
	if (!verb || count < verb->least || count > verb->most) {
		fprintf(stderr, "script: no such verb, or wrong arguments: %s\n", word);
		exit(99);
	}
	verb->run(argument, count);
	if (script_limit_ms && script_now_ms() - began_ms > script_limit_ms)
		printf("late: %s took %ld ms\n", word, script_now_ms() - began_ms);
}

/* Execute `words`. Return the program's exit code. */
static inline int script_run(char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	script_words = words;
	for (script_at = words; *script_at;)
		script_do(*script_at++);
	return 0;
}

#endif
