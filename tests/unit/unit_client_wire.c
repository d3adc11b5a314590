/* SPDX-License-Identifier: MIT */
/* The client's end of a connection whose other end is the test: requests and answers that come in
 * pieces, late, or not. */
#include "unit.h"

#include "base/fork_check.h"
#include "base/monotonic.h"
#include "client/client_internal.h"

#define HEADER (SP_HEADER_SIZE + SP_ID_SIZE)
#define SHORTLY_MS 30
#define FIRST_ID 0x80000001u

static struct client client;
static int other = -1; /* the registry's end */

static void connected(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	other = pair[1];
	assert_true(client_socket_of(pair[0], &client.socket));
	client.next_id = 0;
	client.greeted = client.ready = true;
}

static int set_up(void **state)
{
	static uint8_t out[GPUSHARE_MESSAGE_MAX], in[GPUSHARE_MESSAGE_MAX];

	client = (struct client){.directory = "/nowhere",
				 .timeout_ms = SHORTLY_MS,
				 .process = fork_check_number(),
				 .socket.fd = -1,
				 .out = out,
				 .in = in};
	connected();
	return 0;
}

static int tear_down(void **state)
{
	close(other);
	client_disconnect(&client);
	return 0;
}

static void assert_why(const char *words)
{
	if (!strstr(client.why, words))
		fail_msg("\"%s\" does not hold \"%s\"", client.why, words);
}

static int64_t shortly(void)
{
	return monotonic_ms() + SHORTLY_MS;
}

static int ask(void)
{
	static const request list = {.which_verb = gpushare_Request_list_tag};

	return client_exchange(&client, &list, shortly());
}

/* Encode an answer with that id into `bytes`. Return its size. */
static size_t make_answer(reply *answer, uint32_t id, uint8_t bytes[GPUSHARE_MESSAGE_MAX])
{
	size_t body = 0;

	assert_int_equal(
	    codec_encode_reply(answer, bytes + HEADER, GPUSHARE_MESSAGE_MAX - HEADER, &body),
	    GPUSHARE_OK);
	sp_header(bytes, id, body);
	return HEADER + body;
}

/* The other end sends the first `size` bytes of the answer. */
static void sent(reply *answer, uint32_t id, size_t size)
{
	uint8_t bytes[GPUSHARE_MESSAGE_MAX];
	size_t all = make_answer(answer, id, bytes);

	if (size > all)
		size = all;
	assert_int_equal(send(other, bytes, size, MSG_NOSIGNAL), size);
}

static void sent_rest(reply *answer, uint32_t id, size_t from)
{
	uint8_t bytes[GPUSHARE_MESSAGE_MAX];
	size_t all = make_answer(answer, id, bytes);

	assert_int_equal(send(other, bytes + from, all - from, MSG_NOSIGNAL), all - from);
}

/* The answer to a posted request may arrive before or after the next answer, or together with
 * it. */
static void posted(void **state)
{
	static const request deferred = {.which_verb = gpushare_Request_deferred_tag};
	static reply other_answer = {.status = GPUSHARE_E_DENIED};
	reply answer = {.status = GPUSHARE_OK, .which_body = gpushare_Reply_deferred_tag};

	answer.body.deferred.generations_count = 1;
	answer.body.deferred.generations[0] = 7;
	assert_true(client_post(&client, &deferred) && client_post(&client, &deferred));
	sent(&other_answer, FIRST_ID, SIZE_MAX);
	sent(&answer, FIRST_ID + 2, SIZE_MAX);
	sent(&other_answer, FIRST_ID + 1, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_OK);
	assert_int_equal(client.reply.body.deferred.generations[0], 7);
	assert_int_equal(client.unanswered, 1);
	answer.body.deferred.generations[0] = 8;
	sent(&answer, FIRST_ID + 3, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_OK);
	assert_int_equal(client.reply.body.deferred.generations[0], 8);
	assert_int_equal(client.unanswered, 0);
	sent(&answer, FIRST_ID + 5, SIZE_MAX); /* for a request that was never sent */
	assert_int_equal(ask(), GPUSHARE_E_PROTOCOL);
}

/* The other end reads nothing. Posting fails, and earlier requests were sent whole. */
static void posted_to_nobody(void **state)
{
	static const request deferred = {.which_verb = gpushare_Request_deferred_tag};
	static const int small = 1;

	assert_int_equal(setsockopt(client.socket.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
			 0);
	while (client_post(&client, &deferred))
		assert_in_range(client.unanswered, 1, 100000);
	assert_true(client.socket.fd >= 0);
	close(other);
	assert_false(client_post(&client, &deferred));
	connected();
}

static void silent(void **state)
{
	static reply text = {.status = GPUSHARE_E_DENIED, .message = "a sentence"};
	uint8_t bytes[GPUSHARE_MESSAGE_MAX];
	int64_t began = monotonic_ms();

	sent(&text, FIRST_ID, HEADER + 3);
	assert_int_equal(ask(), GPUSHARE_E_TIMED_OUT);
	assert_true(monotonic_ms() - began >= SHORTLY_MS);
	assert_why("did not answer in time (30 ms) while answering; is it stopped");
	assert_true(client.socket.fd >= 0 && client_is_silent(&client));
	/* The rest of the late answer is read before the next request is sent. */
	assert_int_equal(recv(other, bytes, sizeof(bytes), 0), HEADER + 2);
	assert_int_equal(ask(), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(recv(other, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	sent_rest(&text, FIRST_ID, HEADER + 3);
	assert_int_equal(client_settle(&client, shortly()), GPUSHARE_OK);
	text.message[0] = 'A';
	sent(&text, FIRST_ID + 1, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_E_DENIED);
	assert_string_equal(client.why, "A sentence");
	assert_false(client_is_silent(&client));
}

/* Requests that the socket doesn't take are sent by later calls, complete and in order. */
static void taken_in_pieces(void **state)
{
	static const int small = 1;
	static request part = {.which_verb = gpushare_Request_resync_tag}, found;
	static reply none = {.status = GPUSHARE_OK};
	static uint8_t bytes[GPUSHARE_MESSAGE_MAX];
	size_t all = 0, whole;
	uint32_t last;

	part.verb.resync.shared_count = 8;
	for (int i = 0; i < 8; i++)
		memset(part.verb.resync.shared[i].name, 'a' + i, GPUSHARE_NAME_MAX);
	assert_int_equal(setsockopt(client.socket.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
			 0);
	while (client_post(&client, &part))
		assert_in_range(client.unanswered, 1, 100000);
	whole = client.unanswered;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(client_exchange(&client, &part, shortly()), GPUSHARE_E_TIMED_OUT);
		assert_why("while taking a request");
		assert_true(client.socket.fd >= 0 && client.unanswered == whole + 1);
	}
	for (size_t i = 0; i < whole; i++)
		sent(&none, FIRST_ID + (uint32_t)i, SIZE_MAX);
	last = client.late.id;
	sent(&none, last, SIZE_MAX);
	for (size_t i = 0; i <= whole;) {
		ssize_t got = recv(other, bytes + all, sizeof(bytes) - all, MSG_DONTWAIT);
		long body;

		if (got > 0)
			all += (size_t)got;
		else
			assert_int_equal(client_settle(&client, shortly()), GPUSHARE_OK);
		while (all > HEADER && (body = sp_header_body_size(bytes)) >= 0 &&
		       all >= HEADER + (size_t)body) {
			assert_int_equal(codec_decode_request(bytes + HEADER, (size_t)body, &found),
					 GPUSHARE_OK);
			assert_int_equal(sp_id(bytes + SP_HEADER_SIZE),
					 i < whole ? FIRST_ID + i : last);
			i++;
			assert_int_equal(found.verb.resync.shared_count, 8);
			all -= HEADER + (size_t)body;
			memmove(bytes, bytes + HEADER + body, all);
		}
	}
	assert_true(all == 0 && !client_is_silent(&client));
}

static void timeouts_of_the_environment(void **state)
{
	static const char *const bad[] = {
	    "", "abc", "-5", "+5", "0", "12x", " 12", "3600001", "99999999999999999999"};

	unsetenv("GPUSHARE_TIMEOUT_MS");
	assert_int_equal(client_default_timeout_ms(), GPUSHARE_TIMEOUT_MS);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		setenv("GPUSHARE_TIMEOUT_MS", bad[i], 1);
		assert_int_equal(client_default_timeout_ms(), GPUSHARE_TIMEOUT_MS);
	}
	setenv("GPUSHARE_TIMEOUT_MS", "1", 1);
	assert_int_equal(client_default_timeout_ms(), 1);
	setenv("GPUSHARE_TIMEOUT_MS", "3600000", 1);
	assert_int_equal(client_default_timeout_ms(), 3600000);
	unsetenv("GPUSHARE_TIMEOUT_MS");
}

#define with_line(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(with_line(posted), with_line(posted_to_nobody), with_line(silent),
	  with_line(taken_in_pieces), UNIT(timeouts_of_the_environment))
