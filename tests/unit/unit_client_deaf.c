/* SPDX-License-Identifier: MIT */
/* Peers that leave before the greeting, and registries that end: the next client or registry is
 * served. */
#include "unit.h"

#include "client/client.h"
#include "raw.h"

#define SOON_MS 80 /* after a lost connection nng once paused for 100 */

static struct client *fresh_client(void)
{
	const struct client_options options = {
	    .directory = raw_here.directory, .who = "unit", .timeout_ms = RAW_TIMEOUT_MS};
	struct client *client = client_new(&options);

	assert_non_null(client);
	return client;
}

static long long connect_ms(void)
{
	struct client *client = fresh_client();
	long long began_ms = raw_now_ms();

	assert_int_equal(client_connect(client), GPUSHARE_OK);
	client_free(client);
	return raw_now_ms() - began_ms;
}

static void who_leaves_before_the_greeting_holds_up_nobody(void **state)
{
	for (int i = 0; i < 60; i++) {
		int fd = raw_dial(&raw_here);

		if (i % 3)
			raw_write(fd, "\0SP\0\0\x30\0\0", (size_t)(i % 3 * 4));
		close(fd);
		assert_in_range(connect_ms(), 0, SOON_MS + raw_slack_ms());
	}
}

#define SUCCESSORS (2 * CLIENT_TRIES)
#define TOO_MANY 30

static void socket_of(int at, char out_path[GPUSHARE_PATH_MAX + 8])
{
	snprintf(out_path, GPUSHARE_PATH_MAX + 8, "%s.%d", raw_here.socket, at);
}

/* The daemon is stopped first, because it exits if its socket disappears. */
static void set_aside(int at)
{
	char path[GPUSHARE_PATH_MAX + 8];

	kill(raw_here.pid, SIGSTOP);
	assert_int_equal(waitpid(raw_here.pid, NULL, WUNTRACED), raw_here.pid);
	socket_of(at, path);
	assert_int_equal(rename(raw_here.socket, path), 0);
}

static bool take_request(int fd, uint32_t *out_id)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE], body[GPUSHARE_MESSAGE_MAX];
	long size;

	if (!raw_read(fd, header, sizeof(header), RAW_TIMEOUT_MS))
		return false;
	size = sp_header_body_size(header);
	*out_id = sp_id(header + SP_HEADER_SIZE);
	return size >= 0 && raw_read(fd, body, (size_t)size, RAW_TIMEOUT_MS);
}

/* Complete the handshake and wait for the first request. */
static bool hear_out(int fd)
{
	reply answer = {.which_body = gpushare_Reply_hello_tag};
	uint8_t wire[GPUSHARE_MESSAGE_MAX];
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	uint32_t id;
	size_t size;

	answer.body.hello.protocol = GPUSHARE_PROTOCOL;
	if (!raw_read(fd, wire, SP_GREETING_SIZE, RAW_TIMEOUT_MS))
		return false;
	sp_greeting(wire, SP_REP);
	if (!raw_write(fd, wire, SP_GREETING_SIZE) || !take_request(fd, &id) ||
	    codec_encode_reply(&answer, wire + header, sizeof(wire) - header, &size))
		return false;
	sp_header(wire, id, size);
	return raw_write(fd, wire, header + size) && take_request(fd, &id);
}

/* A registry process that exits during the greeting or a request, after putting the next one's
 * socket in place. */
static void end_early(int at, bool asked, bool last)
{
	struct sockaddr_un here = {.sun_family = AF_UNIX};
	char path[GPUSHARE_PATH_MAX + 8], next[GPUSHARE_PATH_MAX + 8];
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	socket_of(at, path);
	socket_of(at + 1, next);
	snprintf(here.sun_path, sizeof(here.sun_path), "%s", path);
	if (bind(listener, (struct sockaddr *)&here, sizeof(here)) || listen(listener, 8) ||
	    (fd = accept(listener, NULL, NULL)) < 0 || (asked && !hear_out(fd)) ||
	    rename(next, raw_here.socket))
		_exit(1);
	if (last)
		kill(raw_here.pid, SIGCONT);
	_exit(0);
}

static long long ask_ms(void)
{
	struct client *client = fresh_client();
	long long began_ms = raw_now_ms();

	client->request.which_verb = gpushare_Request_stat_tag;
	assert_int_equal(client_call(client, 0), GPUSHARE_OK);
	assert_int_equal(client->reply.which_body, gpushare_Reply_stat_tag);
	client_free(client);
	return raw_now_ms() - began_ms;
}

/* The successors serve before the daemon, whose socket is the last. The daemon is stopped, or it
 * would make a new socket. */
static void start_successors(pid_t *pids, int count, bool asked)
{
	char path[GPUSHARE_PATH_MAX + 8];

	for (int i = 0; i < count; i++) {
		pids[i] = raw_fork();
		if (!pids[i])
			end_early(i, asked, i == count - 1);
		socket_of(i, path);
		while (access(path, F_OK))
			raw_sleep_ms(1);
	}
	raw_sleep_ms(50); /* until all listen */
	set_aside(count);
	socket_of(0, path);
	assert_int_equal(rename(path, raw_here.socket), 0);
}

static void play_successors(bool asked)
{
	pid_t pids[SUCCESSORS];

	start_successors(pids, SUCCESSORS, asked);
	assert_in_range(asked ? ask_ms() : connect_ms(), 1, RAW_TIMEOUT_MS);
	for (int i = 0; i < SUCCESSORS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

/* Each registry is a new process, so the client tries more than CLIENT_TRIES times. */
static void registries_that_end_one_after_the_other(void **state)
{
	play_successors(false);
}

static void registries_that_end_one_after_the_other_under_a_request(void **state)
{
	play_successors(true);
}

/* Each request ends a registry and finds a new one. The client stops after CLIENT_ENDINGS
 * registries or at its timeout, and pauses between them. */
static void what_ends_each_registry_is_not_asked_for_ever(void **state)
{
	static const struct {
		unsigned int timeout_ms;
		int least, most;
		long long least_ms;
	} cases[] = {{200, 1, 7, 150}, {15000, CLIENT_ENDINGS, CLIENT_ENDINGS, 4000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct client_options options = {.directory = raw_here.directory,
						       .who = "unit",
						       .timeout_ms = cases[i].timeout_ms};
		struct client *client = client_new(&options);
		char last[GPUSHARE_PATH_MAX + 8];
		pid_t pids[TOO_MANY];
		long long began_ms;
		int ended = 0;

		start_successors(pids, TOO_MANY, true);
		began_ms = raw_now_ms();
		client->request.which_verb = gpushare_Request_stat_tag;
		assert_true(client_call(client, 0) < 0); /* the error depends on timing */
		assert_in_range(raw_now_ms() - began_ms, cases[i].least_ms,
				cases[i].timeout_ms + 100 + raw_slack_ms());
		for (int at = 0; at < TOO_MANY; at++) {
			char path[GPUSHARE_PATH_MAX + 8];

			kill(pids[at], SIGKILL);
			waitpid(pids[at], NULL, 0);
			socket_of(at + 1, path);
			ended += access(path, F_OK) != 0;
			if (at + 1 < TOO_MANY)
				unlink(path);
		}
		assert_in_range(ended, cases[i].least, cases[i].most);
		socket_of(TOO_MANY, last);
		assert_int_equal(rename(last, raw_here.socket), 0);
		kill(raw_here.pid, SIGCONT);
		client_free(client);
	}
}

/* A registry that closes each connection refuses this client; the client fails early. */
static void one_that_refuses_is_not_asked_for_ever(void **state)
{
	const struct client_options options = {
	    .directory = raw_here.directory, .who = "unit", .timeout_ms = RAW_TIMEOUT_MS};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char path[GPUSHARE_PATH_MAX + 8];
	struct client *client = client_new(&options);
	long long began_ms;
	pid_t pid;

	set_aside(1);
	socket_of(0, path);
	pid = raw_fork();
	if (!pid) {
		int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
		if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 8) ||
		    rename(path, raw_here.socket))
			_exit(1);
		for (;;)
			close(accept(listener, NULL, NULL));
	}
	while (access(raw_here.socket, F_OK))
		raw_sleep_ms(1);
	began_ms = raw_now_ms();
	assert_int_equal(client_connect(client), GPUSHARE_E_NO_REGISTRY);
	assert_in_range(raw_now_ms() - began_ms, 0, RAW_TIMEOUT_MS / 5 + raw_slack_ms());
	client_free(client);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	socket_of(1, path);
	assert_int_equal(rename(path, raw_here.socket), 0);
	kill(raw_here.pid, SIGCONT);
}

UNIT_MAIN(RAW_TEST(who_leaves_before_the_greeting_holds_up_nobody),
	  RAW_TEST(registries_that_end_one_after_the_other),
	  RAW_TEST(registries_that_end_one_after_the_other_under_a_request),
	  RAW_TEST(what_ends_each_registry_is_not_asked_for_ever),
	  RAW_TEST(one_that_refuses_is_not_asked_for_ever))
