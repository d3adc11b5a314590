/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_UNSEEN_H
#define GPUSHARE_REGISTRY_UNSEEN_H
/*
 * Processes of other pid namespaces, as /proc shows them to a registry in one above: who was known
 * to a predecessor in a container is found here, or has ended. It is read once, as nobody looks for
 * who came later.
 */
#include "process.h"

#define UNSEEN_PROC "/proc"
#define UNSEEN_FIRST 0xEFFFFFFC /* the kernel's first pid namespace, which has all processes */

struct unseen;

enum sight {
	SIGHT_NONE, /* it may be where nothing is seen from here */
	SIGHT_GONE,
	SIGHT_HERE,
};

/* What `proc` shows. `first_namespace` has all processes. NULL: out of memory. */
struct unseen *unseen_open(const char *proc, uint64_t first_namespace);
/* Returns NULL. */
struct unseen *unseen_close(struct unseen *unseen);
/* By number in that namespace; its number here in *out_pid, for SIGHT_HERE alone. */
enum sight unseen_find(const struct unseen *unseen, uint64_t pid_namespace, int32_t pid,
		       int32_t *out_pid);
/*
 * Who is known by what it said of itself alone gets its pid here, if it is still the program whose
 * stack began at `stack`, or is `gone`. Where that can't be told nothing changes.
 */
void unseen_look(const struct unseen *unseen, struct process *process, uint64_t stack);

#endif
