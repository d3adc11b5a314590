/* SPDX-License-Identifier: MIT */
/* The codec: what goes in comes out, cut and bent bytes do not. */
#include "unit.h"

#include "protocol.h"

static uint8_t wire[GPUSHARE_MESSAGE_MAX];
static request asked;
static reply answered, answered_again;

static void fill(char *to, size_t room, char with)
{
	memset(to, with, room - 1);
	to[room - 1] = '\0';
}

/* A Buffer with every field at its bound. */
static record full_record(void)
{
	record info = {
	    .size = UINT64_MAX,
	    .base_offset = UINT64_MAX - 1,
	    .base_size = UINT64_MAX - 2,
	    .backing = UINT32_MAX,
	    .flags = UINT32_MAX,
	    .address = UINT64_MAX,
	    .tags_count = 4,
	    .generation = UINT64_MAX,
	    .mode = 0600,
	    .owner_uid = UINT32_MAX,
	    .owner_pid = INT32_MIN,
	    .owner_started = UINT64_MAX,
	    .attachers = UINT32_MAX,
	    .created_unix_ns = UINT64_MAX,
	    .ttl_s = UINT32_MAX,
	    .owner_gone = true,
	    .ttl_left_s = UINT32_MAX,
	    .in_limbo = true,
	    .missing = true,
	    .sequence = UINT64_MAX,
	    .ordering = UINT32_MAX,
	};

	fill(info.name, sizeof(info.name), 'n');
	fill(info.owner_command, sizeof(info.owner_command), 'c');
	for (size_t i = 0; i < sizeof(info.device_uuid); i++)
		info.device_uuid[i] = (uint8_t)(0xf0 + i);
	for (int i = 0; i < 4; i++) {
		fill(info.tags[i].key, sizeof(info.tags[i].key), (char)('a' + i));
		fill(info.tags[i].value, sizeof(info.tags[i].value), (char)('A' + i));
	}
	return info;
}

/* One request of each verb. */
static request request_of(int verb)
{
	request ask = {.which_verb = (pb_size_t)verb};

	switch (verb) {
	case gpushare_Request_hello_tag:
		ask.verb.hello.protocol = 7;
		fill(ask.verb.hello.client, sizeof(ask.verb.hello.client), 'h');
		memset(ask.verb.hello.resume, 0xa4, sizeof(ask.verb.hello.resume));
		break;
	case gpushare_Request_share_tag:
		ask.verb.share.has_buffer = ask.verb.share.adopt = ask.verb.share.orphan = true;
		ask.verb.share.again = UINT64_MAX;
		ask.verb.share.buffer = full_record();
		memset(ask.verb.share.handle, 0xa5, sizeof(ask.verb.share.handle));
		break;
	case gpushare_Request_lookup_tag:
		strcpy(ask.verb.lookup.name, "a/b.c_d-e");
		ask.verb.lookup.wait_ms = UINT32_MAX;
		break;
	case gpushare_Request_attach_tag:
		fill(ask.verb.attach.name, sizeof(ask.verb.attach.name), 'z');
		ask.verb.attach.wait_ms = 1;
		break;
	case gpushare_Request_detach_tag:
		strcpy(ask.verb.detach.name, "x");
		ask.verb.detach.generation = UINT64_MAX;
		break;
	case gpushare_Request_withdraw_tag:
		strcpy(ask.verb.withdraw.name, "x");
		ask.verb.withdraw.generation = 12345678901234;
		ask.verb.withdraw.limbo = true;
		break;
	case gpushare_Request_list_tag:
		strcpy(ask.verb.list.glob, "layer[0-9]*?");
		strcpy(ask.verb.list.after, "layer3");
		ask.verb.list.limit = 5;
		ask.verb.list.limbo = true;
		ask.verb.list.after_generation = UINT64_MAX;
		break;
	case gpushare_Request_limbo_tag:
		ask.verb.limbo.generations_count = 64;
		for (int i = 0; i < 64; i++)
			ask.verb.limbo.generations[i] = UINT64_MAX - (uint64_t)i;
		break;
	case gpushare_Request_resync_tag:
		ask.verb.resync.last = true;
		ask.verb.resync.shared_count = ask.verb.resync.attached_count = 8;
		for (int i = 0; i < 8; i++) {
			gpushare_Hold hold = {.generation = UINT64_MAX, .count = UINT32_MAX};

			fill(hold.name, sizeof(hold.name), (char)('a' + i));
			ask.verb.resync.shared[i] = ask.verb.resync.attached[i] = hold;
		}
		break;
	case gpushare_Request_order_tag:
		fill(ask.verb.order.name, sizeof(ask.verb.order.name), 'o');
		ask.verb.order.generation = ask.verb.order.again = UINT64_MAX;
		ask.verb.order.roles = ask.verb.order.slot = UINT32_MAX;
		ask.verb.order.leave = true;
		break;
	}
	return ask;
}

static reply *reply_of(int body)
{
	reply *answer = &answered;

	*answer = (reply){.which_body = (pb_size_t)body};
	switch (body) {
	case 0:
		answer->status = GPUSHARE_E_NOT_FOUND;
		fill(answer->message, sizeof(answer->message), 'm');
		break;
	case gpushare_Reply_hello_tag:
		answer->body.hello.protocol = GPUSHARE_PROTOCOL;
		answer->body.hello.pid = 4711;
		strcpy(answer->body.hello.version, GPUSHARE_VERSION);
		memset(answer->body.hello.session, 0xa8, sizeof(answer->body.hello.session));
		answer->body.hello.resumed = true;
		break;
	case gpushare_Reply_share_tag:
		answer->body.share.generation = UINT64_MAX;
		answer->body.share.adopted = answer->body.share.has_buffer = true;
		answer->body.share.buffer = full_record();
		break;
	case gpushare_Reply_lookup_tag:
		answer->body.lookup.has_buffer = true;
		answer->body.lookup.buffer = full_record();
		break;
	case gpushare_Reply_attach_tag:
		answer->body.attach.has_buffer = true;
		answer->body.attach.buffer = full_record();
		answer->body.attach.own = true;
		memset(answer->body.attach.handle, 0x5a, sizeof(answer->body.attach.handle));
		break;
	case gpushare_Reply_list_tag:
		answer->body.list.more = true;
		answer->body.list.buffers_count = 16;
		for (int i = 0; i < 16; i++)
			answer->body.list.buffers[i] = full_record();
		break;
	case gpushare_Reply_stat_tag:
		answer->body.stat = (gpushare_StatReply){
		    .names = 1, .requests = 5, .started_unix_ns = UINT64_MAX, .limbo = 7};
		answer->body.stat.by_verb_count = 32;
		fill(answer->body.stat.by_verb[31].what, 24, 'v');
		break;
	case gpushare_Reply_withdraw_tag:
		answer->body.withdraw.limbo = true;
		break;
	case gpushare_Reply_limbo_tag:
		answer->body.limbo.generations_count = 64;
		for (int i = 0; i < 64; i++)
			answer->body.limbo.generations[i] = UINT64_MAX;
		break;
	case gpushare_Reply_resync_tag:
		answer->body.resync.wanted_count = 16;
		for (int i = 0; i < 16; i++)
			answer->body.resync.wanted[i] = UINT64_MAX;
		break;
	case gpushare_Reply_order_tag:
		answer->body.order = (gpushare_OrderReply){UINT64_MAX, 1, UINT64_MAX};
		break;
	}
	return answer;
}

static size_t encode_request(const request *ask)
{
	size_t size;

	assert_int_equal(codec_encode_request(ask, wire, sizeof(wire), &size), GPUSHARE_OK);
	return size;
}

static void requests_round_trip(void **state)
{
	(void)state;
	for (int verb = gpushare_Request_hello_tag; verb <= gpushare_Request_order_tag; verb++) {
		request ask, got;
		size_t size;

		memset(&ask, 0, sizeof(ask));
		ask = request_of(verb);
		size = encode_request(&ask);
		assert_int_equal(codec_decode_request(wire, size, &got), GPUSHARE_OK);
		assert_int_equal(got.which_verb, verb);
		/* Every field, whatever the padding: what it encodes to is what it was made from.
		 */
		uint8_t again[gpushare_Request_size];
		size_t again_size;
		assert_int_equal(codec_encode_request(&got, again, sizeof(again), &again_size), 0);
		assert_int_equal(again_size, size);
		assert_memory_equal(again, wire, size);
	}
}

static void request_fields_survive(void **state)
{
	request ask = request_of(gpushare_Request_share_tag);
	const record *info = &asked.verb.share.buffer;

	(void)state;
	assert_int_equal(codec_decode_request(wire, encode_request(&ask), &asked), GPUSHARE_OK);
	assert_true(asked.verb.share.has_buffer);
	assert_int_equal(strlen(info->name), GPUSHARE_NAME_MAX);
	assert_true(info->size == UINT64_MAX && info->base_offset == UINT64_MAX - 1);
	assert_true(info->base_size == UINT64_MAX - 2 && info->address == UINT64_MAX);
	assert_int_equal(info->device_uuid[15], 0xff);
	assert_int_equal(info->tags_count, 4);
	assert_int_equal(info->tags[3].key[30], 'd');
	assert_int_equal(info->tags[3].value[126], 'D');
	assert_int_equal(info->owner_pid, INT32_MIN);
	assert_int_equal(asked.verb.share.handle[63], 0xa5);
}

static void replies_round_trip(void **state)
{
	static uint8_t again[GPUSHARE_MESSAGE_MAX];

	(void)state;
	for (int body = 0; body <= gpushare_Reply_order_tag; body++) {
		size_t size, again_size;

		if (body == gpushare_Reply_status_tag || body == gpushare_Reply_message_tag)
			continue;
		assert_int_equal(codec_encode_reply(reply_of(body), wire, sizeof(wire), &size), 0);
		assert_int_equal(codec_decode_reply(wire, size, &answered_again), GPUSHARE_OK);
		assert_int_equal(answered_again.which_body, body);
		assert_int_equal(answered_again.status, answered.status);
		assert_string_equal(answered_again.message, answered.message);
		assert_int_equal(
		    codec_encode_reply(&answered_again, again, sizeof(again), &again_size), 0);
		assert_int_equal(again_size, size);
		assert_memory_equal(again, wire, size);
	}
}

static void no_room_is_refused(void **state)
{
	request ask = request_of(gpushare_Request_share_tag);
	size_t size = encode_request(&ask), untouched = 99;

	(void)state;
	for (size_t room = 0; room < size; room++) {
		assert_int_equal(codec_encode_request(&ask, wire, room, &untouched),
				 GPUSHARE_E_PROTOCOL);
		assert_int_equal(untouched, 99);
	}
}

/* Cut anywhere, a request is refused, or is a request without its last fields: never the whole. */
static void truncation_is_seen(void **state)
{
	(void)state;
	for (int verb = gpushare_Request_hello_tag; verb <= gpushare_Request_order_tag; verb++) {
		request ask = request_of(verb);
		size_t size = encode_request(&ask);

		if (verb == gpushare_Request_stat_tag)
			continue; /* it has no fields */

		for (size_t cut = 0; cut < size; cut++) {
			uint8_t *exact = malloc(cut + 1); /* so that reading on is seen */

			memcpy(exact, wire, cut);
			assert_int_not_equal(codec_decode_request(exact, cut, &asked), GPUSHARE_OK);
			free(exact);
		}
	}
}

static void truncated_replies_are_seen(void **state)
{
	size_t size;

	(void)state;
	for (int body = gpushare_Reply_hello_tag; body <= gpushare_Reply_order_tag; body++) {
		assert_int_equal(codec_encode_reply(reply_of(body), wire, sizeof(wire), &size), 0);
		for (size_t cut = 1; cut < size; cut++) {
			uint8_t *exact = malloc(cut);

			memcpy(exact, wire, cut);
			assert_int_equal(codec_decode_reply(exact, cut, &answered_again),
					 GPUSHARE_E_PROTOCOL);
			free(exact);
		}
	}
}

static void a_bad_name_in_a_reply_is_refused(void **state)
{
	size_t size;

	(void)state;
	strcpy(reply_of(gpushare_Reply_list_tag)->body.list.buffers[15].name, "a b");
	assert_int_equal(codec_encode_reply(&answered, wire, sizeof(wire), &size), 0);
	assert_int_equal(codec_decode_reply(wire, size, &answered_again), GPUSHARE_E_PROTOCOL);
	reply_of(gpushare_Reply_attach_tag)->body.attach.buffer.name[0] = '\0';
	assert_int_equal(codec_encode_reply(&answered, wire, sizeof(wire), &size), 0);
	assert_int_equal(codec_decode_reply(wire, size, &answered_again), GPUSHARE_E_PROTOCOL);
}

static void a_bad_name_in_a_resync_is_refused(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) {
		request ask = request_of(gpushare_Request_resync_tag);

		(which ? ask.verb.resync.shared : ask.verb.resync.attached)[7].name[3] = ' ';
		assert_int_equal(codec_decode_request(wire, encode_request(&ask), &asked),
				 GPUSHARE_E_NAME);
	}
}

/* Whatever comes out of random or bent bytes keeps the bounds that the handlers rely on. */
static void random_bytes_do_no_harm(void **state)
{
	uint32_t seed = 20240607;
	unsigned int decoded = 0;

	(void)state;
	for (int round = 0; round < 10000; round++) {
		request ask =
		    request_of(1 + (int)((uint32_t)rand_r(&seed) % gpushare_Request_order_tag));
		size_t size = encode_request(&ask);
		uint8_t *exact;

		if (round % 2) {
			size = (uint32_t)rand_r(&seed) % 300;
			for (size_t i = 0; i < size; i++)
				wire[i] = (uint8_t)(uint32_t)rand_r(&seed);
		} else if (size) {
			wire[(uint32_t)rand_r(&seed) % size] ^=
			    (uint8_t)(1u << (uint32_t)rand_r(&seed) % 8);
		}
		exact = malloc(size + 1);
		memcpy(exact, wire, size);
		if (codec_decode_request(exact, size, &asked) == GPUSHARE_OK) {
			decoded++;
			assert_in_range(asked.which_verb, 1, gpushare_Request_holders_tag);
			if (asked.which_verb == gpushare_Request_share_tag) {
				assert_true(name_is_valid(asked.verb.share.buffer.name));
				assert_in_range(asked.verb.share.buffer.tags_count, 0, 4);
			}
		}
		codec_decode_reply(exact, size, &answered_again);
		free(exact);
	}
	assert_in_range(decoded, 100,
			9000); /* else the bytes tested nothing, or everything passes */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(requests_round_trip),
	    cmocka_unit_test(request_fields_survive),
	    cmocka_unit_test(replies_round_trip),
	    cmocka_unit_test(no_room_is_refused),
	    cmocka_unit_test(truncation_is_seen),
	    cmocka_unit_test(truncated_replies_are_seen),
	    cmocka_unit_test(a_bad_name_in_a_reply_is_refused),
	    cmocka_unit_test(a_bad_name_in_a_resync_is_refused),
	    cmocka_unit_test(random_bytes_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
