/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PLACE_H
#define GPUSHARE_TOOLS_PLACE_H
/* Which registry a node is of, and which version of a buffer a copy has. */
#include <stdbool.h>

#include "gpushare.h"

#define PLACE_MAX 72 /* NUL included */

/* "BOOT-ID/DEVICE.INODE" of a directory: no other registry has that, on any host, and in one boot
 * no registry of a directory gives a generation twice. "": there is no such directory. */
void place_find(const char *directory, char out[PLACE_MAX]);
/* The tag of a copy that has the publication `sequence` here: PLACE/GENERATION.SEQUENCE of the
 * source, and @SEQUENCE, so that it is void after the next publication here. */
struct gpushare_tag place_tag(const char *place, const struct gpushare_info *source,
			      uint64_t sequence);
/* Whether `copy` has that tag. */
bool place_is_copy(const char *place, const struct gpushare_info *source,
		   const struct gpushare_info *copy);

#endif
