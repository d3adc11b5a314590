/* SPDX-License-Identifier: MIT */
/* The pages that clients map are read-only, and readers never see a partial record. */
#include "unit.h"

#include "index.h"
#include "observe/pages.h"
#include "raw_fds.h"
#include "state/entry.h"

static const struct index_page *page_map(void)
{
	const struct index_page *page = raw_fds_page(FDS_INDEX, sizeof(*page));

	if (!page) {
		printf("skipped: an emulator knows no robust locks\n");
		skip();
	}
	assert_int_equal(page->version, INDEX_VERSION);
	assert_int_equal(page->size, sizeof(*page));
	return page;
}

/* Of the names in one bucket the index holds INDEX_WAYS; look-ups at the registry find all. */
static void a_full_bucket_is_left_to_the_registry(void **state)
{
	const struct index_page *page = page_map();
	size_t wanted = index_bucket(index_hash("n0"));
	int own = raw_connect(&raw_here);
	struct index_record found;
	unsigned int names = 0, has = 0;

	for (unsigned int i = 0; names < 2 * INDEX_WAYS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "n%u", i);
		if (index_bucket(index_hash(name)) != wanted)
			continue;
		assert_int_equal(raw_say(own, raw_share(name)), GPUSHARE_OK);
		assert_int_equal(raw_say(own, raw_lookup(name, 0)), GPUSHARE_OK);
		has += index_find(page, name, &found);
		names++;
	}
	assert_int_equal(has, INDEX_WAYS);
	/* a removed name makes room */
	assert_int_equal(raw_say(own, raw_withdraw("n0", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_share("n0")), GPUSHARE_OK);
	assert_true(index_find(page, "n0", &found));
	close(own);
}

/* Only attaching gives out handles, and attachments are counted. */
static void pages_are_read_only_and_hold_no_handle(void **state)
{
	const struct index_page *page;
	unsigned char handle[GPUSHARE_HANDLE_SIZE];
	int own = raw_connect(&raw_here);

	raw_fds_assert_read_only(raw_fds_page_fd(FDS_CHANGES));
	page = page_map();
	raw_fds_assert_read_only(raw_fds_page_fd(FDS_INDEX));
	raw_shared(own, "x");
	memset(handle, RAW_HANDLE_BYTE, sizeof(handle));
	assert_null(memmem(page, sizeof(*page), handle, 8));
	close(own);
}

struct race {
	const struct index_page *page;
	atomic_bool ends;
	atomic_ullong seen, torn;
};

/* The size is a multiple of the generation, so a record mixed from two moments shows. */
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
	static const uint8_t handle[GPUSHARE_HANDLE_SIZE];
	static const record info = {.name = "x"};
	static struct indexer indexer;
	struct entry *entry = entry_new(&info, handle);
	const struct process owner = {.pid = 4711};
	struct race race;
	pthread_t threads[3];

	entry_part(entry, &owner);
	indexer_init(&indexer);
	race = (struct race){.page = indexer.page};
	if (!race.page) {
		printf("skipped: an emulator knows no robust locks\n");
		entry_free(entry);
		skip();
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on, &race), 0);
	for (uint64_t i = 1; i < 200000 || !atomic_load(&race.seen); i++) {
		entry->info.generation = i;
		entry->info.size = entry->info.base_size = 3 * i;
		if (i % 64 == 0)
			indexer_remove(&indexer, entry);
		indexer_put(&indexer, entry);
	}
	atomic_store(&race.ends, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&race.torn), 0);
	entry_free(entry);
}

UNIT_MAIN(RAW_TEST(a_full_bucket_is_left_to_the_registry),
	  RAW_TEST(pages_are_read_only_and_hold_no_handle), UNIT(readers_see_one_moment))
