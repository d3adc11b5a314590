/* SPDX-License-Identifier: MIT */
/* The real daemon with nng's REQ as its client, by a socket and by several contexts. And peers that
 * send nonsense, and ten thousand peers at once. */
#include "unit.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "raw_fds.h"

#define AT_A_TIME 32

static nng_socket nng_client(const char *path)
{
	char url[sizeof("ipc://") + GPUSHARE_PATH_MAX];
	nng_socket client;

	snprintf(url, sizeof(url), "ipc://%s", path);
	assert_int_equal(nng_req0_open(&client), 0);
	assert_int_equal(nng_socket_set_ms(client, NNG_OPT_RECVTIMEO, RAW_TIMEOUT_MS), 0);
	assert_int_equal(nng_dial(client, url, NULL, 0), 0);
	return client;
}

static nng_msg *packed(const request *what)
{
	uint8_t wire[gpushare_Request_size];
	nng_msg *message;
	size_t size;

	assert_int_equal(codec_encode_request(what, wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_int_equal(nng_msg_alloc(&message, 0), 0);
	assert_int_equal(nng_msg_append(message, wire, size), 0);
	return message;
}

/* Decode the answer into raw_answer and return its status. */
static int unpacked(nng_msg *message)
{
	assert_int_equal(
	    codec_decode_reply(nng_msg_body(message), nng_msg_len(message), &raw_answer),
	    GPUSHARE_OK);
	nng_msg_free(message);
	return raw_answer.status;
}

static int nng_say(nng_socket client, request what)
{
	nng_msg *message = packed(&what);

	assert_int_equal(nng_sendmsg(client, message, 0), 0);
	assert_int_equal(nng_recvmsg(client, &message, 0), 0);
	return unpacked(message);
}

static void its_connection_is_its_session(void **state)
{
	nng_socket client = nng_client(raw_here.socket);
	int fd = raw_connect(&raw_here);

	assert_int_equal(nng_say(client, raw_hello_request()), GPUSHARE_OK);
	assert_int_equal(nng_say(client, raw_share("x")), GPUSHARE_OK);
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.owner_pid, getpid());
	assert_int_equal(nng_close(client), 0);
	raw_ms_until_gone(fd, "x");
	raw_await_connections(fd, 1);
	close(fd);
}

/* All contexts wait on one connection; each gets the answer for its own name. */
static void contexts_are_answered_each(void **state)
{
	nng_socket client = nng_client(raw_here.socket);
	nng_ctx contexts[AT_A_TIME];
	nng_aio *aios[AT_A_TIME];
	int fd = raw_connect(&raw_here);
	char name[16];

	assert_int_equal(nng_say(client, raw_hello_request()), GPUSHARE_OK);
	for (int i = 0; i < AT_A_TIME; i++) {
		request ask;

		snprintf(name, sizeof(name), "late%d", i);
		ask = raw_lookup(name, RAW_TIMEOUT_MS);
		assert_int_equal(nng_ctx_open(&contexts[i], client), 0);
		assert_int_equal(nng_aio_alloc(&aios[i], NULL, NULL), 0);
		nng_aio_set_msg(aios[i], packed(&ask));
		nng_ctx_send(contexts[i], aios[i]);
		nng_aio_wait(aios[i]);
		assert_int_equal(nng_aio_result(aios[i]), 0);
		nng_ctx_recv(contexts[i], aios[i]);
	}
	for (int i = AT_A_TIME - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "late%d", i);
		assert_int_equal(raw_say(fd, raw_share(name)), GPUSHARE_OK);
	}
	for (int i = 0; i < AT_A_TIME; i++) {
		snprintf(name, sizeof(name), "late%d", i);
		nng_aio_wait(aios[i]);
		assert_int_equal(nng_aio_result(aios[i]), 0);
		assert_int_equal(unpacked(nng_aio_get_msg(aios[i])), GPUSHARE_OK);
		assert_string_equal(raw_answer.body.lookup.buffer.name, name);
		nng_aio_free(aios[i]);
		nng_ctx_close(contexts[i]);
	}
	nng_close(client);
	close(fd);
}

static uint64_t requests(int fd)
{
	request stat = {.which_verb = gpushare_Request_stat_tag};

	assert_int_equal(raw_say(fd, stat), GPUSHARE_OK);
	return raw_answer.body.stat.requests;
}

/* Wait until the daemon has got `count` requests from other connections. */
static void await_requests(int fd, uint64_t count)
{
	uint64_t before = requests(fd), ours = 1;

	while (requests(fd) - before - ours++ < count)
		raw_sleep_ms(10);
}

/* nng repeats a request under the same id if its answer takes longer than
 * NNG_OPT_REQ_RESENDTIME. */
static void who_asks_again_is_told_once(void **state)
{
	request subscribe = {.which_verb = gpushare_Request_subscribe_tag};
	nng_socket client = nng_client(raw_here.socket);
	int fd = raw_connect(&raw_here);
	nng_aio *aio;

	assert_int_equal(nng_aio_alloc(&aio, NULL, NULL), 0);
	assert_int_equal(nng_socket_set_ms(client, NNG_OPT_REQ_RESENDTIME, 50), 0);
	assert_int_equal(nng_say(client, raw_hello_request()), GPUSHARE_OK);
	assert_int_equal(nng_say(client, subscribe), GPUSHARE_OK);
	for (uint64_t serial = 1; serial <= 2; serial++) {
		assert_int_equal(nng_sendmsg(client, packed(&subscribe), 0), 0);
		nng_recv_aio(client, aio);
		await_requests(fd, 3);
		assert_int_equal(raw_say(fd, raw_share(serial == 1 ? "one" : "two")), GPUSHARE_OK);
		nng_aio_wait(aio);
		assert_int_equal(nng_aio_result(aio), 0);
		assert_int_equal(unpacked(nng_aio_get_msg(aio)), GPUSHARE_OK);
		assert_int_equal(raw_answer.body.subscribe.notices_count, 1);
		assert_int_equal(raw_answer.body.subscribe.notices[0].serial, serial);
	}
	nng_aio_free(aio);
	nng_close(client);
	close(fd);
}

static void what_is_no_message_ends_the_connection(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
	} greetings[] = {
	    {"GET / HTTP/1.1\r\n\r\n", 18}, {"\0SQ\0\0\x30\0\0", 8}, {"\0SP\0\0\x62\0\0", 8}};
	static const uint64_t sizes[] = {GPUSHARE_MESSAGE_MAX + 1, UINT64_C(1) << 40,
					 UINT64_MAX - 4};
	int other = raw_connect(&raw_here);

	for (int i = 0; i < 3; i++) {
		uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
		int stranger = raw_dial(&raw_here), fd = raw_connect(&raw_here);

		assert_true(raw_write(stranger, greetings[i].bytes, greetings[i].size));
		assert_true(raw_is_closed(stranger, RAW_TIMEOUT_MS));
		raw_shared(fd, "mine");
		sp_header(header, 1, sizes[i]);
		assert_true(raw_write(fd, header, sizeof(header)));
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		assert_in_range(raw_ms_until_gone(other, "mine"), 0, RAW_GONE_MS);
		close(stranger);
		close(fd);
	}
	/* ids without an end, and more of them than the daemon remembers */
	for (size_t i = 0; i < 2; i++) {
		uint8_t ids[SP_HEADER_SIZE + 40 * SP_ID_SIZE] = {0};
		int fd = raw_connect(&raw_here);

		sp_length(ids, 40 * SP_ID_SIZE);
		ids[sizeof(ids) - SP_ID_SIZE] = i ? 0x80 : 0;
		assert_true(raw_write(fd, ids, sizeof(ids)));
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		close(fd);
	}
	close(other);
	raw_assert_serves();
}

static void nonsense_is_answered(void **state)
{
	static const char unknown[] = "\x7a\x03"
				      "abc"; /* field 15 */
	static char large[4096];
	int fd = raw_connect(&raw_here);
	uint32_t seed = 4711;

	assert_true(raw_send_bytes(fd, 1, unknown, 5));
	assert_true(raw_receive(fd, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_PROTOCOL);
	raw_assert_sentence("doesn't understand");
	assert_true(raw_send_bytes(fd, 2, "", 0));
	assert_true(raw_receive(fd, 2, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_PROTOCOL);
	assert_int_equal(raw_say(fd, raw_lookup("a b", 0)), GPUSHARE_E_NAME);
	raw_assert_sentence("valid name");
	for (uint32_t id = 10; id < 1010; id++) {
		size_t size = (seed >> 8) % sizeof(large);

		for (size_t i = 0; i < size; i++)
			large[i] = (char)((seed = seed * 1664525 + 1013904223) >> 16);
		seed = seed * 1664525 + 1013904223;
		assert_true(raw_send_bytes(fd, id, large, size));
		assert_true(raw_receive(fd, id, &raw_answer, RAW_TIMEOUT_MS));
		assert_int_not_equal(raw_answer.status, GPUSHARE_OK);
	}
	assert_int_equal(raw_say(fd, raw_share("x")), GPUSHARE_OK); /* the connection still works */
	close(fd);
}

#define MANY 10000

/* The daemon has a socket for each connection, and lets connections use two thirds of its
 * descriptor limit. */
static void ten_thousand_at_once(void **state)
{
	struct rlimit files;
	static int fds[MANY];
	char name[32];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = 3 * MANY / 2 + 500;
	if (setrlimit(RLIMIT_NOFILE, &files)) {
		printf("skipped: a process may have too few descriptors here\n");
		skip();
	}
	raw_set_up(NULL);
	for (int i = 0; i < MANY; i++)
		fds[i] = raw_connect(&raw_here);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		raw_shared(fds[i], name);
	}
	assert_int_equal(raw_stat(fds[MANY - 1]).names, MANY);
	raw_attached(fds[0], "n9999");
	for (int i = 1; i < MANY; i++)
		close(fds[i]);
	raw_await_connections(fds[0], 1);
	raw_ms_until_gone(fds[0], "n9999");
	close(fds[0]);
	raw_tear_down(NULL);
}

UNIT_MAIN(RAW_TEST(what_is_no_message_ends_the_connection), RAW_TEST(nonsense_is_answered),
	  RAW_TEST(its_connection_is_its_session), RAW_TEST(contexts_are_answered_each),
	  RAW_TEST(who_asks_again_is_told_once), UNIT(ten_thousand_at_once))
