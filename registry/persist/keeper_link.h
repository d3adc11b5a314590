/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_KEEPER_LINK_H
#define GPUSHARE_REGISTRY_KEEPER_LINK_H
/* A registry's connection to its keeper (keeper.h), and how it gets one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

struct keeper_link {
	int fd;	      /* -1: none */
	int starting; /* pid of the go-between, which is a child of ours until it has ended; 0: none */
	bool said;    /* that there can't be one */
	char directory[GPUSHARE_PATH_MAX];
};

void keeper_link_init(struct keeper_link *link, const char *directory);
/* Connect to the keeper that lives, of this user alone. */
bool keeper_link_find(struct keeper_link *link);
/* Start another one. Waits until its program runs, and for nothing that this does. */
bool keeper_link_start(struct keeper_link *link);
/* Some of what it keeps: how many, 0: that was all, -1: it doesn't answer. Waits a second for it. */
int keeper_link_take(struct keeper_link *link, uint64_t out_generations[FDS_MAX],
		     int out_fds[FDS_MAX]);
/* Whether it lives: it says nothing unless asked, so what can be read is its end. */
bool keeper_link_lives(struct keeper_link *link);
/* All that it keeps goes, and it ends. Waits a second at most for it to take that in. */
void keeper_link_dismiss(struct keeper_link *link);
/* It does not do what it should: it is nobody's keeper any more, and ends when it sees that. */
void keeper_link_abandon(struct keeper_link *link);
void keeper_link_close(struct keeper_link *link);

#endif
