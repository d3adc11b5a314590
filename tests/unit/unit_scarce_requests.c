/* SPDX-License-Identifier: MIT */
/* A registry without a socket, short of memory or chance at any call: a request is carried out whole or
 * not at all, it can be made again, and what others have stays theirs. */
#include "unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <poll.h>
#include <unistd.h>

#include "os/clock.h"
#include "descriptors.h"
#include "ordered.h"
#include "scarce.h"

static struct session *owner, *other;
static uint64_t a; /* the generation of what `owner` shares and `other` has attached */

static void begin(void)
{
	assert_int_equal(peer_set_up(NULL), 0);
	owner = peer_new(1, 11, "owner");
	other = peer_new(2, 12, "other");
	a = peer_share(owner, "a");
	assert_int_equal(peer_attach(other, "a"), GPUSHARE_OK);
}

static void end(void)
{
	registry_disconnect(peer_registry, other);
	registry_disconnect(peer_registry, owner);
	assert_int_equal(peer_registry->state.store.count, 0);
	assert_int_equal(peer_registry->state.users.total.held[LIMIT_attachments], 0);
	peer_tear_down(NULL);
}

/* `act` is refused for what there is none of, or done, whatever fails; and done where nothing does. */
static void sweep(int (*act)(void))
{
	SCARCE_EACH(nth)
	{
		int status;

		begin();
		scarce_begin(nth);
		status = act();
		if (!scarce_end())
			assert_int_equal(status, GPUSHARE_OK);
		if (status && status != GPUSHARE_E_NO_MEMORY && status != GPUSHARE_E_LIMIT)
			fail_msg("%s fails: status %d", scarce_what(), status);
		if (status && scarce_what())
			assert_int_equal(act(), GPUSHARE_OK);
		assert_int_equal(peer_attachers(owner, "a"), 1);
		assert_int_equal(peer_answer.body.lookup.buffer.generation, a);
		end();
	}
}

static int share_new(void)
{
	request what = raw_share("b");

	return peer_ask(other, &what);
}

static int attach_again(void)
{
	int status = peer_attach(owner, "a");

	if (!status) /* one attachment is looked for after all this */
		assert_int_equal(peer_detach(owner, "a", a), GPUSHARE_OK);
	return status;
}

static int attach_another(void)
{
	if (!store_find(&peer_registry->state.store, "b"))
		return share_new() ? GPUSHARE_E_NO_MEMORY : peer_attach(owner, "b");
	return peer_attach(owner, "b");
}

static int list_all(void)
{
	request what = {.which_verb = gpushare_Request_list_tag};
	int status = peer_ask(other, &what);

	if (!status)
		assert_int_equal(peer_answer.body.list.buffers_count, 1);
	return status;
}

static int ask_stat(void)
{
	request what = {.which_verb = gpushare_Request_stat_tag};
	int status = peer_ask(other, &what);

	if (!status)
		assert_int_equal(peer_answer.body.stat.attachments, 1);
	return status;
}

static int set_tag(void)
{
	request what = {.which_verb = gpushare_Request_tag_tag};

	strcpy(what.verb.tag.name, "a");
	what.verb.tag.generation = a;
	what.verb.tag.tags_count = 1;
	strcpy(what.verb.tag.tags[0].key, "dtype");
	strcpy(what.verb.tag.tags[0].value, "f16");
	return peer_ask(owner, &what);
}

static int publish_and_consume(void)
{
	int status = ordered_ask(owner, "a", a, ORDER_PUBLISHES);

	return status ? status : ordered_ask(other, "a", a, ORDER_CONSUMES);
}

static int free_into_limbo(void)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};
	uint64_t generation;
	int status;

	if (!store_find(&peer_registry->state.store, "b") && share_new())
		return GPUSHARE_E_NO_MEMORY;
	generation = store_find(&peer_registry->state.store, "b")->info.generation;
	if (peer_attach(owner, "b"))
		return GPUSHARE_E_NO_MEMORY;
	strcpy(what.verb.withdraw.name, "b");
	what.verb.withdraw.generation = generation;
	what.verb.withdraw.limbo = true;
	status = peer_ask(other, &what);
	/* short of memory it goes, as ever, and nothing is held for who has it attached */
	assert_null(store_find(&peer_registry->state.store, "b"));
	return status;
}

static void a_request_is_done_or_refused(void **state)
{
	(void)state;
	sweep(share_new);
	sweep(attach_again);
	sweep(attach_another);
	sweep(list_all);
	sweep(ask_stat);
	sweep(set_tag);
	sweep(publish_and_consume);
	sweep(free_into_limbo);
}

static void a_peer_is_let_in_or_not(void **state)
{
	struct process process = {.pid = 13, .uid = 1001, .started = 130};

	(void)state;
	SCARCE_EACH(nth)
	{
		struct session *session;

		begin();
		scarce_begin(nth);
		session = registry_connect(peer_registry, 3, &process);
		/* without a key it can't come back after a restart, but may stay */
		if (!scarce_end() || !strcmp(scarce_what(), "getrandom"))
			assert_non_null(session);
		else
			assert_null(session);
		assert_int_equal(peer_registry->state.users.total.held[LIMIT_connections],
				 session ? 3 : 2);
		if (session)
			registry_disconnect(peer_registry, session);
		end();
	}
}

/* What it brings is held by a record, or goes. */
static int share_and_attach(void)
{
	request what = raw_share("k");
	int status;

	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	memset(what.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	peer_goes = dup(STDERR_FILENO);
	status = peer_ask(owner, &what);
	return status ? status : peer_attach(other, "k");
}

static void a_descriptor_is_held_or_given_back(void **state)
{
	int open_before = descriptors_open();

	(void)state;
	SCARCE_EACH(nth)
	{
		int status;

		begin();
		scarce_begin(nth);
		status = share_and_attach();
		if (!scarce_end())
			assert_int_equal(status, GPUSHARE_OK);
		else if (status)
			assert_int_equal(status, GPUSHARE_E_NO_MEMORY);
		if (store_find(&peer_registry->state.store, "k"))
			assert_int_equal(peer_withdraw(owner, "k", 0), GPUSHARE_OK);
		end();
		/* what is given back is closed by another thread */
		for (int ms = 0; ms < 5000 && descriptors_open() != open_before; ms++)
			poll(NULL, 0, 1);
		assert_int_equal(descriptors_open(), open_before);
	}
}

/* Nobody is told half, and what could not be told leaves a gap in the numbers: so they know. */
static void a_watcher_hears_it_or_sees_the_gap(void **state)
{
	(void)state;
	SCARCE_EACH(nth)
	{
		gpushare_SubscribeReply page = {0};
		struct session *watcher;
		uint64_t serial;
		bool watches;
		int told = 0;

		begin();
		watcher = peer_new(9, 99, "watcher");
		scarce_begin(nth);
		watches = !events_enter(&peer_registry->events, watcher, 1);
		serial = peer_registry->events.serial;
		share_new();
		if (!scarce_end())
			assert_true(watches);
		if (watches)
			events_take(watcher->watcher, &page);
		for (pb_size_t i = 0; i < page.notices_count; i++) {
			told += page.notices[i].has_buffer;
			assert_true(page.notices[i].serial >= serial + !!page.notices[i].kind);
		}
		if (watches && store_find(&peer_registry->state.store, "b"))
			assert_int_equal(peer_registry->events.serial, serial + 1);
		if (!scarce_what())
			assert_int_equal(told, 1);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_request_is_done_or_refused),
	    cmocka_unit_test(a_peer_is_let_in_or_not),
	    cmocka_unit_test(a_descriptor_is_held_or_given_back),
	    cmocka_unit_test(a_watcher_hears_it_or_sees_the_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
