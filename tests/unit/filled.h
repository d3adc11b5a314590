/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_FILLED_H
#define GPUSHARE_TESTS_FILLED_H
/* In parts: buffers as they are wanted, and what the simulated driver was asked for. */
#include "stage.h"

/* `size` bytes of this session's, each what part_pattern() makes it. */
struct gpushare_buffer *part_filled(struct gpushare_session *session, const char *name, size_t size,
				    unsigned int seed);

/* One that is made as `flags` of enum gpushare_flag say, and a map of all of one. */
struct gpushare_buffer *part_made(struct gpushare_session *session, const char *name, size_t size,
				  uint32_t flags);
struct gpushare_map *part_map(struct gpushare_buffer *buffer, unsigned int access);

/* Play with the driver's calls logged; parts ask how many lines of the log hold `text`. */
void logged_play(void (*first)(void), void (*second)(void));
int logged(const char *text);

#endif
