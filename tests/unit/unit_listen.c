/* SPDX-License-Identifier: MIT */
/* Listeners that went deaf, in whose place others were opened: they don't pile up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "listen.h"
#include "protocol.h"

#define AWAIT_MS 5000

static char folder[64], path[80];
static nng_socket server;
static struct probe silent; /* is never heard: every look finds the listener deaf */

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *argument)
{
	(void)argument;
	listen_note(pipe, event);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/s", folder);
	return !probe_open(&silent) || nng_rep0_open(&server) ||
	       nng_pipe_notify(server, NNG_PIPE_EV_ADD_PRE, on_pipe, NULL) ||
	       nng_pipe_notify(server, NNG_PIPE_EV_REM_POST, on_pipe, NULL) ||
	       listen_start(server, path);
}

static int tear_down(void **state)
{
	(void)state;
	nng_close(server);
	probe_close(&silent);
	return rmdir(folder); /* what it listened at is not there any more */
}

static void go_deaf(int times)
{
	for (int i = 0; i < times; i++) {
		silent.patience = PROBE_IDLE_LOOK;
		listen_hear(server, path, SP_REQ, &silent);
	}
}

/* What nng has closed it lets go of in a thread of its own. */
static int await_descriptors(int most)
{
	int left_ms = AWAIT_MS;

	while (descriptors_open() > most && left_ms-- > 0)
		nng_msleep(1);
	return descriptors_open();
}

static nng_socket client_new(void)
{
	nng_socket client;
	char url[sizeof(path) + 8];

	snprintf(url, sizeof(url), "ipc://%s", path);
	assert_int_equal(nng_req0_open(&client), 0);
	assert_int_equal(nng_dial(client, url, NULL, 0), 0);
	return client;
}

static void ask(nng_socket client)
{
	char word[8];
	size_t size = sizeof(word);

	assert_int_equal(nng_socket_set_ms(client, NNG_OPT_RECVTIMEO, AWAIT_MS), 0);
	assert_int_equal(nng_socket_set_ms(client, NNG_OPT_REQ_RESENDTIME, 10 * AWAIT_MS), 0);
	assert_int_equal(nng_socket_set_ms(server, NNG_OPT_RECVTIMEO, AWAIT_MS), 0);
	assert_int_equal(nng_send(client, "ask", 4, 0), 0);
	assert_int_equal(nng_recv(server, word, &size, 0), 0);
	assert_string_equal(word, "ask");
	assert_int_equal(nng_send(server, "yes", 4, 0), 0);
	size = sizeof(word);
	assert_int_equal(nng_recv(client, word, &size, 0), 0);
	assert_string_equal(word, "yes");
}

static void those_without_a_connection_are_closed(void **state)
{
	int before = descriptors_open();
	nng_socket client;

	(void)state;
	go_deaf(20);
	/* the last ones, and those of which a probe has just gone */
	assert_in_range(await_descriptors(before + 5), before, before + 5);
	client = client_new();
	ask(client);
	nng_close(client);
}

static void those_with_a_connection_stay(void **state)
{
	nng_socket client;
	int before;

	(void)state;
	go_deaf(1);
	client = client_new();
	go_deaf(1);
	before = descriptors_open();
	go_deaf(6);
	ask(client); /* over the connection that it has */
	/* One whose probe was seen to go late rests from then on, and is closed some looks later. */
	for (int looks = 0; looks < 20 && descriptors_open() > before + 2; looks++) {
		nng_msleep(20);
		go_deaf(1);
	}
	ask(client);
	assert_in_range(await_descriptors(before + 2), before, before + 2);
	nng_close(client);
	go_deaf(3);
	assert_in_range(await_descriptors(before), 0, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    T(those_without_a_connection_are_closed),
	    T(those_with_a_connection_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
