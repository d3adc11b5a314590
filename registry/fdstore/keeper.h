/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_KEEPER_H
#define GPUSHARE_REGISTRY_KEEPER_H
/*
 * gpushare-keeper, a small process, is the fd store if no service manager provides one. It holds
 * descriptors by number, and gives them to the next registry of its user and folder. If nobody else
 * starts that registry, the keeper does. With GPUSHARE_AUTOSTART=0 it only starts a registry that
 * tidies up and exits (--tidy). It ends if it holds nothing and no registry is connected, if its
 * socket's file was removed, or by SIGTERM or SIGINT. notify.h has the messages.
 */
#include <stdbool.h>

#include "protocol.h"

/* Connect to the keeper of that folder. -1: there is none that runs as this user. */
int keeper_connect(const char *directory);
/* Start a keeper, in place of any other, and connect to the new one. -1: errno. */
int keeper_start(const char *directory);
/* Remove the keeper's socket. The keeper soon notices that and ends, and its descriptors close. */
void keeper_end(const char *directory);

/* Be the keeper; stdin is the listening socket. Returns only if that fails: the exit status. */
int keeper_run(const char *directory);

#endif
