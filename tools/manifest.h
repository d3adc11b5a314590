/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_MANIFEST_H
#define GPUSHARE_TOOLS_MANIFEST_H
/* What a directory of dumped buffers holds, as JSON beside them. */
#include <limits.h>
#include <stdbool.h>

#include "digest.h"
#include "dtype.h"
#include "gpushare.h"
#include "shape.h"

#define MANIFEST_FILE "manifest.json"
#define MANIFEST_SIZE_MAX ((size_t)64 << 20)
#define MANIFEST_WHY_MAX 256
#define MANIFEST_GROUP_MAX 63 /* bytes of a group's name */

struct manifest_entry {
	struct gpushare_info
	    info; /* name, size, backing, GPU, flags, ttl_s, generation, mode, tags */
	char group[MANIFEST_GROUP_MAX + 1]; /* as it is read; "": it has no rights of its own */
	char file[NAME_MAX + 1];
	bool npy;	  /* a header comes before the bytes */
	enum dtype dtype; /* NONE: nothing said so */
	struct shape shape;
	bool has_shape;
	char sha256[DIGEST_TEXT_MAX]; /* of the bytes */
};

struct manifest {
	struct manifest_entry *entries;
	size_t count, room;
};

/* A copy of it at the end; false: no memory. */
bool manifest_add(struct manifest *manifest, const struct manifest_entry *entry);
void manifest_finish(struct manifest *manifest);
/* To be freed; NULL: no memory. */
char *manifest_format(const struct manifest *manifest);
/* False with the reason. Each entry can be what it says: its name, its file, which is in this
 * directory and no other, its size. */
bool manifest_parse(const char *text, size_t size, struct manifest *out,
		    char why[MANIFEST_WHY_MAX]);
/* A file's name for a buffer's: "%" and hex digits stand for what can't be in one, or is not to be
 * hidden; a long one is cut, and told apart by the generation. */
void manifest_name_file(const struct gpushare_info *info, bool npy, char out[NAME_MAX + 1]);

#endif
