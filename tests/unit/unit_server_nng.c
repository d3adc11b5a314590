/* SPDX-License-Identifier: MIT */
/* The real daemon, and nng's own REQ as its client: by a socket, by contexts at a time, through a device. */
#include "unit.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "raw.h"

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

/* Its status; all of it is in raw_answer. */
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

static request hello(void)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};

	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	return hello;
}

static void its_connection_is_its_session(void **state)
{
	nng_socket client = nng_client(raw_here.socket);
	int fd = raw_connect(&raw_here);

	(void)state;
	assert_int_equal(nng_say(client, hello()), GPUSHARE_OK);
	assert_int_equal(nng_say(client, raw_share("x")), GPUSHARE_OK);
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.owner_pid, getpid());
	assert_int_equal(nng_close(client), 0);
	raw_ms_until_gone(fd, "x");
	raw_await_connections(fd, 1);
	close(fd);
}

/* All of them wait on one connection; each gets its own name. */
static void contexts_are_answered_each(void **state)
{
	nng_socket client = nng_client(raw_here.socket);
	nng_ctx contexts[AT_A_TIME];
	nng_aio *aios[AT_A_TIME];
	int fd = raw_connect(&raw_here);
	char name[16];

	(void)state;
	assert_int_equal(nng_say(client, hello()), GPUSHARE_OK);
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

/* Until so many have come of others. */
static void await_requests(int fd, uint64_t count)
{
	uint64_t before = requests(fd), ours = 1;

	while (requests(fd) - before - ours++ < count)
		raw_sleep_ms(10);
}

/* nng asks again, under the same id, where no answer has come for a while. */
static void who_asks_again_is_told_once(void **state)
{
	request subscribe = {.which_verb = gpushare_Request_subscribe_tag};
	nng_socket client = nng_client(raw_here.socket);
	int fd = raw_connect(&raw_here);
	nng_aio *aio;

	(void)state;
	assert_int_equal(nng_aio_alloc(&aio, NULL, NULL), 0);
	assert_int_equal(nng_socket_set_ms(client, NNG_OPT_REQ_RESENDTIME, 50), 0);
	assert_int_equal(nng_say(client, hello()), GPUSHARE_OK);
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

static void *forward(void *sockets)
{
	nng_socket *ends = sockets;

	nng_device(ends[0], ends[1]);
	return NULL;
}

/* A request has an id of each hop then, and so has its answer. */
static void a_device_may_stand_between(void **state)
{
	char path[GPUSHARE_PATH_MAX + 16], url[sizeof("ipc://") + sizeof(path)];
	nng_socket ends[2], client;
	pthread_t thread;

	(void)state;
	snprintf(path, sizeof(path), "%s/device", raw_here.directory);
	snprintf(url, sizeof(url), "ipc://%s", path);
	assert_int_equal(nng_rep0_open_raw(&ends[0]), 0);
	assert_int_equal(nng_listen(ends[0], url, NULL, 0), 0);
	snprintf(url, sizeof(url), "ipc://%s", raw_here.socket);
	assert_int_equal(nng_req0_open_raw(&ends[1]), 0);
	assert_int_equal(nng_dial(ends[1], url, NULL, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, forward, ends), 0);
	client = nng_client(path);
	assert_int_equal(nng_say(client, hello()), GPUSHARE_OK);
	for (int i = 0; i < 100; i++)
		assert_int_equal(nng_say(client, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	nng_close(client);
	nng_close(ends[0]);
	nng_close(ends[1]);
	pthread_join(thread, NULL);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(its_connection_is_its_session),
	    with_daemon(contexts_are_answered_each),
	    with_daemon(who_asks_again_is_told_once),
	    with_daemon(a_device_may_stand_between),
	};

	return cmocka_run_group_tests_name("server nng", tests, NULL, NULL);
}
