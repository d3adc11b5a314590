/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_MANIFEST_H
#define GPUSHARE_TOOLS_MANIFEST_H
/* manifest.json describes the buffers that are saved in its directory. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "data/digest.h"
#include "gpushare.h"

#define MANIFEST_FILE "manifest.json"
#define MANIFEST_SIZE_MAX ((size_t)64 << 20)
#define MANIFEST_WHY_MAX 256
#define MANIFEST_GROUP_MAX 63 /* bytes of a group's name */

struct manifest_entry {
	/* Used fields: name, size, backing, GPU, flags, ttl_s, generation, mode, tags;
	 * by manifest_format() also owner_gid. */
	struct gpushare_info info;
	/* a group's name or number, set only by manifest_read(); "": none was saved */
	char group[MANIFEST_GROUP_MAX + 1];
	char file[NAME_MAX + 1];
	bool npy;		      /* a header comes before the bytes */
	char sha256[DIGEST_TEXT_MAX]; /* of the bytes */
};

struct manifest {
	struct manifest_entry *entries;
	size_t count;
};

/* Append a copy of `entry`; return false if there is no memory. */
bool manifest_add(struct manifest *manifest, const struct manifest_entry *entry);
void manifest_finish(struct manifest *manifest);
/* Return the JSON text, which the caller frees; NULL: no memory. */
char *manifest_format(const struct manifest *manifest);
/* On failure, returns false and writes the reason to `why`. Each parsed entry has a valid name,
 * size and SHA-256, and its file is a file name without a folder. */
bool manifest_read(FILE *file, struct manifest *out, char why[MANIFEST_WHY_MAX]);
/* Make a file name from the buffer's name. "%" and two hex digits replace each "/" and a leading
 * ".". A long name is cut, and gets the generation as a suffix. */
void manifest_name_file(const struct gpushare_info *info, bool npy, char out[NAME_MAX + 1]);

#endif
