/* SPDX-License-Identifier: MIT */
/* Notices in the answer to a Subscribe, and the header that comes before a message. */
#include "unit.h"

#include "protocol.h"

static uint8_t wire[GPUSHARE_MESSAGE_MAX];
static reply got;

static notice full(void)
{
	notice told = {
	    .serial = UINT64_MAX,
	    .kind = GPUSHARE_NOTICE_PUBLISH,
	    .has_buffer = true,
	    .pid = INT32_MIN,
	    .published = UINT64_MAX - 1,
	    .rate = UINT64_MAX - 2,
	    .unix_ns = UINT64_MAX - 3,
	    .registry = UINT64_MAX - 4,
	};
	record *info = &told.buffer;

	memset(info->name, 'n', GPUSHARE_NAME_MAX);
	memset(info->owner_command, 'c', GPUSHARE_COMMAND_MAX);
	info->tags_count = 4;
	for (int i = 0; i < 4; i++) {
		memset(info->tags[i].key, 'k', sizeof(info->tags[i].key) - 1);
		memset(info->tags[i].value, 'v', sizeof(info->tags[i].value) - 1);
	}
	info->size = info->generation = info->address = info->base_size = UINT64_MAX;
	info->base_offset = info->owner_started = info->created_unix_ns = UINT64_MAX;
	info->owner_pid = INT32_MIN;
	info->attachers = info->flags = info->ttl_s = UINT32_MAX;
	return told;
}

/* The first two notices of an answer. */
static const notice *first = &got.body.subscribe.notices[0],
		    *second = &got.body.subscribe.notices[1];

static reply *answer(const notice *told)
{
	static reply each;

	each = (reply){.which_body = gpushare_Reply_subscribe_tag};
	each.body.subscribe.notices_count = 2;
	each.body.subscribe.notices[0] = *told;
	each.body.subscribe.notices[1].registry = 7;
	return &each;
}

static size_t encode(const notice *told)
{
	size_t size;

	assert_int_equal(codec_encode_reply(answer(told), wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_in_range(size, 0, gpushare_Reply_size);
	return size;
}

static void what_goes_in_comes_out(void **state)
{
	static uint8_t again[gpushare_Reply_size];
	notice told = full();
	size_t size = encode(&told), again_size;

	(void)state;
	assert_int_equal(codec_decode_reply(wire, size, &got), GPUSHARE_OK);
	assert_int_equal(got.which_body, gpushare_Reply_subscribe_tag);
	assert_int_equal(got.body.subscribe.notices_count, 2);
	assert_true(first->serial == told.serial && first->kind == told.kind);
	assert_true(first->published == told.published && first->rate == told.rate);
	assert_true(first->unix_ns == told.unix_ns && first->registry == told.registry);
	assert_int_equal(first->pid, told.pid);
	assert_string_equal(first->buffer.name, told.buffer.name);
	assert_true(!second->kind && !second->has_buffer && second->registry == 7);
	assert_int_equal(codec_encode_reply(&got, again, sizeof(again), &again_size), GPUSHARE_OK);
	assert_int_equal(again_size, size);
	assert_memory_equal(again, wire, size);
}

static void what_happened_has_a_name(void **state)
{
	notice told = full();

	(void)state;
	told.buffer.name[3] = ' ';
	assert_int_equal(codec_decode_reply(wire, encode(&told), &got), GPUSHARE_E_PROTOCOL);
	told.buffer.name[0] = '\0';
	assert_int_equal(codec_decode_reply(wire, encode(&told), &got), GPUSHARE_E_PROTOCOL);
	told.has_buffer = false;
	assert_int_equal(codec_decode_reply(wire, encode(&told), &got), GPUSHARE_E_PROTOCOL);
}

static void no_room_is_refused(void **state)
{
	notice told = full();
	size_t size = encode(&told), untouched = 99;

	(void)state;
	for (size_t room = 0; room < size; room++)
		assert_int_equal(codec_encode_reply(answer(&told), wire, room, &untouched),
				 GPUSHARE_E_PROTOCOL);
	assert_int_equal(untouched, 99);
}

/* Cut at the end of a field it is an answer without the rest. */
static void cut_and_bent_bytes_do_no_harm(void **state)
{
	notice told = full();
	size_t size = encode(&told);
	unsigned int refused = 0;
	uint32_t seed = 6;

	(void)state;
	for (size_t cut = 0; cut < size; cut++) {
		uint8_t *exact = malloc(cut + 1);

		memcpy(exact, wire, cut);
		if (codec_decode_reply(exact, cut, &got))
			refused++;
		free(exact);
	}
	assert_in_range(refused, size - 10, size);
	for (int round = 0; round < 10000; round++) {
		size_t at;
		uint8_t was;

		seed = seed * 1664525 + 1013904223;
		at = (seed >> 8) % size;
		was = wire[at];
		wire[at] ^= (uint8_t)(1u << (seed >> 29));
		if (!codec_decode_reply(wire, size, &got) &&
		    got.which_body == gpushare_Reply_subscribe_tag && first->kind)
			assert_true(name_is_valid(first->buffer.name) &&
				    first->buffer.tags_count <= 4);
		wire[at] = was;
	}
}

static void a_header_says_how_much_comes(void **state)
{
	uint8_t header[SP_HEADER_SIZE] = {1};

	(void)state;
	header[8] = SP_ID_SIZE;
	assert_int_equal(sp_header_body_size(header), 0);
	header[8] = 77;
	assert_int_equal(sp_header_body_size(header), 77 - SP_ID_SIZE);
	header[8] = SP_ID_SIZE - 1;
	assert_int_equal(sp_header_body_size(header), -1);
	header[6] = GPUSHARE_MESSAGE_MAX >> 16;
	header[8] = SP_ID_SIZE;
	assert_int_equal(sp_header_body_size(header), GPUSHARE_MESSAGE_MAX);
	header[8] = SP_ID_SIZE + 1;
	assert_int_equal(sp_header_body_size(header), -1);
	header[1] = 0x80;
	assert_int_equal(sp_header_body_size(header), -1);
	memset(header, 0, sizeof(header));
	assert_int_equal(sp_header_body_size(header), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_goes_in_comes_out),
	    cmocka_unit_test(what_happened_has_a_name),
	    cmocka_unit_test(no_room_is_refused),
	    cmocka_unit_test(cut_and_bent_bytes_do_no_harm),
	    cmocka_unit_test(a_header_says_how_much_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
