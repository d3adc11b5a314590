/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_LIFE_H
#define TESTS_E2E_SCRIPT_LIFE_H
/*
 * Verbs for threads, signals, and what a process does when it ends. WORD stands for another word of
 * a script with a comma in place of its `=`: thread=free,a executes free=a in a thread.
 */
#include <pthread.h>
#include <sys/time.h>

#include "script.h"

#define LIFE_WORD 512
#define LIFE_HANDLERS 32

/* verb, argument ... -> verb=argument,... */
static void life_word(char *to, char **argument, int count)
{
	int used = snprintf(to, LIFE_WORD, "%s", argument[0]);

	for (int i = 1; i < count; i++)
		used += snprintf(to + used, LIFE_WORD - (size_t)used, "%c%s", i == 1 ? '=' : ',',
				 argument[i]);
}

static void *life_do(void *word)
{
	script_do(word);
	return NULL;
}

VERB(thread, 1, 8)
{
	char word[LIFE_WORD];
	pthread_t thread;

	life_word(word, argument, count);
	if (pthread_create(&thread, NULL, life_do, word))
		script_stop("pthread_create failed");
	pthread_join(thread, NULL);
}

/* repeat=COUNT,WORDS: execute the next WORDS words COUNT times */
VERB(repeat, 2, 2)
{
	uint64_t words = script_number(argument[1]);
	char **first = script_at;

	for (uint64_t i = script_number(argument[0]); i; i--) {
		script_at = first;
		for (uint64_t k = 0; k < words && *script_at; k++)
			script_do(*script_at++);
	}
}

static pthread_t life_aside;

static void *life_do_aside(void *word)
{
	script_do(word);
	free(word);
	return NULL;
}

/* aside=WORD: execute WORD in a thread while the script goes on; rejoin: wait for that thread */
VERB(aside, 1, 8)
{
	char *word = malloc(LIFE_WORD);

	if (!word)
		script_stop("no memory");
	life_word(word, argument, count);
	if (pthread_create(&life_aside, NULL, life_do_aside, word))
		script_stop("pthread_create failed");
}

VERB(rejoin, 0, 0)
{
	pthread_join(life_aside, NULL);
}

/* cancel=WORD: execute WORD in a thread, and cancel the thread after 300 ms */
VERB(cancel, 1, 8)
{
	char word[LIFE_WORD];
	pthread_t thread;
	void *result;

	life_word(word, argument, count);
	if (pthread_create(&thread, NULL, life_do, word))
		script_stop("pthread_create failed");
	script_nap_ms(300);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	printf("cancel: %s\n", result == PTHREAD_CANCELED ? "cancelled" : "too late");
}

static char life_later[LIFE_HANDLERS][LIFE_WORD];
static int life_laters;
static char life_destructor[LIFE_WORD];
static char life_library_destructor[LIFE_WORD];

/* The handler registered last runs first, so take the last word first. */
static void life_at_exit(void)
{
	script_do(life_later[--life_laters]);
}

/* later=WORD: register an atexit handler that executes WORD */
VERB(later, 1, 8)
{
	if (life_laters == LIFE_HANDLERS)
		script_stop("too many handlers");
	life_word(life_later[life_laters++], argument, count);
	atexit(life_at_exit);
}

/* last=WORD: execute WORD in a destructor of the program */
VERB(last, 1, 8)
{
	life_word(life_destructor, argument, count);
}

__attribute__((destructor)) static void life_end(void)
{
	if (life_destructor[0])
		script_do(life_destructor);
}

static void life_library_end(void)
{
	script_do(life_library_destructor);
}

/* liblast=LIBRARY,WORD: execute WORD in the destructor of lib_ending.so, whose path is LIBRARY */
VERB(liblast, 2, 8)
{
	void *library = dlopen(argument[0], RTLD_NOW);
	void (*at_end)(void (*call)(void)) = library ? dlsym(library, "ending_call") : NULL;

	if (!at_end)
		script_stop("liblast: no such library");
	life_word(life_library_destructor, argument + 1, count - 1);
	at_end(life_library_end);
}

VERB(quick_exit, 1, 1)
{
	quick_exit((int)script_number(argument[0]));
}

VERB(raise, 1, 1)
{
	kill(getpid(), (int)script_number(argument[0]));
}

/* A shell's background job ignores SIGINT: default=2 undoes that. */
VERB(default, 1, 1)
{
	signal((int)script_number(argument[0]), SIG_DFL);
}

VERB(ignore, 1, 1)
{
	signal((int)script_number(argument[0]), SIG_IGN);
}

/* setenv=NAME,VALUE */
VERB(setenv, 2, 2)
{
	setenv(argument[0], argument[1], 1);
}

/* mutter=TEXT: print TEXT without a newline, so that it stays in the buffer of stdout */
VERB(mutter, 1, 1)
{
	fputs(argument[0], stdout);
}

static int life_code;

static void life_on_exit(int number)
{
	exit(life_code);
}

static void life_on__exit(int number)
{
	_exit(life_code);
}

/* catch=SIGNAL,exit|_exit,CODE: install a handler that ends the process in that way */
VERB(catch, 3, 3)
{
	life_code = (int)script_number(argument[2]);
	signal((int)script_number(argument[0]),
	       strcmp(argument[1], "exit") ? life_on__exit : life_on_exit);
}

/* signals: print the thread's signal mask and the process's signal dispositions from /proc, without
 * those of the C library's own signals (32 and 33), which it catches as it needs them */
VERB(signals, 0, 0)
{
	FILE *file = fopen("/proc/thread-self/status", "r");
	char line[256];

	if (!file)
		script_stop("no status in /proc");
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "Sig", 3) && strncmp(line, "SigQ", 4))
			printf("signals: %.8s%016llx\n", line,
			       strtoull(line + 8, NULL, 16) & ~(3ull << 31));
	fclose(file);
}

static volatile sig_atomic_t life_ticks;

static void life_on_tick(int number)
{
	life_ticks++;
}

/* ticking=MICROSECONDS: get SIGALRM at that interval; it interrupts system calls (no SA_RESTART).
 * ticking=0: wait until it has arrived once, and stop it. */
VERB(ticking, 1, 1)
{
	struct sigaction action = {.sa_handler = life_on_tick};
	long us = (long)script_number(argument[0]);
	const struct itimerval often = {{us / 1000000, us % 1000000}, {us / 1000000, us % 1000000}};

	sigaction(SIGALRM, &action, NULL);
	while (!us && !life_ticks)
		script_nap_ms(1);
	setitimer(ITIMER_REAL, &often, NULL);
}

static int life_pipe[2];
static pthread_t life_reader;

static void *life_read(void *unused)
{
	char byte;
	ssize_t size = read(life_pipe[0], &byte, 1);

	printf("reading: %s\n", size == 1 ? "a byte" : strerror(errno));
	return NULL;
}

/* reading: start a thread that waits in read() */
VERB(reading, 0, 0)
{
	if (pipe(life_pipe) || pthread_create(&life_reader, NULL, life_read, NULL))
		script_stop("reading: failed");
}

/* wasread: write a byte for that thread. If a signal has interrupted its read(), it has printed the
 * error instead. */
VERB(wasread, 0, 0)
{
	ssize_t size = write(life_pipe[1], "x", 1);

	(void)size;
	pthread_join(life_reader, NULL);
	close(life_pipe[0]);
	close(life_pipe[1]);
}

/* pid=FILE: save the process's pid */
VERB(pid, 1, 1)
{
	char part[512], text[16];

	snprintf(part, sizeof(part), "%s.part", argument[0]);
	script_save(part, text, (size_t)snprintf(text, sizeof(text), "%d", (int)getpid()));
	if (rename(part, argument[0]))
		script_stop("rename failed");
}

#endif
