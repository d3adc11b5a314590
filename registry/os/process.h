/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROCESS_H
#define GPUSHARE_REGISTRY_PROCESS_H
/* A peer's process: what identifies it, and its death. */
#include <stdbool.h>
#include <stdint.h>

#include "gpushare.h"

struct process {
	int32_t pid; /* 0: in another pid namespace */
	uint32_t uid;
	uint64_t started; /* clock ticks after boot, because pids are reused; 0: unknown */
	char command[GPUSHARE_COMMAND_MAX + 1]; /* printable ASCII; "": unknown */
	/* From Hello.self: distinguishes processes of other pid namespaces. */
	uint64_t own_namespace, own_started; /* 0: unknown */
	int32_t own_pid;
	uint64_t stack; /* address of the program's stack, which exec() changes; 0: unknown */
};

void process_read(int32_t pid, uint32_t uid, struct process *out_process);
/* This process's pid namespace; 0: unknown. */
uint64_t process_namespace(void);
/* The pid is one of that namespace, not of ours: only what the process says of itself identifies it. */
void process_forget_pid(struct process *process, uint64_t pid_namespace);
void process_says(struct process *process, uint64_t pid_namespace, int32_t pid, uint64_t started);
bool process_is_same(const struct process *a, const struct process *b);
/* By what they say of themselves alone. */
bool process_says_same(const struct process *a, const struct process *b);
/* Of one process: it has called exec() in between. false if unknown. */
bool process_is_other_program(const struct process *a, const struct process *b);
/* It hasn't begun to exit. */
bool process_runs(const struct process *process);
/* The kernel hasn't released all of it, and it is the same program; true if that can't be read, false in another
 * pid namespace. */
bool process_lives(const struct process *process);
/*
 * Some program waits for this process to end. It may have become the parent without knowing it
 * (PR_SET_CHILD_SUBREAPER, as compute-sanitizer does): the parent is neither pid 1 nor a service manager.
 */
bool process_is_awaited(void);

/* Deaths by pidfd. A connection's end isn't enough: a child that a peer forked keeps its connection open. */

/* A descriptor that turns readable when a watched process ends; -1 and errno. */
int watch_open(void);
/* Watches take no descriptor above `fd`; those are left to connections, whose end reports most deaths. */
void watch_limit(int fd);
/* Returns what watch_remove() takes; -1 and errno if the process can't be watched. */
int watch_add(int watches, int32_t pid, uint32_t id);
void watch_remove(int watch);
/* The process has ended; false if unknown. */
bool watch_ended(int watch);
/* The id of one more process that has ended, each once. */
bool watch_next(int watches, uint32_t *out_id);

#endif
