/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROCESS_H
#define GPUSHARE_REGISTRY_PROCESS_H
/* A peer's process: what identifies it, its death, and its user and groups, by which the registry
 * judges its rights. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"

struct process {
	int32_t pid; /* 0: in another pid namespace */
	uint32_t uid;
	uint64_t started; /* in clock ticks since boot: pids are reused; 0: unknown */
	char command[GPUSHARE_COMMAND_MAX + 1]; /* printable ASCII; "": unknown */
	/* From Hello.self: distinguishes processes of other pid namespaces. */
	uint64_t own_namespace, own_started; /* 0: unknown */
	int32_t own_pid;
	uint64_t stack; /* address of the program's stack, which exec() changes; 0: unknown */
};

void process_read(int32_t pid, uint32_t uid, struct process *out_process);
/* Forget the pid, which is one of that namespace and not of ours. From then on, only what the
 * process says of itself identifies it. */
void process_forget_pid(struct process *process, uint64_t pid_namespace);
void process_says(struct process *process, uint64_t pid_namespace, int32_t pid, uint64_t started);
bool process_is_same(const struct process *a, const struct process *b);
/* Compares only what the processes say of themselves. */
bool process_says_same(const struct process *a, const struct process *b);
/* Whether the process called exec() between the readings `a` and `b`. false if unknown. */
bool process_is_other_program(const struct process *a, const struct process *b);
/* Whether the process exists and hasn't begun to exit. */
bool process_runs(const struct process *process);
/* Whether a thread of the process exists and still runs the same program. true if that can't be
 * read, false in another pid namespace. */
bool process_lives(const struct process *process);
/* Watching for the end of processes, by pidfd. A connection's end isn't enough: a child that a
 * peer forked keeps its connection open. */

/* Call it once, before other threads start. Watches take no descriptor above `highest`; the rest is
 * for connections. Without a watch, a process's death usually shows by the end of its connection.
 * Returns a descriptor that turns readable when a watched process ends; -1 and errno. */
int watch_open(int highest);
/* Returns the watch; -1 if the process can't be watched. */
int watch_add(int32_t pid, uint32_t id);
void watch_remove(int watch);
/* Whether the process has ended; false if unknown. */
bool watch_ended(int watch);
/* Set *out_id to watch_add()'s id of a process that has ended. Reports each once. false: none. */
bool watch_next(uint32_t *out_id);

#define IDENTITY_NO_GROUP UINT32_MAX /* nobody is in it */

struct identity {
	uint32_t uid;
	uint32_t gid;	  /* of its connection; IDENTITY_NO_GROUP: unknown */
	uint32_t *groups; /* supplementary groups; NULL: none, or not visible here */
	size_t count;
};

/* `gid` is SO_PEERCRED's. Supplementary groups are read from /proc, if the pid still belongs to the
 * process that connected, with the same user and group. */
void identity_read(struct identity *identity, const struct process *peer, uint32_t gid);
void identity_finish(struct identity *identity);
bool identity_is_in(const struct identity *identity, uint32_t gid);

/* The result of looking up a group. */
struct identity_group {
	int status; /* GPUSHARE_OK; E_NOT_FOUND: no such group; E_IO: the look-up failed */
	uint32_t gid;
};

/* Find a group by name or number. By name it may take long: then never call it under a lock. */
void identity_find_group(const char *name, struct identity_group *out_group);

#endif
