/* SPDX-License-Identifier: MIT */
/* The daemon is stopped during a request and continues later. The connection stays, and nothing
 * is left of a request whose caller gave up. */
#include "unit.h"

#include "base/monotonic.h"
#include "client/client_internal.h"
#include "raw_peer.h"
#include "stopped.h"

#define TIMEOUT_MS raw_limit_ms(200)

static struct client *client;
static int peer; /* a client in another process */
static int file;

static int set_up(void **state)
{
	const struct client_options options = {
	    .directory = raw_here.directory, .who = "unit", .timeout_ms = TIMEOUT_MS};

	raw_set_up(state);
	client = client_new(&options);
	peer = raw_peer(0, 0);
	file = memfd_create("unit", MFD_CLOEXEC);
	return client && file >= 0 && client_connect(client) == GPUSHARE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
	client = client_free(client);
	raw_peers_end();
	close(file);
	return raw_tear_down(state);
}

static int ask(request what, int goes)
{
	client->timeout_ms = RAW_TIMEOUT_MS;
	client->request = what;
	client->goes = goes;
	return client_call(client, 0);
}

/* Ask the stopped registry; the call must return at its timeout. */
static void ask_in_vain(request what, int goes)
{
	long long began_ms = raw_now_ms();

	client->timeout_ms = TIMEOUT_MS;
	client->request = what;
	client->goes = goes;
	assert_int_equal(client_call(client, 0), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - began_ms, TIMEOUT_MS, RAW_TIMEOUT_MS);
	assert_true(client_is_silent(client));
}

static void stop(void)
{
	assert_true(stopped(raw_here.pid));
}

static void go_on(void)
{
	kill(raw_here.pid, SIGCONT);
}

static request stat_of(void)
{
	return (request){.which_verb = gpushare_Request_stat_tag};
}

/* The first connection still works, without a resync. */
static void assert_answers(void)
{
	assert_int_equal(ask(stat_of(), -1), GPUSHARE_OK);
	assert_true(!client_is_silent(client) && client->connections == 1 && !client->fresh);
}

static request mapped(const char *name, bool keep, bool adopt)
{
	request what = raw_share(name);

	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	what.verb.share.buffer.flags = keep ? GPUSHARE_FLAG_KEEP : 0;
	what.verb.share.adopt = adopt;
	memset(what.verb.share.handle, 0, sizeof(what.verb.share.handle));
	return what;
}

static int looked_up(const char *name)
{
	return raw_say(peer, raw_lookup(name, 0));
}

static void no_name_is_left(void **state)
{
	const request shares[] = {raw_share("w"), mapped("w", false, false),
				  mapped("w", true, false)};

	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		int goes = i ? file : -1;

		stop();
		ask_in_vain(shares[i], goes);
		ask_in_vain(shares[i], goes); /* must not be sent twice */
		go_on();
		assert_answers();
		assert_int_equal(looked_up("w"), GPUSHARE_E_NOT_FOUND);
		assert_int_equal(ask(shares[i], goes), GPUSHARE_OK);
		assert_int_equal(ask(raw_withdraw("w", client->reply.body.share.generation), -1),
				 GPUSHARE_OK);
		raw_say(peer, raw_withdraw("w", 0));
	}
}

static void what_is_refused_takes_nothing_along(void **state)
{
	assert_int_equal(raw_say(peer, raw_share("w")), GPUSHARE_OK);
	stop();
	ask_in_vain(raw_share("w"), -1);
	go_on();
	assert_answers();
	assert_int_equal(looked_up("w"), GPUSHARE_OK);
}

/* The kept buffer has no owner again and still has its memory. */
static void what_is_adopted_is_left_as_it_was(void **state)
{
	uint64_t generation;

	assert_int_equal(ask(mapped("w", true, false), file), GPUSHARE_OK);
	generation = client->reply.body.share.generation;
	assert_int_equal(ask(raw_withdraw("w", generation), -1), GPUSHARE_OK);
	stop();
	ask_in_vain(mapped("w", true, true), -1);
	go_on();
	assert_answers();
	assert_int_equal(looked_up("w"), GPUSHARE_OK);
	assert_true(raw_answer.body.lookup.buffer.owner_gone);
	assert_int_equal(raw_answer.body.lookup.buffer.generation, generation);
}

static void nothing_is_attached_that_nobody_has(void **state)
{
	assert_int_equal(raw_say(peer, raw_share("ipc")), GPUSHARE_OK);
	assert_int_equal(raw_fds_put(peer, "mapped", 0), GPUSHARE_OK);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "mapped" : "ipc";

		assert_int_equal(ask(raw_attach(name, 0), -1), GPUSHARE_OK);
		stop();
		ask_in_vain(raw_attach(name, 0), -1);
		go_on();
		assert_answers();
		assert_int_equal(looked_up(name), GPUSHARE_OK);
		assert_int_equal(raw_answer.body.lookup.buffer.attachers, 1);
	}
}

/* The wait has timed out. A name that is shared afterwards must not be attached. */
static void nor_by_one_that_waited(void **state)
{
	client->timeout_ms = TIMEOUT_MS;
	client->request = raw_attach("w", 60000);
	assert_int_equal(client_call(client, 0), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(raw_say(peer, raw_share("w")), GPUSHARE_OK);
	assert_answers();
	assert_int_equal(looked_up("w"), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.attachers, 0);
}

static request detach(const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_detach_tag};

	strcpy(what.verb.detach.name, name);
	what.verb.detach.generation = generation;
	return what;
}

/* A detach counts once, whether or not it was sent before the timeout. */
static void what_is_given_back_goes_once(void **state)
{
	uint64_t generation;

	assert_int_equal(raw_say(peer, raw_share("w")), GPUSHARE_OK);
	generation = raw_answer.body.share.generation;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(raw_attach("w", 0), -1), GPUSHARE_OK);
	stop();
	ask_in_vain(detach("w", generation), -1);
	assert_false(client->fresh);
	ask_in_vain(detach("w", generation), -1);
	assert_true(client->fresh); /* not sent, so a resync is due */
	client->fresh = client->anew = false;
	go_on();
	assert_answers();
	assert_int_equal(looked_up("w"), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.attachers, 2);
}

/* The registry was stopped before it greeted. The next call continues the same handshake. */
static void the_hello_is_said_once(void **state)
{
	int fd;

	client_disconnect(client);
	stop();
	ask_in_vain(stat_of(), -1);
	fd = client->socket.fd;
	ask_in_vain(stat_of(), -1);
	assert_true(fd >= 0 && client->socket.fd == fd);
	go_on();
	assert_int_equal(ask(stat_of(), -1), GPUSHARE_OK);
	assert_true(client->socket.fd == fd && client->connections == 2);
}

static void one_that_is_killed_then(void **state)
{
	stop();
	ask_in_vain(raw_share("w"), -1);
	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS);
	raw_daemon_start(&raw_here, NULL);
	assert_int_equal(ask(stat_of(), -1), GPUSHARE_OK);
	assert_true(!client_is_silent(client) && client->connections == 2);
}

#define late(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(late(no_name_is_left), late(what_is_refused_takes_nothing_along),
	  late(what_is_adopted_is_left_as_it_was), late(nothing_is_attached_that_nobody_has),
	  late(nor_by_one_that_waited), late(what_is_given_back_goes_once),
	  late(the_hello_is_said_once), late(one_that_is_killed_then))
