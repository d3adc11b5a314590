/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PLACE_H
#define GPUSHARE_TOOLS_PLACE_H
/* Which registry a node is of. */

#define PLACE_MAX 72 /* NUL included */

/* "BOOT-ID/DEVICE.INODE" of a directory: no other registry has that, on any host, and in one boot
 * no registry of a directory gives a generation twice. "": there is no such directory. */
void place_find(const char *directory, char out[PLACE_MAX]);
#endif
