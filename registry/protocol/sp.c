/* SPDX-License-Identifier: MIT */
/* SP over AF_UNIX: greeting `00 53 50 00 | protocol u16 BE | 00 00` both ways, then messages of
 * `01 | length u64 BE | request id u32 BE | body`, where the length counts the id. */
#include <endian.h>
#include <string.h>

#include "protocol.h"

#define SP_MESSAGE 0x01 /* the old draft says 0; nng 1.5.2 sends and expects 1 */

void sp_greeting(uint8_t to[SP_GREETING_SIZE], uint16_t protocol)
{
	memcpy(to, "\0SP\0\0\0\0", SP_GREETING_SIZE);
	to[4] = (uint8_t)(protocol >> 8);
	to[5] = (uint8_t)protocol;
}

bool sp_greeting_is(const uint8_t from[SP_GREETING_SIZE], uint16_t protocol)
{
	uint8_t want[SP_GREETING_SIZE];

	sp_greeting(want, protocol);
	return memcmp(from, want, sizeof(want)) == 0;
}

void sp_length(uint8_t to[SP_HEADER_SIZE], size_t size)
{
	uint64_t length = htobe64(size);

	to[0] = SP_MESSAGE;
	memcpy(to + 1, &length, sizeof(length));
}

void sp_header(uint8_t to[SP_HEADER_SIZE + SP_ID_SIZE], uint32_t id, size_t body_size)
{
	uint32_t word = htobe32(id | UINT32_C(0x80000000));

	sp_length(to, body_size + SP_ID_SIZE);
	memcpy(to + SP_HEADER_SIZE, &word, SP_ID_SIZE);
}

long sp_header_body_size(const uint8_t from[SP_HEADER_SIZE])
{
	uint64_t length;

	memcpy(&length, from + 1, sizeof(length));
	length = be64toh(length);
	if (from[0] != SP_MESSAGE || length < SP_ID_SIZE ||
	    length > GPUSHARE_MESSAGE_MAX + SP_ID_SIZE)
		return -1;
	return (long)length - SP_ID_SIZE;
}

size_t sp_ids_size(const uint8_t *from, size_t size)
{
	for (size_t at = 0; at + SP_ID_SIZE <= size; at += SP_ID_SIZE) {
		if (from[at] & 0x80)
			return at + SP_ID_SIZE;
	}
	return 0;
}

uint32_t sp_id(const uint8_t from[SP_ID_SIZE])
{
	uint32_t id;

	memcpy(&id, from, sizeof(id));
	return be32toh(id);
}
