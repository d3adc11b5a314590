/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_FILLED_H
#define GPUSHARE_TESTS_FILLED_H
/* For parts of a stage: make and inspect buffers; count the calls of the simulated driver. */
#include "stage.h"

/* Allocate a buffer of `size` bytes and fill it with part_pattern(size, seed). */
struct gpushare_buffer *part_filled(struct gpushare_session *session, const char *name, size_t size,
				    unsigned int seed);

/* Begin a part about ordering: open the driver and a session, allocate "x" of PART_SIZE bytes. */
#define PART_SIZE 4096
struct gpushare_buffer *part_begin(const struct driver **out_driver,
				   struct gpushare_session **out_session);
/* Create a stream that does not wait for the default stream. */
cu_stream part_stream(void);
/* The buffer's number of attachers, by the registry's count. */
unsigned int part_attachers(struct gpushare_session *session, const char *name);
/* The number of the latest publication. */
uint64_t part_published(struct gpushare_buffer *buffer);

/* Allocate a buffer with `flags` (enum gpushare_flag). Map all of a buffer. */
struct gpushare_buffer *part_made(struct gpushare_session *session, const char *name, size_t size,
				  uint32_t flags);
struct gpushare_map *part_map(struct gpushare_buffer *buffer, unsigned int access);

/* Call logged_begin() before stage_play(): the driver then logs its calls. In a part, logged() is
 * the number of log lines that contain `text`. */
void logged_begin(void);
int logged(const char *text);

#endif
