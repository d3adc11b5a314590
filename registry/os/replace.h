/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REPLACE_H
#define GPUSHARE_REGISTRY_REPLACE_H
/* Asking the daemon that serves a directory to leave: one message at its fds.sock. */
#include <stdbool.h>

struct replace {
	const char *fds_socket;
	int fd;		 /* to the one who was asked; -1: nobody so far */
	int asked;	 /* its pid */
	const char *why; /* it is there still, in words */
};

void replace_init(struct replace *replace, const char *fds_socket);
/* Ask whoever serves there now, each one once, and hear what it says; waits for nothing. false: it
 * refuses. */
bool replace_ask(struct replace *replace);
void replace_finish(struct replace *replace);

#endif
