/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROCESS_H
#define GPUSHARE_REGISTRY_PROCESS_H
/* A peer's process: what identifies it, how its end is noticed, and its user and groups, which
 * decide its rights. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"

struct process {
	int32_t pid; /* 0: the process is in another pid namespace */
	uint32_t uid;
	uint64_t started; /* start time in clock ticks since boot, as pids are reused; 0: unknown */
	char command[GPUSHARE_COMMAND_MAX + 1]; /* printable ASCII; "": unknown */
	/* What the process says of itself (Hello.self), to identify it if it is in another pid
	 * namespace. */
	uint64_t own_namespace, own_started; /* 0: unknown */
	int32_t own_pid;
	uint64_t stack; /* address of the program's stack, which exec() changes; 0: unknown */
};

void process_read(int32_t pid, uint32_t uid, struct process *out_process);
/* Forget the pid, because it is a pid of `pid_namespace`, not of ours. From then on, only what the
 * process says of itself identifies the process. */
void process_forget_pid(struct process *process, uint64_t pid_namespace);
void process_says(struct process *process, uint64_t pid_namespace, int32_t pid, uint64_t started);
bool process_is_same(const struct process *a, const struct process *b);
/* Compares only what the processes say of themselves. */
bool process_says_same(const struct process *a, const struct process *b);
/* Whether the process called exec() between the readings `a` and `b`. false if unknown. */
bool process_is_other_program(const struct process *a, const struct process *b);
/* Whether the process exists and hasn't begun to exit. */
bool process_runs(const struct process *process);
/* Whether any thread of the process lives and still runs the same program. true if that can't be
 * read; false if the process is in another pid namespace. */
bool process_lives(const struct process *process);
/* Watching for the end of processes, by pidfd. The end of the connection isn't enough: a forked
 * child of the peer may keep the connection open. */

/*
 * Call this once, before other threads start. No watch takes a descriptor above `highest`, because
 * connections need the others. If a process can't be watched, its end usually shows by the end of
 * its connection. Returns a descriptor that turns readable when a watched process ends; -1 and
 * errno.
 */
int watch_open(int highest);
/* Watch that process. Returns the watch; -1 if it can't be watched. */
int watch_add(int32_t pid, uint32_t id);
void watch_remove(int watch);
/* Whether the process has ended; false if unknown. */
bool watch_ended(int watch);
/* Set *out_id to the id that watch_add() got for a process that has ended. Reports each process
 * once. false: no other has ended. */
bool watch_next(uint32_t *out_id);

#define IDENTITY_NO_GROUP UINT32_MAX /* nobody is in it */

struct identity {
	uint32_t uid;
	uint32_t gid;	  /* group of the peer when it connected; IDENTITY_NO_GROUP: unknown */
	uint32_t *groups; /* supplementary groups, sorted; NULL: none, or not readable here */
	size_t count;
};

/* `gid` is SO_PEERCRED's. Supplementary groups are read from /proc, but only if the process that
 * connected still has the pid, and the same user and group. */
void identity_read(struct identity *identity, const struct process *peer, uint32_t gid);
void identity_finish(struct identity *identity);
bool identity_is_in(const struct identity *identity, uint32_t gid);

/* The result of looking up a group. */
struct identity_group {
	int status; /* GPUSHARE_OK; E_NOT_FOUND: no such group; E_IO: the look-up failed */
	uint32_t gid;
};

/* Find a group by name or number. A look-up by name may take long, so don't call this under a lock
 * unless name_is_number(). */
void identity_find_group(const char *name, struct identity_group *out_group);

#endif
