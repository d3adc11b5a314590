/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_BYTES_H
#define GPUSHARE_REGISTRY_SERVER_BYTES_H
/* Bytes that came or are to be sent, with room that grows. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	uint8_t *at; /* free() it */
	size_t size, room;
};

/* false: out of memory. */
bool bytes_begin(struct bytes *bytes);
/* Room for so many more. false: out of memory, nothing changed. */
bool bytes_reserve(struct bytes *bytes, size_t more);
/* For which there is room. */
void bytes_append(struct bytes *bytes, const void *from, size_t size);
/* The first ones go, the others move up; of what is empty then, what a long message took goes back. */
void bytes_skip(struct bytes *bytes, size_t count);

#endif
