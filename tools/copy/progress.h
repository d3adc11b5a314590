/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PROGRESS_H
#define GPUSHARE_TOOLS_PROGRESS_H
/* For operations that take over a second, a progress line on a terminal: bar, bytes done, per cent,
 * rate, time left. If the total is unknown, the line has only bytes done and rate. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_TEXT 128

struct progress {
	unsigned int passes; /* how often progress_add() counts each byte */
	uint64_t total;	     /* in all passes; 0: unknown */
	uint64_t done;	     /* in all passes */
	uint64_t began_ms;
	uint64_t printed_ms; /* when the line was last printed; 0: never */
	bool shown;	     /* the line is on the screen */
	bool visible;	     /* stderr is a terminal */
	bool colour;
};

/* `size` is that of one pass; 0: unknown. */
void progress_begin(struct progress *progress, unsigned int passes, uint64_t size);
void progress_add(struct progress *progress, uint64_t size);
void progress_end(struct progress *progress); /* erase the line; progress_add() draws it again */

double progress_seconds(void); /* CLOCK_MONOTONIC */
/* "1073741824 bytes in 0.021 s, 51.13 GB/s" */
void progress_rate(uint64_t size, double seconds, char out[PROGRESS_TEXT]);

/* "[=====               ]", in colour or without */
void progress_bar(uint64_t done, uint64_t total, bool colour, char out[PROGRESS_TEXT]);
/* "312 MiB of 1 GiB, 30%, 5.2 GiB/s, 0s left"; "312 MiB, 5.2 GiB/s" if the total is unknown */
void progress_format(uint64_t done, uint64_t total, uint64_t elapsed_ms, char out[PROGRESS_TEXT]);

#endif
