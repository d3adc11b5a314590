/* SPDX-License-Identifier: MIT */
/* What the registry remembers, without its clients: names, sessions that are ending, kept buffers,
 * and the limits of one user and of all together. */
#include "unit.h"

#include "os/clock.h"
#include "state/buffer.h"

static struct state all;
static struct user *one, *other;
static struct session *owner, *attacher;

static void ignore(void *context, const struct change *change)
{
}

static struct session *session_of(uint32_t id, struct user *user)
{
	const struct process peer = {.pid = (int32_t)id, .uid = user->uid, .started = 1};
	struct session *session = session_new(&all.sessions, id, &peer, user);

	memset(session->key, (int)id, sizeof(session->key));
	return session;
}

static int set_up(void **state)
{
	state_init(&all);
	all.observe = ignore;
	one = user_of(&all.users, 1);
	other = user_of(&all.users, 2);
	owner = session_of(1, one);
	attacher = session_of(2, other);
	return 0;
}

static int tear_down(void **state)
{
	struct user *user, *after;
	struct session *session;
	struct entry *kept;

	while ((session = all.sessions.by_id)) {
		if (!session->ending)
			state_leave(&all, session);
		while (state_end_one(&all, session))
			;
		DL_DELETE(all.ending, session);
		session_free(&all.sessions, session);
	}
	while ((kept = buffer_next_kept(&all, NULL)))
		buffer_remove(&all, kept, DEPARTURE_EXPIRED);
	HASH_ITER (hh, all.users.by_uid, user, after) {
		HASH_DEL(all.users.by_uid, user);
		free(user);
	}
	return 0;
}

static record info_of(const char *name, uint32_t flags)
{
	record info = {.backing = GPUSHARE_BACKING_VMM, .size = 8, .base_size = 8, .flags = flags};

	strcpy(info.name, name);
	return info;
}

static struct entry *share(struct session *session, const char *name, uint32_t flags)
{
	static const uint8_t handle[GPUSHARE_HANDLE_SIZE];
	const record info = info_of(name, flags);

	return buffer_add(&all, session, &info, handle, 0, NULL);
}

static bool has(const char *name)
{
	return store_find(&all.store, name);
}

static void nobody_finds_a_session_that_is_ending(void **state)
{
	assert_ptr_equal(session_find(&all.sessions, 1), owner);
	assert_ptr_equal(session_find_key(&all.sessions, owner->key), owner);
	share(owner, "a", 0);
	share(owner, "b", 0);
	share(owner, "stays", GPUSHARE_FLAG_KEEP);
	share(attacher, "other", 0);
	state_leave(&all, owner);
	assert_null(session_find(&all.sessions, 1));
	assert_null(session_find_key(&all.sessions, owner->key));
	state_end_name(&all, "b");
	state_end_name(&all, "other");
	assert_true(has("a") && !has("b") && has("other"));
	state_end_name(&all, "stays");
	state_end_name(&all, "stays"); /* kept now, without a session */
	assert_true(has("stays"));
}

static void what_ending_sessions_have_makes_room(void **state)
{
	all.users.limits.of_user[LIMIT_names] = 2;
	share(owner, "a", 0);
	share(owner, "b", 0);
	assert_int_equal(state_limit(&all, one, LIMIT_names, 1), 1 + LIMIT_KINDS + LIMIT_names);
	state_leave(&all, owner);
	assert_int_equal(state_limit(&all, one, LIMIT_names, 1), 0);
	assert_true(!has("a") && has("b"));
	/* for another user only if it is a limit of all users together */
	share(attacher, "c", 0);
	share(attacher, "d", 0);
	assert_int_equal(state_limit(&all, other, LIMIT_names, 1), 1 + LIMIT_KINDS + LIMIT_names);
	assert_true(has("b"));
	all.users.limits.of_user[LIMIT_names] = 9;
	all.users.limits.of_all[LIMIT_names] = 3;
	assert_int_equal(state_limit(&all, other, LIMIT_names, 1), 0);
	assert_false(has("b"));
	assert_int_equal(state_limit(&all, other, LIMIT_names, 2), 1 + LIMIT_names);
	assert_int_equal(all.users.total.limits[LIMIT_names], 1);
}

static void sockets_are_limited_for_one_user_and_for_all(void **state)
{
	struct limits *limits = &all.users.limits;

	limits->spare = 1;
	limits->of_user[LIMIT_connections] = 2;
	limits->of_all[LIMIT_connections] = 3;
	for (int i = 0; i < 4; i++)
		assert_true(user_opens(one));
	assert_false(user_opens(one)); /* its limit, and twice the spare ones */
	assert_true(user_is_crowded(one));
	assert_false(user_is_crowded(other));
	assert_true(user_opens(other));
	assert_true(user_is_crowded(other)); /* all together have a spare one more than they may */
	assert_false(user_opens(other));
	limits->of_all[LIMIT_connections] = 9;
	assert_false(user_is_crowded(other));
	limits->together = 5;
	assert_true(user_is_crowded(other));
	assert_false(user_opens(other));
	user_closes(one);
	assert_true(user_opens(other));
}

static void a_name_that_was_lost_may_come_back(void **state)
{
	struct entry *entry = share(owner, "w", 0);
	uint64_t generation = entry->info.generation;

	buffer_remove(&all, entry, DEPARTURE_LOST);
	assert_false(buffer_has_gone(&all, "w", generation));
	buffer_remove(&all, share(owner, "w", 0), DEPARTURE_WITHDRAWN);
	assert_true(buffer_has_gone(&all, "w", generation));
	assert_int_equal(tombstone_find(&all, "w")->how, DEPARTURE_WITHDRAWN);
	all.now_ns += (LIMIT_TOMBSTONE_S + 1) * NS_PER_S;
	assert_null(tombstone_find(&all, "w"));
}

static void the_next_to_expire_is_the_first(void **state)
{
	static const uint32_t ttls[] = {5, 3, 9, 0};

	for (size_t i = 0; i < sizeof(ttls) / sizeof(*ttls); i++) {
		struct entry *entry =
		    share(owner, (const char[]){(char)('a' + i), '\0'}, GPUSHARE_FLAG_KEEP);

		entry->info.ttl_s = ttls[i];
		assert_true(buffer_part(&all, entry, DEPARTURE_OWNER_GONE));
	}
	for (const char *names = "bacd"; *names; names++) {
		struct entry *entry = buffer_next_kept(&all, NULL);

		assert_int_equal(*entry->name, *names);
		buffer_remove(&all, entry, DEPARTURE_EXPIRED);
	}
}

/* Attachments that a client reported before the buffer came back are counted when it does. */
static void attachers_are_counted_when_a_buffer_comes_back(void **state)
{
	static const uint8_t handle[GPUSHARE_HANDLE_SIZE] = {1};
	record info = info_of("w", 0);
	struct entry *entry;

	info.backing = GPUSHARE_BACKING_IPC;
	session_set(owner, "w", 7, 1);
	session_set(attacher, "w", 7, 2);
	entry = buffer_add(&all, owner, &info, handle, 7, NULL);
	assert_int_equal(entry->info.attachers, 2); /* without the owner's own */
	assert_true(session_find_attachment(owner, 7)->own);
	assert_int_equal(all.generation, 7);
	assert_true(buffer_is_alike(entry, &info));
	info.device_uuid[0] = 1;
	assert_false(buffer_is_alike(entry, &info));
}

static void a_commit_ends_the_silence_about_attachers(void **state)
{
	struct entry *entry = share(owner, "w", GPUSHARE_FLAG_STAGED);
	const struct attachment *attachment =
	    buffer_attach(&all, attacher, "w", entry->info.generation, 1);

	assert_true(attachment->quiet);
	buffer_commit(&all, entry);
	assert_false(attachment->quiet);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(nobody_finds_a_session_that_is_ending), TEST(what_ending_sessions_have_makes_room),
	  TEST(sockets_are_limited_for_one_user_and_for_all),
	  TEST(a_name_that_was_lost_may_come_back), TEST(the_next_to_expire_is_the_first),
	  TEST(attachers_are_counted_when_a_buffer_comes_back),
	  TEST(a_commit_ends_the_silence_about_attachers))
