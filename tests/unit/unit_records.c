/* SPDX-License-Identifier: MIT */
/* registry.state: what stands is read, as it was put last; what is torn, bent or strange is not; and it takes
 * no more room than what stands. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "persist/records.h"

#define THINGS 300

static char folder[64];
static struct records records;
/* What stands, and what was read. */
static struct {
	uint32_t count; /* 0: nothing */
	size_t length;	/* of the name */
} things[THINGS], seen[THINGS];
static unsigned int record_slot[THINGS];
static int seen_count;
static pb_size_t first_kind;
static uint64_t seed = 0x2545f4914f6cdd1d;

static uint32_t random_below(uint32_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % bound;
}

static const char *path(const char *file)
{
	static char whole[128];

	snprintf(whole, sizeof(whole), "%s/%s", folder, file);
	return whole;
}

static int directory(void)
{
	return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	memset(things, 0, sizeof(things));
	memset(record_slot, 0, sizeof(record_slot));
	records_init(&records);
	records_open(&records, directory());
	if (!records_begin(&records))
		return -1;
	records_commit(&records);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	records_close(&records, true);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static gpushare_State use_of(uint64_t generation, uint32_t count, size_t length)
{
	gpushare_State what = {.which_change = gpushare_State_use_tag};

	memset(what.change.use.name, 'n', length);
	what.change.use.generation = generation;
	what.change.use.count = count;
	return what;
}

static void put(uint32_t thing, uint32_t count, size_t length)
{
	gpushare_State what = use_of(thing, count, length);

	records_put(&records, &what, &record_slot[thing]);
	assert_int_not_equal(record_slot[thing], 0);
	things[thing].count = count;
	things[thing].length = length;
}

static void drop(uint32_t thing)
{
	records_drop(&records, &record_slot[thing]);
	assert_int_equal(record_slot[thing], 0);
	things[thing].count = 0;
	things[thing].length = 0;
}

static bool each(void *context, const gpushare_State *what, unsigned int slot)
{
	const gpushare_Use *use = &what->change.use;

	assert_ptr_equal(context, seen);
	if (!seen_count++)
		first_kind = what->which_change;
	if (what->which_change != gpushare_State_use_tag)
		return true;
	assert_in_range(use->generation, 0, THINGS - 1);
	seen[use->generation].count = use->count;
	seen[use->generation].length = strlen(use->name);
	record_slot[use->generation] = slot;
	return true;
}

/* As after a kill. */
static bool reopen(void)
{
	records_close(&records, true);
	records_init(&records);
	records_open(&records, directory());
	memset(seen, 0, sizeof(seen));
	seen_count = 0;
	return records_read(&records, each, seen);
}

static void what_stands_is_read(void **state)
{
	int stand = 0;

	(void)state;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 2000; i++) {
			uint32_t thing = random_below(THINGS);

			if (random_below(3))
				put(thing, 1 + random_below(1000), random_below(256));
			else
				drop(thing);
		}
		stand = 0;
		for (int i = 0; i < THINGS; i++)
			stand += things[i].count > 0;
		assert_true(reopen());
		assert_memory_equal(seen, things, sizeof(seen));
		assert_int_equal(seen_count, stand);
	}
	assert_in_range(stand, 100, THINGS - 1);
}

static struct stat file_is(void)
{
	struct stat is;

	assert_int_equal(lstat(path(RECORDS_FILE), &is), 0);
	return is;
}

static void it_grows_by_what_stands_alone(void **state)
{
	unsigned int many[20000] = {0};
	const gpushare_State large = use_of(1, 1, 255);
	blkcnt_t blocks;
	off_t size;

	(void)state;
	assert_int_equal(file_is().st_mode & 07777, 0600);
	for (uint32_t i = 0; i < 100; i++)
		put(i % 50, 1000, 20);
	size = file_is().st_size;
	for (uint32_t i = 0; i < 15000; i++)
		put(i % 50, 1000 + i, 20);
	assert_true(file_is().st_size < size + RECORDS_UNIT);
	for (int i = 0; i < 20000; i++)
		records_put(&records, &large, &many[i]);
	size = file_is().st_size;
	blocks = file_is().st_blocks;
	assert_in_range(size, 20000 * 280, 20000 * 400);
	for (int i = 0; i < 20000; i++)
		records_drop(&records, &many[i]);
	assert_true(file_is().st_blocks < blocks / 10); /* what has gone gives its room back */
	for (uint32_t i = 0; i < 20000; i++)
		records_put(&records, &large, &many[i]); /* and is used again */
	assert_true(file_is().st_size <= size + (1 << 16));
	for (int i = 0; i < 20000; i++)
		records_drop(&records, &many[i]);
	assert_true(reopen());
	assert_memory_equal(seen, things, sizeof(seen));
}

static void write_at(unsigned int slot, size_t at, const void *bytes, size_t size)
{
	int file = open(path(RECORDS_FILE), O_RDWR | O_CLOEXEC);

	assert_int_equal(pwrite(file, bytes, size, (off_t)(slot * RECORDS_UNIT + at)), size);
	close(file);
}

/* A registry that was killed between the two writes of a change leaves both. */
static void of_two_the_later_is_read_last(void **state)
{
	const gpushare_State before = use_of(0, 7, 20), after = use_of(0, 8, 20);
	uint8_t frame[RECORDS_FRAME_MAX];
	size_t size;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		put(i, 5, 20);
	size = records_frame(&after, 1000, frame);
	write_at(record_slot[1], 0, frame, size);
	size = records_frame(&before, 999, frame);
	write_at(record_slot[2], 0, frame, size);
	assert_true(reopen());
	assert_int_equal(seen_count, 3);
	assert_int_equal(seen[0].count, 8);
	record_slot[1] = 0;
	put(1, 1, 20); /* and what comes now is later still */
	assert_true(reopen());
	assert_int_equal(seen[0].count, 8);
	assert_true(records.stamp > 1000);
}

static void what_is_torn_is_left_out(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < 40; at++) {
		uint8_t byte;
		int file;

		put(0, 1, 20);
		put(1, 2, 20);
		put(2, 3, 20);
		file = open(path(RECORDS_FILE), O_RDONLY | O_CLOEXEC);
		assert_int_equal(pread(file, &byte, 1, record_slot[1] * RECORDS_UNIT + at), 1);
		close(file);
		byte ^= 1u << at % 8;
		write_at(record_slot[1], at, &byte, 1);
		assert_true(reopen());
		assert_int_equal(seen_count, 2);
		assert_int_equal(seen[0].count + seen[1].count + seen[2].count, 1 + 3);
		record_slot[1] = 0; /* its slot is used again */
	}
	assert_in_range(file_is().st_size, 1, 1 << 16);
}

static void it_reads_by_kind(void **state)
{
	gpushare_State begin = {.which_change = gpushare_State_begin_tag};
	unsigned int slot = 0;

	(void)state;
	put(0, 1, 3);
	records_put(&records, &begin, &slot);
	assert_true(reopen());
	assert_int_equal(seen_count, 2);
	assert_int_equal(first_kind, gpushare_State_begin_tag); /* though it came last */
}

static bool none(void *context, const gpushare_State *what, unsigned int slot)
{
	(void)context;
	(void)what;
	(void)slot;
	return false;
}

static void what_is_not_believed_is_written_anew(void **state)
{
	const gpushare_State what = use_of(1, 9, 3);
	unsigned int slot = 0;

	(void)state;
	put(0, 1, 3);
	records_close(&records, true);
	records_init(&records);
	records_open(&records, directory());
	assert_false(records_read(&records, none, NULL));
	records_put(&records, &what, &slot);
	assert_int_equal(slot, 0); /* nothing goes on in that file */
	assert_true(records_begin(&records));
	records_put(&records, &what, &slot);
	assert_int_not_equal(slot, 0);
	records_commit(&records);
	assert_true(reopen());
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[1].count, 9);
}

/* Nothing but a file of ours is opened for writing, waited for or believed. */
static void links_pipes_and_noise_are_not_read(void **state)
{
	char precious[128];
	FILE *file;
	int fd;

	(void)state;
	put(0, 1, 3);
	strcpy(precious, path("precious"));
	assert_int_equal(rename(path(RECORDS_FILE), precious), 0);
	assert_int_equal(symlink("precious", path(RECORDS_FILE)), 0);
	assert_false(reopen());
	assert_int_equal(unlink(path(RECORDS_FILE)), 0);
	assert_int_equal(mkfifo(path(RECORDS_FILE), 0600), 0);
	assert_false(reopen());
	assert_int_equal(unlink(path(RECORDS_FILE)), 0);
	assert_int_equal(mkdir(path(RECORDS_FILE), 0700), 0);
	assert_false(reopen());
	assert_int_equal(rmdir(path(RECORDS_FILE)), 0);
	assert_false(reopen()); /* nothing there */
	file = fopen(path(RECORDS_FILE), "w");
	for (int i = 0; i < 300000; i++)
		fputc((int)random_below(256), file);
	fclose(file);
	assert_false(reopen());
	/* a link in the way of a new one is replaced, and what it leads to stays */
	assert_int_equal(unlink(path(RECORDS_FILE)), 0);
	assert_int_equal(symlink("precious", path(RECORDS_FILE ".new")), 0);
	assert_true(records_begin(&records));
	records_commit(&records);
	assert_true(S_ISREG(file_is().st_mode));
	assert_int_not_equal(access(path(RECORDS_FILE ".new"), F_OK), 0);
	fd = open(path("precious"), O_RDONLY | O_CLOEXEC);
	assert_true(lseek(fd, 0, SEEK_END) > 0);
	close(fd);
}

static void a_name_that_was_removed_is_there_again(void **state)
{
	ino_t file = file_is().st_ino;

	(void)state;
	put(0, 1, 3);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(unlink(path(i ? RECORDS_FILE ".spare" : RECORDS_FILE)), 0);
		records_tend(&records);
		assert_int_equal(file_is().st_ino, file);
		assert_int_equal(file_is().st_nlink, 2);
	}
	assert_true(reopen());
	assert_int_equal(seen_count, 1);
	assert_true(records_begin(&records)); /* neither is a former one's */
	records_commit(&records);
	assert_int_equal(file_is().st_nlink, 2);
	assert_true(file_is().st_ino != file);
}

static void it_stays_or_goes_with_the_registry(void **state)
{
	(void)state;
	put(0, 1, 3);
	assert_true(reopen());
	records_close(&records, false);
	assert_int_not_equal(access(path(RECORDS_FILE), F_OK), 0);
	assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(what_stands_is_read),
	    TEST(it_grows_by_what_stands_alone),
	    TEST(of_two_the_later_is_read_last),
	    TEST(what_is_torn_is_left_out),
	    TEST(it_reads_by_kind),
	    TEST(what_is_not_believed_is_written_anew),
	    TEST(links_pipes_and_noise_are_not_read),
	    TEST(a_name_that_was_removed_is_there_again),
	    TEST(it_stays_or_goes_with_the_registry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
