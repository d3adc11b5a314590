/* SPDX-License-Identifier: MIT */
/* What a registry finds of a predecessor that was killed: names and attachments of the living. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "restore.h"
#include "successor.h"

#define KEEP GPUSHARE_FLAG_KEEP

static const char *state_path(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/" RECORDS_FILE, successor_folder);
	return path;
}

static void what_the_living_have_is_there_at_once(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other);
	uint64_t generation = peer_share(owner, "x");
	record before;
	request what;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK); /* not an attacher */
	before = *successor_seen(owner, "x");
	for (int again = 0; again < 3; again++) {
		successor_start();
		assert_int_equal(peer_registry->state.sessions.disconnected, 2);
		assert_int_equal(peer_registry->state.sessions.attachments, 3);
		a = successor_connect(other);
		assert_int_equal(successor_seen(a, "x")->attachers, 2);
		assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
		assert_int_equal(peer_answer.body.attach.handle[63], 0xab);
		assert_int_equal(peer_answer.body.attach.buffer.generation, generation);
		assert_int_equal(peer_answer.body.attach.buffer.created_unix_ns,
				 before.created_unix_ns);
		assert_string_equal(peer_answer.body.attach.buffer.owner_command,
				    before.owner_command);
		assert_int_equal(peer_answer.body.attach.buffer.owner_pid, getpid());
		assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_OK);
		assert_int_equal(peer_share(a, "y") > generation, true);
		assert_int_equal(peer_withdraw(a, "y", peer_answer.body.share.generation), 0);
	}
	what = peer_share_of("x"); /* the name is taken */
	assert_int_equal(peer_ask(a, &what), GPUSHARE_E_EXISTS);
	successor_end(other);
}

static void a_dead_owners_names_are_gone(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(getpid());
	char said[64];

	(void)state;
	peer_share(owner, "x");
	peer_share(a, "y");
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(owner, "y"), GPUSHARE_OK);
	successor_end(other);
	successor_start();
	assert_int_equal(peer_registry->state.sessions.disconnected, 1);
	a = successor_connect(getpid());
	assert_int_equal(peer_lookup(a, "x", 0), GPUSHARE_E_NOT_FOUND);
	snprintf(said, sizeof(said), "\"x\" is gone: pid %d (", other);
	peer_assert_sentence(said);
	peer_assert_sentence("exited 0 s ago");
	assert_int_equal(successor_seen(a, "y")->attachers, 0);
	assert_int_equal(peer_registry->state.sessions.attachments, 1); /* of what has gone */
}

static void a_pid_alone_is_nobody(void **state)
{
	struct session *owner = successor_connect(getpid()), *unseen = successor_connect(getpid());

	(void)state;
	owner->peer.started--;
	unseen->peer.pid = 0;
	peer_share(owner, "x");
	peer_share(unseen, "y");
	successor_start();
	assert_int_equal(peer_registry->state.store.count, 0);
	assert_int_equal(peer_registry->state.sessions.count, 0);
}

static void what_has_ended_stays_so(void **state)
{
	pid_t other = successor_process();
	struct session *a = successor_connect(getpid()), *b = successor_connect(other);
	uint64_t x = peer_share(a, "x"), y = peer_share(a, "y");

	(void)state;
	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "y"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "y"), GPUSHARE_OK);
	assert_int_equal(peer_detach(b, "x", x), GPUSHARE_OK);
	assert_int_equal(peer_detach(b, "y", y), GPUSHARE_OK);
	peer_share(b, "z");
	assert_int_equal(peer_withdraw(a, "x", x), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(a, "z", 0), GPUSHARE_OK); /* unlinked */
	successor_start();
	assert_int_equal(peer_registry->state.store.count, 1);
	assert_int_equal(peer_registry->state.sessions.attachments, 1);
	a = successor_connect(getpid());
	assert_int_equal(successor_seen(a, "y")->attachers, 1);
	registry_disconnect(peer_registry, a);
	/* A connection that ended before its registry did is no disconnected. */
	a = successor_connect(getpid());
	peer_share(a, "w");
	registry_disconnect(peer_registry, a);
	successor_start();
	assert_int_equal(peer_registry->state.sessions.disconnected, 2);
	assert_int_equal(peer_registry->state.store.count, 1);
	successor_end(other);
}

/* Change the State of the file that tells of what boot it is. */
static void write_begin(uint32_t version, const char *boot)
{
	gpushare_State begin = {.which_change = gpushare_State_header_tag};
	uint8_t frame[RECORDS_FRAME_MAX];
	size_t size;
	int file = open(state_path(), O_RDWR | O_CLOEXEC);

	begin.change.header.version = version;
	begin.change.header.since = peer_registry->state.since;
	strcpy(begin.change.header.boot, boot);
	begin.change.header.pid_namespace = peer_registry->pid_namespace;
	size = records_frame(&begin, 1, frame);
	assert_int_equal(
	    pwrite(file, frame, size, (off_t)(peer_registry->record_slot - 1) * RECORDS_UNIT),
	    size);
	close(file);
}

static void another_boot_or_version_is_not_heeded(void **state)
{
	char boot[sizeof(((gpushare_Header *)0)->boot)];

	(void)state;
	records_boot(boot);
	assert_int_equal(strlen(boot), 36);
	for (int which = 0; which < 3; which++) {
		peer_share(successor_connect(getpid()), "x");
		if (which == 0)
			write_begin(RECORDS_VERSION, boot);
		else if (which == 1)
			write_begin(RECORDS_VERSION + 1, boot);
		else
			write_begin(RECORDS_VERSION, "01234567-0123-0123-0123-0123456789ab");
		successor_start();
		assert_int_equal(peer_registry->state.store.count, which == 0);
		if (which == 0)
			assert_int_equal(peer_withdraw(successor_connect(getpid()), "x", 0), 0);
	}
}

static ino_t inode_of(const struct entry *entry)
{
	struct stat is;

	assert_int_equal(fstat(entry->held->fd, &is), 0);
	return is.st_ino;
}

static void a_descriptor_comes_out_of_the_store(void **state)
{
	struct session *owner = successor_connect(getpid());
	request what = successor_share("x", 0);
	ino_t inode;

	(void)state;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	inode = inode_of(store_find(&peer_registry->state.store, "x"));
	what = successor_share("y", 0);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(fake_fdstore_count(), 2);
	assert_int_equal(peer_withdraw(owner, "y", 0), GPUSHARE_OK);
	assert_int_equal(fake_fdstore_count(), 1);
	successor_start();
	assert_int_equal(inode_of(store_find(&peer_registry->state.store, "x")), inode);
	assert_int_equal(peer_registry->fdtable.count, 1);
	owner = successor_connect(getpid());
	assert_false(successor_seen(owner, "x")->missing);
	assert_int_equal(successor_seen(owner, "x")->address, 0x7f0000001000);
	assert_int_equal(peer_withdraw(owner, "x", 0), GPUSHARE_OK);
	assert_int_equal(fake_fdstore_count(), 0);
}

static void what_is_kept_is_kept_on(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(other), *a;
	request what = successor_share("short", KEEP);
	int64_t deadline;
	uint64_t kept;

	(void)state;
	what.verb.share.buffer.ttl_s = 50;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	what = successor_share("long", KEEP);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	what = successor_share("gone", 0);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	registry_disconnect(peer_registry, owner);
	deadline = store_find(&peer_registry->state.store, "short")->deadline_ns;
	kept = peer_registry->state.users.held[LIMIT_kept_bytes];
	successor_start();
	assert_int_equal(peer_registry->state.sessions.count, 0);
	assert_int_equal(peer_registry->state.store.count, 2);
	assert_int_equal(peer_registry->state.users.held[LIMIT_kept_bytes], kept);
	assert_true(labs(store_find(&peer_registry->state.store, "short")->deadline_ns - deadline) <
		    NS_PER_S / 10);
	a = successor_connect(getpid());
	assert_true(successor_seen(a, "long")->owner_gone);
	assert_int_equal(successor_seen(a, "long")->owner_pid, other);
	assert_int_equal(peer_attach(a, "long"), GPUSHARE_OK);
	store_find(&peer_registry->state.store, "short")->deadline_ns = clock_ns() - 1;
	assert_int_equal(registry_expire(peer_registry, clock_ns()), INT64_MAX);
	assert_int_equal(peer_registry->state.store.count, 1);
	successor_start();
	assert_int_equal(peer_registry->state.store.count, 1);
	successor_end(other);
}

static void an_owner_that_dies_meanwhile_leaves_what_is_kept(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(other);
	request what = successor_share("x", KEEP);
	int64_t left;

	(void)state;
	what.verb.share.buffer.ttl_s = 50;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	successor_end(other);
	successor_start();
	assert_non_null(peer_registry->state.kept.root);
	left = buffer_next_kept(&peer_registry->state, NULL)->deadline_ns - clock_ns();
	assert_in_range(left, 49 * NS_PER_S, 50 * NS_PER_S);
	assert_true(successor_seen(successor_connect(getpid()), "x")->owner_gone);
	assert_int_equal(fake_fdstore_count(), 1);
}

static off_t state_size(void)
{
	struct stat is;

	assert_int_equal(stat(state_path(), &is), 0);
	return is.st_size;
}

static bool count_one(void *context, const gpushare_State *what, unsigned int slot)
{
	size_t *count = context;

	(void)slot;
	*count += what->which_change != gpushare_State_header_tag;
	return true;
}

/* How many stand in the file, besides what holds for all. */
static size_t records_there(void)
{
	struct records there;
	size_t count = 0;

	records_init(&there);
	records_open(&there, open(successor_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	assert_true(records_read(&there, count_one, &count));
	records_close(&there, true);
	return count;
}

static void it_grows_by_what_stands_alone(void **state)
{
	struct session *a = successor_connect(getpid());
	off_t size;

	(void)state;
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "stays%d", i);
		peer_share(a, name);
	}
	peer_withdraw(a, "x", peer_share(a, "x"));
	size = state_size();
	for (int i = 0; i < 20000; i++)
		peer_withdraw(a, "x", peer_share(a, "x"));
	assert_int_equal(state_size(), size);
	successor_start();
	assert_int_equal(peer_registry->state.store.count, 100);
	assert_in_range(state_size(), size, size + RECORDS_UNITS_MAX * RECORDS_UNIT);
	assert_int_equal(records_there(), 100 + 1);
}

/* What stands is what the file holds, however it came about. */
static void nothing_stays_behind(void **state)
{
	pid_t other = successor_process();
	struct session *a = successor_connect(getpid()), *b = successor_connect(other);
	request what;

	(void)state;
	for (int i = 0; i < 50; i++) {
		peer_share(a, "x");
		assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
		assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
		what = successor_share("kept", KEEP);
		assert_int_equal(peer_ask(b, &what), GPUSHARE_OK);
		registry_disconnect(peer_registry, b);
		b = successor_connect(other);
		what = successor_share("kept", KEEP);
		assert_int_equal(peer_ask(b, &what), GPUSHARE_OK);
		assert_int_equal(peer_withdraw(a, "kept", 0), GPUSHARE_OK);
		assert_int_equal(peer_withdraw(a, "x", 0), GPUSHARE_OK);
	}
	registry_disconnect(peer_registry, a);
	registry_disconnect(peer_registry, b);
	assert_int_equal(records_there(), 0);
	successor_end(other);
}

static void a_full_disk_is_survived(void **state)
{
	struct session *a = successor_connect(getpid());
	struct rlimit before, small;

	(void)state;
	peer_share(a, "x");
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){(rlim_t)state_size(), before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	peer_share(a, "y");
	peer_share(a, "z");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_not_equal(access(state_path(), F_OK), 0);
	peer_share(a, "w"); /* too soon to try again */
	assert_int_not_equal(access(state_path(), F_OK), 0);
	peer_registry->records.retry_ns = 1;
	assert_int_equal(peer_withdraw(a, "w", 0), GPUSHARE_OK);
	state_size();
	successor_start();
	assert_int_equal(peer_registry->state.store.count, 3);
}

static void it_leaves_a_file_where_something_is_shared(void **state)
{
	struct session *a = successor_connect(getpid());
	uint64_t x = peer_share(a, "x");
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];

	(void)state;
	memcpy(key, a->key, sizeof(key));
	restore_leave(peer_registry);
	assert_true(peer_registry->leaving);
	assert_int_equal(access(state_path(), F_OK), 0);
	successor_start();
	a = successor_resume(getpid(), key);
	assert_int_equal(peer_withdraw(a, "x", 0), GPUSHARE_OK);
	restore_leave(peer_registry); /* its owner shares it still, for all that he knows */
	assert_int_equal(access(state_path(), F_OK), 0);
	successor_start();
	a = successor_resume(getpid(), key);
	assert_int_equal(peer_withdraw(a, "x", x), GPUSHARE_OK);
	restore_leave(peer_registry);
	assert_int_not_equal(access(state_path(), F_OK), 0);
}

#define with_registry(test) \
	cmocka_unit_test_setup_teardown(test, successor_set_up, successor_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(what_the_living_have_is_there_at_once),
	    with_registry(a_dead_owners_names_are_gone),
	    with_registry(a_pid_alone_is_nobody),
	    with_registry(what_has_ended_stays_so),
	    with_registry(another_boot_or_version_is_not_heeded),
	    with_registry(a_descriptor_comes_out_of_the_store),
	    with_registry(what_is_kept_is_kept_on),
	    with_registry(an_owner_that_dies_meanwhile_leaves_what_is_kept),
	    with_registry(it_grows_by_what_stands_alone),
	    with_registry(nothing_stays_behind),
	    with_registry(a_full_disk_is_survived),
	    with_registry(it_leaves_a_file_where_something_is_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
