/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PLACE_H
#define GPUSHARE_REGISTRY_PLACE_H
/* The directory as one daemon's own: who holds its lock owns the socket's name in it. */
#include "protocol.h"

struct place {
	char directory[GPUSHARE_PATH_MAX];
	char socket[GPUSHARE_PATH_MAX];
	char fds_socket[GPUSHARE_PATH_MAX];
	char aside[GPUSHARE_PATH_MAX + 8]; /* the socket's name while it may leave */
	int lock;
};

/* What place_open() says besides a status. */
#define PLACE_SERVED 1

/*
 * Find and make the directory (`given` as for directory_find()), take its lock, remove what an
 * earlier daemon left. PLACE_SERVED: another daemon is there, and, where it is to be replaced, does
 * not leave. On failure a sentence is logged.
 */
int place_open(struct place *place, const char *given, bool is_system, bool replace);
/* Whether somebody has removed the directory, or made it another one's: nobody finds us any more. */
bool place_is_lost(const struct place *place);
/* Remove the sockets. */
void place_clear(const struct place *place);
/* That, then let go of the lock. The lock file stays: a name that comes and goes can
 * be locked twice. */
void place_close(struct place *place);

/* Take the socket's name away and give it back: in between nobody new can connect. */
bool place_hide(const struct place *place);
bool place_show(const struct place *place);

#endif
