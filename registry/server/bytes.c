/* SPDX-License-Identifier: MIT */
#include "server/bytes.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 512
#define ROOM_KEPT 4096 /* of one that is empty */

bool bytes_reserve(struct bytes *bytes, size_t more)
{
	size_t room = bytes->room;
	uint8_t *at;

	while (room < bytes->size + more)
		room *= 2;
	if (room == bytes->room)
		return true;
	at = realloc(bytes->at, room);
	if (!at)
		return false;
	bytes->at = at;
	bytes->room = room;
	return true;
}

bool bytes_begin(struct bytes *bytes)
{
	*bytes = (struct bytes){.at = malloc(ROOM_LEAST), .room = ROOM_LEAST};
	return bytes->at;
}

void bytes_skip(struct bytes *bytes, size_t count)
{
	uint8_t *less;

	bytes->size -= count;
	memmove(bytes->at, bytes->at + count, bytes->size);
	less = bytes->size || bytes->room <= ROOM_KEPT ? NULL : realloc(bytes->at, ROOM_LEAST);
	if (!less)
		return;
	bytes->at = less;
	bytes->room = ROOM_LEAST;
}

void bytes_append(struct bytes *bytes, const void *from, size_t size)
{
	memcpy(bytes->at + bytes->size, from, size);
	bytes->size += size;
}
