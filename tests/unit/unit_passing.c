/* SPDX-License-Identifier: MIT */
/* Descriptors beside requests and answers, without a socket. */
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "peer.h"

#define VAULT (&peer_registry->fdtable)

/* A record of a descriptor, which is returned. */
static int shared(struct session *session, const char *name)
{
	request what = peer_share_fd(name);
	int fd = peer_goes;

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return fd;
}

static void a_record_holds_its_descriptor(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	int fd = shared(owner, "x");

	(void)state;
	assert_true(fcntl(fd, F_GETFD) >= 0);
	assert_int_equal(VAULT->count, 1);
	assert_int_equal(peer_withdraw(owner, "x", 0), GPUSHARE_OK);
	assert_int_equal(VAULT->count, 0);
	assert_true(peer_is_closed(fd));
}

static void what_is_refused_goes(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	request what = peer_share_fd("taken");
	int fd = peer_goes;

	(void)state;
	peer_goes = -1;
	peer_share(owner, "taken");
	peer_goes = fd;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_EXISTS);
	assert_int_equal(VAULT->count, 0);
	assert_true(peer_is_closed(fd));
}

/* Its record may go while the descriptor is on its way to somebody. */
static void what_was_answered_is_held_until_it_is_sent(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	int fd = shared(owner, "x");
	request what = {.which_verb = gpushare_Request_attach_tag};
	struct passing passing = {.came = NULL};

	(void)state;
	strcpy(what.verb.attach.name, "x");
	peer_registry->passing = &passing;
	assert_int_equal(handle_request(peer_registry, other, &what, &peer_answer), GPUSHARE_OK);
	peer_registry->passing = NULL;
	assert_null(registry_disconnect(peer_registry, owner));
	assert_int_equal(peer_registry->store.count, 0);
	assert_true(passing.goes->fd == fd && fcntl(fd, F_GETFD) >= 0);
	fdtable_release(VAULT, passing.goes);
	assert_true(peer_is_closed(fd));
}

static void a_descriptors_record_has_no_handle(void **state)
{
	static const uint8_t zero[GPUSHARE_HANDLE_SIZE];
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	const gpushare_AttachReply *answer = &peer_answer.body.attach;
	int fd = shared(owner, "x");

	(void)state;
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_memory_equal(answer->handle, zero, sizeof(zero));
	assert_int_equal(peer_came, fd);
	assert_int_equal(answer->buffer.backing, GPUSHARE_BACKING_VMM);
	assert_false(answer->own);
	/* The owner's own mapping is one like any other. */
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK);
	assert_true(answer->own);
	assert_int_equal(peer_came, fd);
	assert_int_equal(peer_attachers(owner, "x"), 2);
	assert_int_equal(peer_detach(owner, "x", peer_answer.body.lookup.buffer.generation), 0);
	assert_int_equal(peer_attachers(owner, "x"), 1);
	/* And what travels by handle brings no descriptor. */
	peer_share(owner, "ipc");
	assert_int_equal(peer_attach(other, "ipc"), GPUSHARE_OK);
	assert_int_equal(peer_came, -1);
}

/* At registry.sock it says only where to ask, once it would be given, and nothing is counted. */
static void the_other_socket_is_named(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	request what = {.which_verb = gpushare_Request_attach_tag};
	uint64_t requests;

	(void)state;
	shared(owner, "x");
	strcpy(what.verb.attach.name, "x");
	requests = peer_registry->counts.requests;
	assert_int_equal(peer_ask_plain(other, &what), HANDLE_ELSEWHERE);
	assert_int_equal(peer_answer.status, GPUSHARE_OK);
	assert_int_equal(peer_answer.which_body, gpushare_Reply_attach_tag);
	assert_true(peer_answer.body.attach.at_fds && !peer_answer.body.attach.has_buffer);
	assert_int_equal(peer_registry->counts.requests, requests);
	assert_int_equal(peer_attachers(owner, "x"), 0);
	peer_registry->limits.of_user[LIMIT_attachments] = 0;
	assert_int_equal(peer_ask_plain(other, &what), GPUSHARE_E_LIMIT);
	/* One that waits for it hears the same. */
	peer_registry->limits.of_user[LIMIT_attachments] = 1;
	what.verb.attach.wait_ms = 100;
	assert_int_equal(peer_ask_plain(other, &what), HANDLE_ELSEWHERE);
	/* What has to have a descriptor with it or behind it is not done here. */
	what = peer_share_of("k");
	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	memset(what.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	assert_int_equal(peer_ask_plain(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("fds.sock");
	what = (request){.which_verb = gpushare_Request_order_tag};
	strcpy(what.verb.order.name, "x");
	what.verb.order.generation = store_find(&peer_registry->store, "x")->info.generation;
	assert_int_equal(peer_ask_plain(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("fds.sock");
	assert_null(peer_registry->orders);
	assert_null(store_find(&peer_registry->store, "k"));
}

static void a_share_brings_what_its_backing_wants(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	request what = peer_share_fd("x");
	int fd = peer_goes;

	(void)state;
	peer_goes = -1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("without its file descriptor");
	peer_goes = fd;
	what.verb.share.handle[0] = 1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("with a handle and with a file descriptor");
	what = peer_share_fd("x");
	what.verb.share.buffer.backing = GPUSHARE_BACKING_IPC;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	what = peer_share_fd("x");
	what.verb.share.buffer.backing = GPUSHARE_BACKING_IPC;
	what.verb.share.handle[0] = 1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("with a handle and with a file descriptor");
	assert_int_equal(peer_registry->store.count, 0);
	assert_int_equal(VAULT->count, 0);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_record_holds_its_descriptor),
	    with_registry(what_is_refused_goes),
	    with_registry(what_was_answered_is_held_until_it_is_sent),
	    with_registry(a_descriptors_record_has_no_handle),
	    with_registry(the_other_socket_is_named),
	    with_registry(a_share_brings_what_its_backing_wants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
