/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ASIDE_H
#define GPUSHARE_TOOLS_ASIDE_H
/* A child process for code that may hang or crash. */
#include <stdbool.h>
#include <stddef.h>

enum aside_end {
	ASIDE_DONE,
	ASIDE_HUNG,    /* killed after `patience_ms` */
	ASIDE_CRASHED, /* killed by a signal */
	ASIDE_FAILED,  /* the child could not be created */
};

/* Call work(facts) in a child process. If `facts` is memory from aside_room(), this process can
 * read what the child wrote there, even if the child crashes. *out_code: the child's exit code, or
 * the signal that killed it. */
enum aside_end aside_do(void (*work)(void *facts), void *facts, unsigned int patience_ms,
			int *out_code);
/* Return zeroed memory, shared with child processes and never freed; NULL: no memory. */
void *aside_room(size_t size);
/* Let `loader` list the libraries that `program` loads, without starting the program. `out` gets
 * the list, at most `room` bytes with the NUL. `preload`: value of LD_PRELOAD; "": none. Returns
 * the loader's exit code, 128 + N if signal N ended it, or -1 if no process could be created. */
int aside_list(const char *loader, const char *program, const char *preload, char *out,
	       size_t room);

#endif
