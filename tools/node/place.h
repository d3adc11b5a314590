/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PLACE_H
#define GPUSHARE_TOOLS_PLACE_H
/* An identifier for the registry that a node serves. */

#define PLACE_MAX 72 /* NUL included */

/* "BOOT-ID/DEVICE.INODE" of a registry's directory: unique among all hosts. With a generation,
 * which a directory reuses only after a boot, it identifies a buffer. "": no such directory. */
void place_find(const char *directory, char out[PLACE_MAX]);
#endif
