/* SPDX-License-Identifier: MIT */
/* The index, without a socket: it says what the registry would, whatever happens to a name. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>

#include "client/client_index.h"
#include "peer.h"

static const struct index_page *page(void)
{
	if (!peer_registry->index.page) {
		printf("skipped: an emulator knows no robust locks\n");
		skip();
	}
	return peer_registry->index.page;
}

/* The index against a look-up: both, or none. */
static void agrees(struct session *asks, const char *name)
{
	struct index_record found;
	bool is_there = index_find(page(), name, &found);
	const record *told = &peer_answer.body.lookup.buffer;

	assert_int_equal(peer_lookup(asks, name, 0), is_there ? GPUSHARE_OK : GPUSHARE_E_NOT_FOUND);
	if (!is_there)
		return;
#define F(type, field) assert_true(found.field == told->field);
	INDEX_FIELDS(F, F)
#undef F
	assert_string_equal(found.name, told->name);
	assert_string_equal(found.owner_command, told->owner_command);
	assert_memory_equal(found.device_uuid, told->device_uuid, sizeof(found.device_uuid));
	assert_int_equal(found.tags_count, told->tags_count);
	for (uint32_t i = 0; i < found.tags_count; i++) {
		assert_string_equal(found.tags[i].key, told->tags[i].key);
		assert_string_equal(found.tags[i].value, told->tags[i].value);
	}
}

static void tagged(struct session *owner, const char *name, pb_size_t count)
{
	request ask = {.which_verb = gpushare_Request_tag_tag};
	gpushare_SetTags *tag = &ask.verb.tag;

	strcpy(tag->name, name);
	for (pb_size_t i = 0; i < count; i++) {
		snprintf(tag->tags[i].key, sizeof(tag->tags[i].key), "key%d", i);
		snprintf(tag->tags[i].value, sizeof(tag->tags[i].value), "value %d", i);
	}
	tag->tags_count = count;
	assert_int_equal(peer_ask(owner, &ask), GPUSHARE_OK);
}

static void it_follows_the_registry(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3"), *other = peer_new(2, 50, "other");
	struct index_record found;
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	agrees(other, "x");
	assert_true(index_find(page(), "x", &found) && found.generation == generation);
	assert_false(index_find(page(), "y", &found));
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	agrees(other, "x");
	assert_true(index_find(page(), "x", &found) && found.attachers == 1);
	tagged(owner, "x", 1);
	agrees(other, "x");
	assert_true(index_find(page(), "x", &found) && found.tags_count == 1);
	tagged(owner, "x", 4);
	agrees(other, "x");
	registry_disconnect(peer_registry, other);
	agrees(owner, "x");
	registry_disconnect(peer_registry, owner);
	other = peer_new(3, 51, "other");
	agrees(other, "x");
	assert_false(index_find(page(), "x", &found));
	assert_true(peer_share(other, "x") > generation);
	agrees(other, "x");
}

/* Of names that fall into one bucket as many are there as it has ways; all are answered. */
static void a_full_bucket_is_left_to_the_registry(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3");
	const struct index_page *index = page();
	size_t wanted = index_bucket(index_hash("n0"));
	char names[2 * INDEX_WAYS][32];
	struct index_record found;
	unsigned int there = 0;

	(void)state;
	for (unsigned int i = 0, count = 0; count < 2 * INDEX_WAYS; i++) {
		snprintf(names[count], sizeof(names[count]), "n%u", i);
		if (index_bucket(index_hash(names[count])) == wanted)
			peer_share(owner, names[count++]);
	}
	for (unsigned int i = 0; i < 2 * INDEX_WAYS; i++) {
		assert_int_equal(peer_lookup(owner, names[i], 0), GPUSHARE_OK);
		there += index_find(index, names[i], &found);
	}
	assert_int_equal(there, INDEX_WAYS);
	/* and what leaves makes room */
	assert_int_equal(peer_withdraw(owner, "n0", 0), GPUSHARE_OK);
	peer_share(owner, "n0");
	assert_true(index_find(page(), "n0", &found));
}

static void thousands_of_names(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3");
	struct index_record found;
	unsigned int there = 0;
	char name[32];

	(void)state;
	for (unsigned int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "layers.%u/weight", i);
		peer_share(owner, name);
	}
	for (unsigned int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "layers.%u/weight", i);
		if (index_find(page(), name, &found)) {
			assert_string_equal(found.name, name);
			there++;
		}
	}
	assert_int_equal(there, 10000);
}

/* What has gone leaves its place to others, and none of what they are reads as it did. */
static void places_are_used_again(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3");
	const struct indexer *index = &peer_registry->index;
	struct index_record found;
	char name[32];

	(void)state;
	page();
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		peer_share(owner, name);
		if (i % 2)
			tagged(owner, name, 1 + i % INDEX_TAGS);
		if (i >= 100) {
			snprintf(name, sizeof(name), "n%u", i - 100);
			assert_int_equal(peer_withdraw(owner, name, 0), GPUSHARE_OK);
			assert_false(index_find(page(), name, &found));
		}
		snprintf(name, sizeof(name), "n%u", i);
		agrees(owner, name);
	}
	assert_in_range(index->used, 100, 101);
}

struct race {
	const struct index_page *page;
	atomic_bool ends;
	atomic_ullong seen, torn;
};

/* Sizes go with generations: a record of two moments is seen by that. */
static void *read_on(void *argument)
{
	struct race *race = argument;
	struct index_record found;

	while (!atomic_load(&race->ends)) {
		if (!index_find(race->page, "x", &found))
			continue;
		atomic_fetch_add(&race->seen, 1);
		if (found.size != found.generation * 3 || found.base_size != found.size ||
		    strcmp(found.name, "x"))
			atomic_fetch_add(&race->torn, 1);
	}
	return NULL;
}

static void readers_see_one_moment(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3");
	struct indexer *index = &peer_registry->index;
	struct race race = {.page = page()};
	struct entry *entry;
	pthread_t threads[3];

	(void)state;
	peer_share(owner, "x");
	entry = store_find(&peer_registry->state.store, "x");
	indexer_remove(index, entry);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on, &race), 0);
	for (uint64_t i = 1; i < 200000 || !atomic_load(&race.seen); i++) {
		entry->info.generation = i;
		entry->info.size = entry->info.base_size = 3 * i;
		if (i % 64 == 0)
			indexer_remove(index, entry);
		indexer_put(index, entry);
	}
	atomic_store(&race.ends, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&race.torn), 0);
	assert_true(atomic_load(&race.seen) > 0);
	entry->info.generation = 1;
}

int main(void)
{
#define PEERED(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    PEERED(it_follows_the_registry), PEERED(a_full_bucket_is_left_to_the_registry),
	    PEERED(thousands_of_names),	     PEERED(places_are_used_again),
	    PEERED(readers_see_one_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
