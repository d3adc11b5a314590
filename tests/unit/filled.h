/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_FILLED_H
#define GPUSHARE_TESTS_FILLED_H
/* In parts: buffers as they are wanted, and what the simulated driver was asked for. */
#include "stage.h"

/* `size` bytes of this session's, each what part_pattern() makes it. */
struct gpushare_buffer *part_filled(struct gpushare_session *session, const char *name, size_t size,
				    unsigned int seed);

/* Where a part about order begins: the driver, a session, and its "x", of PART_SIZE bytes. */
#define PART_SIZE 4096
struct gpushare_buffer *part_begin(const struct driver **out_driver,
				   struct gpushare_session **out_session);
/* One that does not wait for the default stream. */
cu_stream part_stream(void);
/* How many have it, by the registry. */
unsigned int part_attachers(struct gpushare_session *session, const char *name);
/* The number of what was published last. */
uint64_t part_published(struct gpushare_buffer *buffer);

/* One that is made as `flags` of enum gpushare_flag say, and a map of all of one. */
struct gpushare_buffer *part_made(struct gpushare_session *session, const char *name, size_t size,
				  uint32_t flags);
struct gpushare_map *part_map(struct gpushare_buffer *buffer, unsigned int access);

/* Before a play: the driver's calls are logged; parts ask how many lines of the log hold `text`. */
void logged_begin(void);
int logged(const char *text);

#endif
