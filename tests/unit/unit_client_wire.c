/* SPDX-License-Identifier: MIT */
/* The client's end of a connection whose other end is the test: invalid, partial, late and
 * missing answers. */
#include "unit.h"

#include <sys/time.h>

#include "lone.h"
#include "base/monotonic.h"

#define HEADER (SP_HEADER_SIZE + SP_ID_SIZE)
#define FIRST_ID 0x80000001u

static int other = -1; /* the registry's end */

static void connected(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	other = pair[1];
	assert_true(client_socket_of(pair[0], &lone_client.socket));
	lone_client.next_id = 0;
	lone_client.greeted = lone_client.ready = true;
}

static int set_up(void **state)
{
	if (lone_set_up(state))
		return -1;
	connected();
	return 0;
}

static int tear_down(void **state)
{
	close(other);
	return lone_tear_down(state);
}

static int64_t shortly(void)
{
	return monotonic_ms() + SHORTLY_MS;
}

static int ask(void)
{
	static const request list = {.which_verb = gpushare_Request_list_tag};

	return client_exchange(&lone_client, &list, shortly());
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

static void answered(void **state)
{
	reply answer = {.status = GPUSHARE_OK, .which_body = gpushare_Reply_deferred_tag};

	answer.body.deferred.generations_count = 1;
	answer.body.deferred.generations[0] = 7;
	sent(&answer, FIRST_ID, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_OK);
	assert_true(lone_client.reply.body.deferred.generations[0] == 7);
	answer = (reply){.status = GPUSHARE_E_DENIED, .message = "it is not yours"};
	sent(&answer, FIRST_ID + 1, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_E_DENIED);
	assert_string_equal(lone_client.why, "it is not yours");
	answer.message[0] = '\0';
	sent(&answer, FIRST_ID + 2, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_E_DENIED);
	assert_string_equal(lone_client.why, status_text(GPUSHARE_E_DENIED));
	assert_true(lone_client.socket.fd >= 0);
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
	assert_true(client_post(&lone_client, &deferred) && client_post(&lone_client, &deferred));
	sent(&other_answer, FIRST_ID, SIZE_MAX);
	sent(&answer, FIRST_ID + 2, SIZE_MAX);
	sent(&other_answer, FIRST_ID + 1, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_OK);
	assert_int_equal(lone_client.reply.body.deferred.generations[0], 7);
	assert_int_equal(lone_client.unanswered, 1);
	answer.body.deferred.generations[0] = 8;
	sent(&answer, FIRST_ID + 3, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_OK);
	assert_int_equal(lone_client.reply.body.deferred.generations[0], 8);
	assert_int_equal(lone_client.unanswered, 0);
	sent(&answer, FIRST_ID + 5, SIZE_MAX); /* for a request that was never sent */
	assert_int_equal(ask(), GPUSHARE_E_PROTOCOL);
}

/* The other end reads nothing. Posting fails, and earlier requests were sent whole. */
static void posted_to_nobody(void **state)
{
	static const request deferred = {.which_verb = gpushare_Request_deferred_tag};
	static const int small = 1;

	assert_int_equal(
	    setsockopt(lone_client.socket.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	while (client_post(&lone_client, &deferred))
		assert_in_range(lone_client.unanswered, 1, 100000);
	assert_true(lone_client.socket.fd >= 0);
	close(other);
	assert_false(client_post(&lone_client, &deferred));
	connected();
}

/* The answer is refused and the connection closed. */
static void is_foreign(void)
{
	assert_int_equal(ask(), GPUSHARE_E_PROTOCOL);
	lone_why_has("does not speak the registry's protocol");
	assert_int_equal(lone_client.socket.fd, -1);
	close(other);
	connected();
}

static void answers_that_are_none(void **state)
{
	static reply empty = {.status = GPUSHARE_OK};
	uint8_t bytes[HEADER + 4] = {0};

	sent(&empty, FIRST_ID + 5, SIZE_MAX); /* for another request */
	is_foreign();
	assert_int_equal(send(other, bytes, HEADER, 0), HEADER); /* not an SP message */
	is_foreign();
	sp_header(bytes, FIRST_ID, GPUSHARE_MESSAGE_MAX);
	assert_int_equal(send(other, bytes, HEADER, 0), HEADER);
	is_foreign();
	sp_header(bytes, FIRST_ID, 2); /* but two more bytes follow */
	assert_int_equal(send(other, bytes, sizeof(bytes), 0), sizeof(bytes));
	is_foreign();
	sp_header(bytes, FIRST_ID, 4);
	memset(bytes + HEADER, 0xff, 4);
	assert_int_equal(send(other, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(ask(), GPUSHARE_E_PROTOCOL);
	lone_why_has("sent an answer that can't be decoded");
	assert_int_equal(lone_client.socket.fd, -1);
}

static void closes_at(size_t size)
{
	static reply text = {.status = GPUSHARE_E_DENIED, .message = "a sentence"};

	sent(&text, FIRST_ID, size);
	shutdown(other, SHUT_WR);
	assert_int_equal(ask(), GPUSHARE_E_NO_REGISTRY);
	lone_why_has("closed the connection while answering; it may have been ended: try again");
	assert_int_equal(lone_client.socket.fd, -1);
	close(other);
	connected();
}

static void closed_under_the_answer(void **state)
{
	closes_at(0);
	closes_at(HEADER - 1);
	closes_at(HEADER);
	closes_at(HEADER + 3);
	close(other);
	assert_int_equal(ask(), GPUSHARE_E_NO_REGISTRY);
	lone_why_has("closed the connection while taking a request");
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
	lone_why_has("did not answer in time (30 ms) while answering; is it stopped");
	assert_true(lone_client.socket.fd >= 0 && client_is_silent(&lone_client));
	/* The rest of the late answer is read before the next request is sent. */
	assert_int_equal(recv(other, bytes, sizeof(bytes), 0), HEADER + 2);
	assert_int_equal(ask(), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(recv(other, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	sent_rest(&text, FIRST_ID, HEADER + 3);
	assert_int_equal(client_settle(&lone_client, shortly()), GPUSHARE_OK);
	text.message[0] = 'A';
	sent(&text, FIRST_ID + 1, SIZE_MAX);
	assert_int_equal(ask(), GPUSHARE_E_DENIED);
	assert_string_equal(lone_client.why, "A sentence");
	assert_false(client_is_silent(&lone_client));
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
	assert_int_equal(
	    setsockopt(lone_client.socket.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	while (client_post(&lone_client, &part))
		assert_in_range(lone_client.unanswered, 1, 100000);
	whole = lone_client.unanswered;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(client_exchange(&lone_client, &part, shortly()),
				 GPUSHARE_E_TIMED_OUT);
		lone_why_has("while taking a request");
		assert_true(lone_client.socket.fd >= 0 && lone_client.unanswered == whole + 1);
	}
	for (size_t i = 0; i < whole; i++)
		sent(&none, FIRST_ID + (uint32_t)i, SIZE_MAX);
	last = lone_client.late.id;
	sent(&none, last, SIZE_MAX);
	for (size_t i = 0; i <= whole;) {
		ssize_t got = recv(other, bytes + all, sizeof(bytes) - all, MSG_DONTWAIT);
		long body;

		if (got > 0)
			all += (size_t)got;
		else
			assert_int_equal(client_settle(&lone_client, shortly()), GPUSHARE_OK);
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
	assert_true(all == 0 && !client_is_silent(&lone_client));
}

static void out_of_bounds(void **state)
{
	request strange = {.which_verb = gpushare_Request_list_tag};

	memset(strange.verb.list.glob, 'x', sizeof(strange.verb.list.glob)); /* without a NUL */
	assert_int_equal(client_exchange(&lone_client, &strange, shortly()), GPUSHARE_E_PROTOCOL);
	lone_why_has("a request is too large for the protocol, or can't be encoded");
	assert_true(lone_client.socket.fd >= 0);
}

static volatile sig_atomic_t signals;

static void on_alarm(int number)
{
	signals++;
}

/* A program's timer signals must not shorten a wait. */
static void waits_through_signals(void **state)
{
	const struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
	struct sigaction act = {.sa_handler = on_alarm}, before;
	int64_t began = monotonic_ms();

	signals = 0;
	sigaction(SIGALRM, &act, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(client_wait(lone_client.socket.fd, POLLIN, shortly()),
			 GPUSHARE_E_TIMED_OUT);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	assert_true(signals > 0 && monotonic_ms() - began >= SHORTLY_MS);
	assert_int_equal(client_wait(lone_client.socket.fd, POLLIN, 0), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(client_wait(lone_client.socket.fd, POLLOUT, 0), GPUSHARE_OK);
	assert_int_equal(client_wait(lone_client.socket.fd, POLLOUT, INT64_MAX), GPUSHARE_OK);
}

#define with_line(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(with_line(answered), with_line(posted), with_line(posted_to_nobody),
	  with_line(answers_that_are_none), with_line(closed_under_the_answer), with_line(silent),
	  with_line(taken_in_pieces), with_line(out_of_bounds), with_line(waits_through_signals))
