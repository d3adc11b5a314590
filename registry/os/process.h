/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROCESS_H
#define GPUSHARE_REGISTRY_PROCESS_H
/* Who is at the other end, as the kernel tells it; for one in another pid namespace, as it says itself. */
#include <stdbool.h>
#include <stdint.h>

#include "gpushare.h"

struct process {
	int32_t pid; /* 0: not visible in this pid namespace */
	uint32_t uid;
	uint64_t started; /* clock ticks after boot; 0: not visible. A pid alone is used again. */
	char command[GPUSHARE_COMMAND_MAX + 1]; /* printable ASCII; "": not visible */
	/* What it says of itself; where pid is 0 that tells it from others of whom we know as little. */
	uint64_t own_namespace, own_started; /* 0: nothing */
	int32_t own_pid;
	uint64_t stack; /* where its program's stack begins; 0: not visible */
};

void process_read(int32_t pid, uint32_t uid, struct process *out_process);
/* This process's pid namespace; 0: it can't be told. */
uint64_t process_namespace(void);
/* Its pid is that namespace's, and nobody's here, or another one's: it is one that isn't visible. */
void process_forget_pid(struct process *process, uint64_t pid_namespace);
void process_says(struct process *process, uint64_t pid_namespace, int32_t pid, uint64_t started);
bool process_is_same(const struct process *a, const struct process *b);
/* By what they say of themselves alone. */
bool process_says_same(const struct process *a, const struct process *b);
/* Of one process: whether it has called exec() in between, by where the kernel then put its stack. false
 * where that can't be told. */
bool process_is_other_program(const struct process *a, const struct process *b);
/* Whether that very process runs still; a zombie does not. */
bool process_runs(const struct process *process);
/* Whether it does, and has not become another program; false for one that isn't visible. */
bool process_lives(const struct process *process);

/*
 * Whether some program waits for this process to end, which it may have become the parent of without
 * knowing (PR_SET_CHILD_SUBREAPER: compute-sanitizer does so): the parent is neither pid 1 nor a
 * service manager.
 */
bool process_is_awaited(void);

#endif
