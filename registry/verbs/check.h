/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CHECK_H
#define GPUSHARE_REGISTRY_CHECK_H
/* Whether what a client wants remembered makes sense. */
#include "protocol.h"

/* GPUSHARE_OK, or a status with its sentence in *answer. */
int check_share(const gpushare_Share *share, bool with_fd, reply *answer);
int check_tags(const char *name, const gpushare_Tag *tags, pb_size_t count, reply *answer);
/* The same of a generation that a client says it was given. */
int check_generation(const char *name, uint64_t generation, reply *answer);

#endif
