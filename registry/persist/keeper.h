/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_KEEPER_H
#define GPUSHARE_REGISTRY_KEEPER_H
/*
 * A process that does nothing but keep descriptors, for when the registry is killed: where no service
 * manager does. It knows them by their generations, gives them to whichever registry of its user
 * comes to its socket, and ends when nobody can come any more or there is nothing to keep.
 */

#define KEEPER_SOCKET "keeper.sock"
#define KEEPER_NAME "gpushare-keeper"
/* What it is started with: a connection and the listening socket. */
#define KEEPER_FIRST_FD 3
#define KEEPER_LISTENER_FD 4
#define KEEPER_BACKLOG 128

/* Become the keeper of that directory's socket. Returns what to exit with, if at all. */
int keeper_run(const char *directory);

#endif
