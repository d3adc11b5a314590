/* SPDX-License-Identifier: MIT */
/* SP over AF_UNIX: greeting `00 53 50 00 | protocol u16 BE | 00 00` both ways, then messages of
 * `01 | length u64 BE | request id u32 BE | body`, where the length counts the id. */
#include <string.h>

#include "protocol.h"

#define SP_MESSAGE 0x01 /* the old draft says 0; nng 1.5.2 sends and wants 1 */

static void put_be(uint8_t *to, uint64_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, value >>= 8)
		to[i] = (uint8_t)value;
}

static uint64_t get_be(const uint8_t *from, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value = value << 8 | from[i];
	return value;
}

void sp_greeting(uint8_t to[SP_GREETING_SIZE], uint16_t protocol)
{
	memcpy(to, "\0SP\0\0\0\0", SP_GREETING_SIZE);
	put_be(to + 4, protocol, 2);
}

bool sp_greeting_is(const uint8_t from[SP_GREETING_SIZE], uint16_t protocol)
{
	uint8_t want[SP_GREETING_SIZE];

	sp_greeting(want, protocol);
	return memcmp(from, want, sizeof(want)) == 0;
}

void sp_length(uint8_t to[SP_HEADER_SIZE], size_t size)
{
	to[0] = SP_MESSAGE;
	put_be(to + 1, size, SP_HEADER_SIZE - 1);
}

void sp_header(uint8_t to[SP_HEADER_SIZE + SP_ID_SIZE], uint32_t id, size_t body_size)
{
	sp_length(to, body_size + SP_ID_SIZE);
	put_be(to + SP_HEADER_SIZE, id | UINT32_C(0x80000000), SP_ID_SIZE);
}

long sp_header_body_size(const uint8_t from[SP_HEADER_SIZE])
{
	uint64_t length = get_be(from + 1, 8);

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
	return (uint32_t)get_be(from, SP_ID_SIZE);
}
