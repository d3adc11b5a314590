/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_PROTOCOL_TEXT_H
#define GPUSHARE_PROTOCOL_TEXT_H

/*
 * Returns the first byte of a control character, as strpbrk() does; NULL: there is none. Control
 * characters are the bytes 0 to 31 and 127, and C1: U+0080 to U+009F in UTF-8, and the bytes 0x80
 * to 0x9f outside of a UTF-8 character. A terminal may obey any of them.
 */
char *text_control(const char *text);

/* How many bytes to insert, remove or replace to turn one word into the other. `most` + 1 if there
 * are more than `most`, or if a word is longer than a name can be. */
unsigned int edit_distance(const char *a, const char *b, unsigned int most);

#endif
