/* SPDX-License-Identifier: MIT */
/* Bytes from a puller or a node. If a message can be decoded, all its fields are within bounds, and
 * encoding and decoding it again gives the same message. */
#include "../../tools/node/message.h"
#include "fuzz.h"
#include "protocol.h"

static uint8_t first[NODE_HEADER_SIZE + NODE_MESSAGE_MAX], second[sizeof(first)];

static void check_header(size_t length)
{
	size_t size;

	FUZZ_MUST(length > NODE_HEADER_SIZE && length <= sizeof(first));
	FUZZ_MUST(message_size(first, &size) && size == length - NODE_HEADER_SIZE);
}

static void try_ask(const uint8_t *data, size_t size)
{
	static node_ask ask, again;
	size_t length;

	if (!message_read_ask(data, size, &ask))
		return;
	if (ask.which_verb == gpushare_node_Ask_open_tag)
		FUZZ_MUST(name_is_valid(ask.verb.open.name));
	if (ask.which_verb == gpushare_node_Ask_connect_tag)
		FUZZ_MUST(ask.verb.connect.address.size &&
			  ask.verb.connect.address.size <= sizeof(ask.verb.connect.address.bytes));
	length = message_write_ask(&ask, first);
	check_header(length);
	FUZZ_MUST(message_read_ask(first + NODE_HEADER_SIZE, length - NODE_HEADER_SIZE, &again));
	FUZZ_MUST(message_write_ask(&again, second) == length && !memcmp(first, second, length));
}

static void check_info(const gpushare_Buffer *buffer)
{
	static gpushare_Buffer back;
	struct gpushare_info info;

	FUZZ_MUST(name_is_valid(buffer->name));
	codec_read_info(buffer, &info);
	FUZZ_MUST(info.tag_count <= GPUSHARE_TAGS_MAX && info.size == buffer->size);
	message_put_info(&info, &back);
	FUZZ_MUST(!strcmp(back.name, buffer->name) && back.tags_count == buffer->tags_count);
}

static void try_answer(const uint8_t *data, size_t size)
{
	static node_answer answer, again;
	size_t length;

	if (!message_read_answer(data, size, &answer))
		return;
	FUZZ_MUST(answer.status <= 0 && !answer.status == !!answer.which_body);
	if (answer.which_body == gpushare_node_Answer_opened_tag)
		check_info(&answer.body.opened.buffer);
	for (pb_size_t i = 0; answer.which_body == gpushare_node_Answer_page_tag &&
			      i < answer.body.page.buffers_count;
	     i++)
		check_info(&answer.body.page.buffers[i]);
	length = message_write_answer(&answer, first);
	check_header(length);
	FUZZ_MUST(message_read_answer(first + NODE_HEADER_SIZE, length - NODE_HEADER_SIZE, &again));
	FUZZ_MUST(message_write_answer(&again, second) == length && !memcmp(first, second, length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t header[NODE_HEADER_SIZE] = {0};
	size_t told;

	if (size)
		memcpy(header, data, size < sizeof(header) ? size : sizeof(header));
	if (message_size(header, &told))
		FUZZ_MUST(told && told <= NODE_MESSAGE_MAX);
	try_ask(data, size);
	try_answer(data, size);
	return 0;
}
