/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ASIDE_H
#define GPUSHARE_TOOLS_ASIDE_H
/* What may hang or crash, done in a process aside. */
#include <stdbool.h>
#include <stddef.h>

enum aside_end {
	ASIDE_DONE,
	ASIDE_HUNG,    /* and was ended */
	ASIDE_CRASHED, /* by a signal: *out_signal */
	ASIDE_FAILED,  /* no process could be made */
};

/* `work` fills `facts`, which both processes see: what it got to is there however it ends. */
enum aside_end aside_do(void (*work)(void *facts), void *facts, unsigned int patience_ms,
			int *out_signal);
/* Room for facts, of zeros; NULL: none. It stays for the process. */
void *aside_room(size_t size);
/* What the loader says that a program loads, which isn't started: up to `room`, a NUL behind it. -1: it
 * can't be asked; else its exit code, 128 and more for a signal. `preload`: "" for nothing. */
int aside_list(const char *loader, const char *program, const char *preload, char *out,
	       size_t room);

#endif
