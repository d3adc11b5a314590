/* SPDX-License-Identifier: MIT */
/* Bytes from a peer: if they decode, encode and decode them again. The result must be the same. */
#include "fuzz.h"
#include "protocol.h"

static void try_request(const uint8_t *data, size_t size)
{
	static uint8_t first[GPUSHARE_MESSAGE_MAX], second[GPUSHARE_MESSAGE_MAX];
	request message = {0};
	size_t length, again;

	if (codec_decode_request(data, size, &message))
		return;
	FUZZ_MUST(!codec_encode_request(&message, first, sizeof(first), &length));
	memset(&message, 0, sizeof(message));
	FUZZ_MUST(!codec_decode_request(first, length, &message));
	FUZZ_MUST(!codec_encode_request(&message, second, sizeof(second), &again));
	FUZZ_MUST(again == length && !memcmp(first, second, length));
}

static void try_reply(const uint8_t *data, size_t size)
{
	static uint8_t first[GPUSHARE_MESSAGE_MAX], second[GPUSHARE_MESSAGE_MAX];
	static reply message;
	size_t length, again;

	memset(&message, 0, sizeof(message));
	if (codec_decode_reply(data, size, &message))
		return;
	FUZZ_MUST(message.status <= 0);
	FUZZ_MUST(!codec_encode_reply(&message, first, sizeof(first), &length));
	memset(&message, 0, sizeof(message));
	FUZZ_MUST(!codec_decode_reply(first, length, &message));
	FUZZ_MUST(!codec_encode_reply(&message, second, sizeof(second), &again));
	FUZZ_MUST(again == length && !memcmp(first, second, length));
}

static void try_header(const uint8_t *data, size_t size)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE] = {0};
	long body;

	if (size)
		memcpy(header, data, size < sizeof(header) ? size : sizeof(header));
	body = sp_header_body_size(header);
	FUZZ_MUST(body >= -1 && body <= GPUSHARE_MESSAGE_MAX);
	if (body < 0)
		return;
	sp_header(header, sp_id(header + SP_HEADER_SIZE), (size_t)body);
	FUZZ_MUST(sp_header_body_size(header) == body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_request(data, size);
	try_reply(data, size);
	try_header(data, size);
	return 0;
}
