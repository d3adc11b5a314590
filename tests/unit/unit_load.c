/* SPDX-License-Identifier: MIT */
/* Whatever records there are, whole as far as their checksums go: what comes of them holds together. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fake_fdstore.h"
#include "restore.h"
#include "successor.h"

static uint64_t seed = 0x2545f4914f6cdd1d;

static uint32_t random_below(uint32_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % bound;
}

/* Few of each, so that they meet. */
static void random_key(uint8_t to[GPUSHARE_SESSION_KEY_SIZE])
{
	memset(to, (int)random_below(6), GPUSHARE_SESSION_KEY_SIZE);
}

static void random_name(char *to)
{
	static const char *const names[] = {"a", "b", "c", "d", "", "not valid", "e/f"};

	strcpy(to, names[random_below(7)]);
}

static gpushare_State random_peer(void)
{
	gpushare_State what = {.which_change = gpushare_State_peer_tag};
	struct process me;

	process_read(getpid(), getuid(), &me);
	random_key(what.change.peer.key);
	what.change.peer.pid = me.pid;
	what.change.peer.uid = me.uid;
	what.change.peer.started = me.started - !random_below(4); /* or it has ended */
	strcpy(what.change.peer.command, me.command);
	return what;
}

static gpushare_State random_stand(void)
{
	gpushare_State what = {.which_change = gpushare_State_stand_tag};
	gpushare_Stand *stand = &what.change.stand;
	request like = peer_share_of("x");

	random_key(stand->key);
	stand->has_buffer = random_below(20);
	stand->buffer = like.verb.share.buffer;
	random_name(stand->buffer.name);
	stand->buffer.generation = random_below(8);
	stand->buffer.attachers = random_below(3);
	if (random_below(2)) {
		stand->buffer.backing = GPUSHARE_BACKING_VMM;
		stand->buffer.flags = random_below(2) ? GPUSHARE_FLAG_KEEP : 0;
	}
	stand->nameless = !random_below(4);
	stand->deadline_boot_ns = random_below(2) ? (int64_t)(seed >> 2) : 0;
	stand->created_boot_ns = random_below(2) ? -(int64_t)(seed >> 2) : 0;
	return what;
}

static gpushare_State random_state(void)
{
	gpushare_State what = {0};

	switch (random_below(5)) {
	case 0:
	case 1:
		return random_peer();
	case 2:
	case 3:
		return random_stand();
	}
	what.which_change = gpushare_State_use_tag;
	random_key(what.change.use.key);
	random_name(what.change.use.name);
	what.change.use.generation = random_below(8);
	what.change.use.count = random_below(4) ? random_below(4) : UINT32_MAX;
	return what;
}

static void write_random(void)
{
	gpushare_State what = {.which_change = gpushare_State_begin_tag};
	struct records records;

	records_init(&records);
	records_open(&records, open(successor_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	assert_true(records_begin(&records));
	what.change.begin.version = RECORDS_VERSION;
	records_boot(what.change.begin.boot);
	for (uint32_t count = 1 + random_below(40); count > 0; count--) {
		unsigned int slot = 0;

		records_put(&records, &what, &slot);
		what = random_state();
	}
	records_commit(&records);
	records_close(&records, true);
}

/* Of one entry: how often the sessions have it attached. */
static uint32_t attachers_of(const struct entry *entry)
{
	uint32_t count = 0;

	for (struct session *session = peer_registry->sessions.by_id; session;
	     session = session->hh.next) {
		const struct attachment *attachment =
		    session_find_attachment(session, entry->info.name, entry->info.generation);

		if (attachment && !attachment->own)
			count += attachment->count;
	}
	return count;
}

static void assert_it_holds_together(void)
{
	size_t entries = 0, nameless = 0;
	uint64_t attachments = 0;
	const struct entry *entry;

	for (struct session *session = peer_registry->sessions.by_id; session;
	     session = session->hh.next) {
		assert_true(session->disconnected);
		assert_int_equal(session->peer.pid, getpid());
		for (struct attachment *each = session->attachments; each; each = each->next)
			attachments += each->count;
		DL_FOREACH(session->entries, entry)
		{
			assert_ptr_equal(entry->session, session);
			entries++;
		}
		DL_FOREACH(session->deferred, entry)
		{
			assert_ptr_equal(entry->session, session);
			assert_ptr_equal(
			    store_find_deferred(&peer_registry->store, entry->info.generation),
			    entry);
			nameless++;
		}
	}
	for (entry = buffer_next_kept(&peer_registry->state, NULL); entry;
	     entry = buffer_next_kept(&peer_registry->state, entry)) {
		assert_null(entry->session);
		assert_true(entry_is_kept(entry->info.flags));
		entries++;
	}
	assert_int_equal(entries, peer_registry->store.count);
	assert_int_equal(nameless, peer_registry->store.nameless);
	assert_true(attachments == peer_registry->sessions.attachments);
	for (entry = store_after(&peer_registry->store, ""); entry;
	     entry = store_after(&peer_registry->store, entry->info.name)) {
		assert_true(name_is_valid(entry->info.name));
		assert_ptr_equal(store_find(&peer_registry->store, entry->info.name), entry);
		assert_true(entry->info.attachers == attachers_of(entry));
		assert_true(peer_registry->generation.next >= entry->info.generation);
	}
}

static void random_records_do_no_harm(void **state)
{
	size_t names = 0;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		size_t count;

		registry_let_go(peer_registry, true);
		write_random();
		successor_start();
		assert_it_holds_together();
		count = peer_registry->store.count;
		names += count;
		successor_start(); /* what it wrote of that is the same */
		assert_it_holds_together();
		assert_int_equal(peer_registry->store.count, count);
	}
	assert_in_range(names, 500, 30000); /* else the files tested nothing */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(random_records_do_no_harm, successor_set_up,
					    successor_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
