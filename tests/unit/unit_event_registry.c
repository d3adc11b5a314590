/* SPDX-License-Identifier: MIT */
/* Events in the registry: what may be shared as one, who gets which handle, lists, limbo, restarts. */
#include "unit.h"

#include <unistd.h>

#include "successor.h"

#define HANDLE_BYTE 0x5e

static request event_of(const char *name)
{
	request what = peer_share_of(name);
	gpushare_Share *share = &what.verb.share;

	share->buffer.size = share->buffer.base_offset = share->buffer.base_size = 0;
	share->buffer.backing = GPUSHARE_BACKING_EVENT;
	memset(share->handle, HANDLE_BYTE, sizeof(share->handle));
	return what;
}

static uint64_t share_event(struct session *session, const char *name)
{
	request what = event_of(name);

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.share.generation;
}

static int open_event(struct session *session, const char *name)
{
	request what = {.which_verb = gpushare_Request_attach_tag, .verb.attach.event = true};

	strcpy(what.verb.attach.name, name);
	return peer_ask(session, &what);
}

static int look(struct session *session, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_lookup_tag};

	strcpy(what.verb.lookup.name, name);
	what.verb.lookup.generation = generation;
	what.verb.lookup.wait_ms = 60000; /* which it never does */
	return peer_ask(session, &what);
}

static void refused(const request *what, int status, const char *words)
{
	assert_int_equal(peer_ask(peer_new(99, 990, "bad"), what), status);
	peer_assert_sentence(words);
	registry_disconnect(peer_registry, session_find(&peer_registry->sessions, 99));
}

static void test_what_is_none(void **state)
{
	request what = event_of("e");

	(void)state;
	what.verb.share.buffer.size = 1;
	refused(&what, GPUSHARE_E_INVALID, "has bytes");
	what = event_of("e");
	what.verb.share.buffer.base_size = 512;
	refused(&what, GPUSHARE_E_INVALID, "has bytes");
	what = event_of("e");
	what.verb.share.buffer.base_offset = 1;
	refused(&what, GPUSHARE_E_INVALID, "has bytes");
	what = event_of("e");
	what.verb.share.buffer.backing = GPUSHARE_BACKING_IPC;
	refused(&what, GPUSHARE_E_INVALID, "has no bytes");
	what = event_of("e");
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	refused(&what, GPUSHARE_E_INVALID, "can't be kept");
	what = event_of("e");
	memset(what.verb.share.handle, 0, sizeof(what.verb.share.handle));
	refused(&what, GPUSHARE_E_INVALID, "without a handle");
	peer_goes = dup(0);
	refused(&what, GPUSHARE_E_INVALID, "without a handle");
	what = event_of("e");
	memset(what.verb.share.buffer.device_uuid, 0, sizeof(what.verb.share.buffer.device_uuid));
	refused(&what, GPUSHARE_E_INVALID, "names no GPU");
	assert_int_equal(peer_registry->store.count, 0);
}

/* Whoever asks for the one is not given the other's handle. */
static void test_kinds(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	const gpushare_AttachReply *got = &peer_answer.body.attach;

	(void)state;
	share_event(owner, "e");
	peer_share(owner, "b");
	assert_int_equal(peer_attach(other, "e"), GPUSHARE_E_INVALID);
	peer_assert_sentence("gpushare_event_open()");
	assert_int_equal(peer_answer.which_body, 0);
	assert_int_equal(open_event(other, "b"), GPUSHARE_E_INVALID);
	peer_assert_sentence("gpushare_attach()");
	assert_int_equal(peer_answer.which_body, 0);
	assert_int_equal(peer_attachers(other, "e") + peer_attachers(other, "b"), 0);
	assert_int_equal(open_event(other, "e"), GPUSHARE_OK);
	assert_int_equal(got->handle[63], HANDLE_BYTE);
	assert_false(got->own);
	assert_int_equal(got->buffer.address, 0); /* a CUevent, which is nothing elsewhere */
	assert_int_equal(open_event(owner, "e"), GPUSHARE_OK);
	assert_true(got->own);
	assert_int_equal(got->buffer.address, 0x7f0000001000);
	assert_int_equal(open_event(other, "nothing"), GPUSHARE_E_NOT_FOUND);
}

static void assert_lists(struct session *session, bool events, bool limbo, const char *name)
{
	request what = {.which_verb = gpushare_Request_list_tag};
	const gpushare_ListReply *page = &peer_answer.body.list;

	what.verb.list.events = events;
	what.verb.list.limbo = limbo;
	what.verb.list.limit = 1;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(page->buffers_count, name ? 1 : 0);
	assert_false(page->more);
	if (name)
		assert_string_equal(page->buffers[0].name, name);
}

static int leave(struct session *session, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(what.verb.withdraw.name, name);
	what.verb.withdraw.generation = generation;
	what.verb.withdraw.limbo = true;
	return peer_ask(session, &what);
}

static void test_lists(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	uint64_t generation = share_event(owner, "e");

	(void)state;
	peer_share(owner, "b");
	assert_lists(other, false, false, "b");
	assert_lists(other, true, false, "e");
	assert_int_equal(open_event(other, "e"), GPUSHARE_OK);
	assert_int_equal(leave(owner, "e", generation), GPUSHARE_OK);
	assert_true(peer_answer.body.withdraw.limbo);
	assert_lists(other, true, false, NULL);
	assert_lists(other, false, true, NULL);
	assert_lists(other, true, true, "e");
}

/* As long as somebody can still do something about it, it has not gone. */
static void test_what_was_had(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	uint64_t one = share_event(owner, "one"), two = share_event(owner, "two");

	(void)state;
	assert_int_equal(open_event(other, "one"), GPUSHARE_OK);
	assert_int_equal(open_event(other, "two"), GPUSHARE_OK);
	assert_int_equal(look(other, "one", one), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(other, "one", 0), GPUSHARE_OK); /* unlinked */
	assert_int_equal(peer_lookup(other, "one", 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(look(other, "one", one), GPUSHARE_OK);
	assert_true(peer_answer.body.lookup.has_buffer);
	assert_int_equal(leave(owner, "two", two), GPUSHARE_OK);
	assert_int_equal(look(other, "two", two), GPUSHARE_OK);
	peer_share(other, "two");
	registry_disconnect(peer_registry, owner);
	assert_int_equal(look(other, "one", one), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("unlinked");
	assert_int_equal(look(other, "two", two), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("another buffer now");
}

/* With its handle, for those who open it then; and the owner that is gone takes it along. */
static void test_restart(void **state)
{
	pid_t first = successor_process(), second = successor_process();
	struct session *owner = successor_connect(first), *other;
	uint64_t generation = share_event(owner, "e");

	(void)state;
	successor_start();
	other = successor_connect(second);
	assert_int_equal(open_event(other, "e"), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.attach.handle[63], HANDLE_BYTE);
	assert_int_equal(look(other, "e", generation), GPUSHARE_OK);
	successor_end(first);
	successor_start();
	other = successor_connect(second);
	assert_int_equal(look(other, "e", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(open_event(other, "e"), GPUSHARE_E_NOT_FOUND);
	/* what was before all that it knows of may stand still */
	peer_registry->since = generation;
	assert_int_equal(look(other, "e", generation), GPUSHARE_OK);
	assert_false(peer_answer.body.lookup.has_buffer);
	successor_end(second);
}

#define peered(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    peered(test_what_is_none),
	    peered(test_kinds),
	    peered(test_lists),
	    peered(test_what_was_had),
	    cmocka_unit_test_setup_teardown(test_restart, successor_set_up, successor_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
