/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_MESSAGE_H
#define GPUSHARE_TOOLS_MESSAGE_H
/* Messages between pullers and nodes: node.proto, encoded and decoded with all bounds checked. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"
#include "node.pb.h"

#define NODE_PROTOCOL 4
#define NODE_HEADER_SIZE 4
#define NODE_MESSAGE_MAX 65536 /* bytes after the header */
#define NODE_TOKEN_SIZE 16
#define NODE_PIECE_MAX ((size_t)4 << 20) /* bytes of one part of a Fetch */
#define NODE_LIST_MAX 100000		 /* most buffers that a puller accepts from one List */

/* Size of the part at `offset`, `rest` at most: no part crosses a multiple of NODE_PIECE_MAX. */
static inline uint32_t message_part(uint64_t offset, uint64_t rest)
{
	uint64_t part = NODE_PIECE_MAX - offset % NODE_PIECE_MAX;

	return (uint32_t)(part < rest ? part : rest);
}

typedef gpushare_node_Ask node_ask;
typedef gpushare_node_Answer node_answer;

/* Write header and message to `to`. Returns their size; 0: a field is out of its bounds. */
size_t message_write_ask(const node_ask *ask, uint8_t to[NODE_HEADER_SIZE + NODE_MESSAGE_MAX]);
size_t message_write_answer(const node_answer *answer,
			    uint8_t to[NODE_HEADER_SIZE + NODE_MESSAGE_MAX]);
/* Read the size of the message from its header. False: the message is too large, or empty. */
bool message_size(const uint8_t header[NODE_HEADER_SIZE], size_t *out_size);
/* Decode a message, given without its header. False: the message is not valid, and *out is
 * undefined. */
bool message_read_ask(const uint8_t *from, size_t size, node_ask *out);
bool message_read_answer(const uint8_t *from, size_t size, node_answer *out);

#define PLACE_MAX 72 /* NUL included */
/* "BOOT-ID/DEVICE.INODE" of a registry's directory: unique among all hosts. Together with a
 * generation it identifies a buffer, because the registries of a directory don't reuse a generation
 * before the next boot. "": no such directory. */
void place_find(const char *directory, char out[PLACE_MAX]);

/* Write a buffer's record for a message. The opposite of codec_read_info(). */
void message_put_info(const struct gpushare_info *info, gpushare_Buffer *out);

#endif
