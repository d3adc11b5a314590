/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_KEEPER_H
#define GPUSHARE_REGISTRY_KEEPER_H
/*
 * gpushare-keeper: the fd store if no service manager provides one. A small process that holds
 * descriptors by number, gives them to the next registry of its user and folder, and starts
 * that registry if nobody else does. If no registry may be started unasked, it starts one that only
 * tidies up (--tidy). It ends when it holds nothing and no registry is connected, when its
 * socket's file was removed, or by SIGTERM or SIGINT. Messages: notify.h.
 */
#include <stdbool.h>

#include "protocol.h"

/* A connection to the keeper of that folder, if it is this user's; -1: there is none. */
int keeper_connect(const char *directory);
/* Start a keeper, which replaces any other, and connect to it. -1: errno says why. */
int keeper_start(const char *directory);
/* Remove the keeper's socket. The keeper ends, with all that it holds, as soon as it notices. */
void keeper_end(const char *directory);

/* Run as the keeper: stdin is the listening socket. Returns the exit code, or never. */
int keeper_run(const char *directory);

#endif
