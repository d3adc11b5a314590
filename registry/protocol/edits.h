/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_PROTOCOL_EDITS_H
#define GPUSHARE_PROTOCOL_EDITS_H

/* Edits (insert, remove, replace a byte) between two words; more than `most` is `most` + 1, and so is the
 * distance of a word that is longer than a name can be. */
unsigned int edit_distance(const char *a, const char *b, unsigned int most);

#endif
