/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_KEEPER_H
#define GPUSHARE_REGISTRY_KEEPER_H
/*
 * gpushare-keeper: the fd store where no service manager is one. A small process that holds descriptors by
 * generation, gives them to the next registry of its user and folder, and starts that registry if nobody else
 * does. Where no registry may serve unasked, it starts one that only tidies up (--tidy). It ends when it holds
 * nothing and no registry is connected, or when its socket has lost its name.
 * Messages: notify.h.
 */
#include <stdbool.h>

#define KEEPER_SOCKET "keeper.sock"
#define KEEPER_NAME "gpushare-keeper"

/* A connection to the keeper of that folder, if it is this user's; -1: there is none. */
int keeper_connect(const char *directory);
/* Start one, in place of any other, and connect to it. -1: errno says why. */
int keeper_start(const char *directory);
/* A keeper only speaks when it is asked; anything to read is its end. */
bool keeper_lives(int connection);
/* The keeper ends, with all that it holds, as soon as it sees that its socket has no name. */
void keeper_end(const char *directory);

/* Be the keeper: stdin is the listening socket. Returns the exit code, if at all. */
int keeper_run(const char *directory);

#endif
