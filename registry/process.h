/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROCESS_H
#define GPUSHARE_REGISTRY_PROCESS_H
/* Who is at the other end, as the kernel tells it. */
#include <stdbool.h>
#include <stdint.h>

#include "gpushare.h"

struct process {
	int32_t pid;      /* 0: not visible in this pid namespace */
	uint32_t uid;
	uint64_t started; /* clock ticks after boot; 0: not visible. A pid alone is used again. */
	char command[GPUSHARE_COMMAND_MAX + 1]; /* printable ASCII; "": not visible */
};

void process_read(int32_t pid, uint32_t uid, struct process *out_process);
bool process_is_same(const struct process *a, const struct process *b);
/* Whether that very process runs still; a zombie does not. */
bool process_runs(const struct process *process);

#endif
