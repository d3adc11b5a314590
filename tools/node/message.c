/* SPDX-License-Identifier: MIT */
#include "message.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "protocol.h"

_Static_assert(gpushare_node_Ask_size <= NODE_MESSAGE_MAX, "an Ask fits a message");
_Static_assert(gpushare_node_Answer_size <= NODE_MESSAGE_MAX, "an Answer fits a message");
_Static_assert(sizeof(((gpushare_node_Connect *)0)->token) == NODE_TOKEN_SIZE, "node.options");

static size_t write_message(const pb_msgdesc_t *fields, const void *message, uint8_t *to)
{
	pb_ostream_t stream = pb_ostream_from_buffer(to + NODE_HEADER_SIZE, NODE_MESSAGE_MAX);

	if (!pb_encode(&stream, fields, message) || !stream.bytes_written)
		return 0;
	for (int i = 0; i < NODE_HEADER_SIZE; i++)
		to[i] = (uint8_t)(stream.bytes_written >> (8 * (NODE_HEADER_SIZE - 1 - i)));
	return NODE_HEADER_SIZE + stream.bytes_written;
}

size_t message_write_ask(const node_ask *ask, uint8_t to[NODE_HEADER_SIZE + NODE_MESSAGE_MAX])
{
	return write_message(gpushare_node_Ask_fields, ask, to);
}

size_t message_write_answer(const node_answer *answer,
			    uint8_t to[NODE_HEADER_SIZE + NODE_MESSAGE_MAX])
{
	return write_message(gpushare_node_Answer_fields, answer, to);
}

bool message_size(const uint8_t header[NODE_HEADER_SIZE], size_t *out_size)
{
	size_t size = 0;

	for (int i = 0; i < NODE_HEADER_SIZE; i++)
		size = size << 8 | header[i];
	*out_size = size;
	return size && size <= NODE_MESSAGE_MAX;
}

static bool read_message(const pb_msgdesc_t *fields, const uint8_t *from, size_t size, void *out)
{
	pb_istream_t stream = pb_istream_from_buffer(from, size);

	return pb_decode(&stream, fields, out);
}

bool message_read_ask(const uint8_t *from, size_t size, node_ask *out)
{
	if (!read_message(gpushare_node_Ask_fields, from, size, out))
		return false;
	switch (out->which_verb) {
	case gpushare_node_Ask_open_tag:
		return name_is_valid(out->verb.open.name);
	case gpushare_node_Ask_connect_tag:
		return out->verb.connect.address.size != 0;
	}
	return out->which_verb != 0;
}

static bool buffer_is_valid(const gpushare_Buffer *buffer)
{
	for (pb_size_t i = 0; i < buffer->tags_count; i++)
		if (!*buffer->tags[i].key || text_control((char *)buffer->tags[i].key) ||
		    text_control((char *)buffer->tags[i].value))
			return false;
	return name_is_valid(buffer->name);
}

bool message_read_answer(const uint8_t *from, size_t size, node_answer *out)
{
	if (!read_message(gpushare_node_Answer_fields, from, size, out) || out->status > 0)
		return false;
	if (out->status)
		return !out->which_body;
	switch (out->which_body) {
	case gpushare_node_Answer_hello_tag: /* `place` becomes part of a tag */
		return !text_control(out->body.hello.place);
	case gpushare_node_Answer_page_tag:
		for (pb_size_t i = 0; i < out->body.page.buffers_count; i++)
			if (!buffer_is_valid(&out->body.page.buffers[i]))
				return false;
		break;
	case gpushare_node_Answer_opened_tag:
		return out->body.opened.has_buffer && buffer_is_valid(&out->body.opened.buffer) &&
		       out->body.opened.buffer.size;
	case gpushare_node_Answer_bytes_tag:
		return out->body.bytes.length && out->body.bytes.length <= NODE_PIECE_MAX;
	}
	return out->which_body != 0;
}

void message_put_info(const struct gpushare_info *info, gpushare_Buffer *out)
{
	*out = (gpushare_Buffer){.owner_gone = !info->owner_alive,
				 .tags_count = (pb_size_t)info->tag_count};
#define X(field) out->field = info->field;
	INFO_NUMBERS(X)
#undef X
#define X(field) memcpy(out->field, info->field, sizeof(out->field));
	INFO_ARRAYS(X)
#undef X
	memcpy(out->tags, info->tags, info->tag_count * sizeof(*out->tags));
}

void place_find(const char *directory, char out[PLACE_MAX])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat at;
	char boot[37];

	*out = '\0';
	if (file && fscanf(file, "%36s", boot) == 1 && !stat(directory, &at))
		snprintf(out, PLACE_MAX, "%s/%jx.%jx", boot, (uintmax_t)at.st_dev,
			 (uintmax_t)at.st_ino);
	if (file)
		fclose(file);
}
