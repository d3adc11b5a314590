/* SPDX-License-Identifier: MIT */
/* registry.state: what is written is read, what is torn, bent or strange is not, and a disk that
 * takes nothing leaves nothing that is half true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "persist/journal.h"

static char folder[64];
static struct journal journal;
static uint64_t seen[4096]; /* generations that were read */
static int seen_count, stop_at;

static const char *path(const char *file)
{
	static char whole[128];

	snprintf(whole, sizeof(whole), "%s/%s", folder, file);
	return whole;
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	journal_init(&journal);
	journal_open(&journal, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	stop_at = 0;
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	journal_close(&journal, true);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static gpushare_State gone(uint64_t generation)
{
	gpushare_State what = {.which_change = gpushare_State_go_tag};

	strcpy(what.change.go.name, "some/name");
	what.change.go.generation = generation;
	return what;
}

static unsigned int put(uint64_t generation)
{
	gpushare_State what = gone(generation);

	return journal_put(&journal, &what);
}

static bool each(void *context, const gpushare_State *what)
{
	assert_ptr_equal(context, seen);
	assert_in_range(seen_count, 0, 4095);
	if (what->which_change == gpushare_State_go_tag)
		assert_string_equal(what->change.go.name, "some/name");
	seen[seen_count++] = what->which_change == gpushare_State_go_tag
				 ? what->change.go.generation
				 : 1000 + (uint64_t)what->which_change;
	return !stop_at || seen_count < stop_at;
}

static int read_all(void)
{
	int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	seen_count = 0;
	journal_read(directory, each, seen);
	close(directory);
	return seen_count;
}

static void write_three(void)
{
	assert_true(journal_begin(&journal, false));
	put(1);
	assert_true(journal_commit(&journal));
	put(2);
	put(3);
	assert_true(journal_write(&journal));
}

static void what_is_written_is_read(void **state)
{
	struct stat is;

	(void)state;
	assert_int_equal(read_all(), 0);
	write_three();
	assert_int_equal(read_all(), 3);
	assert_true(seen[0] == 1 && seen[1] == 2 && seen[2] == 3);
	assert_int_equal(lstat(path(JOURNAL_FILE), &is), 0);
	assert_int_equal(is.st_mode & 07777, 0600);
	assert_int_equal(is.st_size, journal.size);
	stop_at = 2;
	assert_int_equal(read_all(), 2);
}

static void a_change_is_in_the_file_at_once_and_not_before(void **state)
{
	(void)state;
	write_three();
	put(4);
	assert_int_equal(read_all(), 3);
	assert_true(journal_write(&journal));
	assert_int_equal(read_all(), 4);
	/* More than the buffer holds goes there by itself, nothing is lost. */
	for (uint64_t i = 5; i <= 2000; i++)
		put(i);
	assert_true(journal_write(&journal));
	assert_int_equal(read_all(), 2000);
	for (uint64_t i = 0; i < 2000; i++)
		assert_int_equal(seen[i], i + 1);
}

static void a_torn_tail_is_dropped(void **state)
{
	uint64_t two;

	(void)state;
	write_three();
	two = journal.size - (journal.size / 3);
	for (uint64_t size = journal.size; size-- > two;) {
		assert_int_equal(truncate(path(JOURNAL_FILE), (off_t)size), 0);
		assert_int_equal(read_all(), 2);
	}
}

static void a_bent_byte_ends_the_file(void **state)
{
	int file;
	char byte;

	(void)state;
	write_three();
	file = open(path(JOURNAL_FILE), O_RDWR | O_CLOEXEC);
	for (off_t at = 0; at < (off_t)journal.size; at++) {
		assert_int_equal(pread(file, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(file, &byte, 1, at), 1);
		assert_int_equal(read_all(), at / (off_t)(journal.size / 3));
		byte ^= 0x10;
		assert_int_equal(pwrite(file, &byte, 1, at), 1);
	}
	assert_int_equal(read_all(), 3);
	/* A file system that lost the data of the last blocks leaves zeros. */
	assert_int_equal(ftruncate(file, (off_t)journal.size + 4096), 0);
	assert_int_equal(read_all(), 3);
	close(file);
}

/* Of a later version: a field that we don't know, and nothing else. */
static void an_unknown_kind_is_passed_on_as_none(void **state)
{
	uint8_t frame[JOURNAL_FRAME_MAX];
	gpushare_State what = gone(7);
	size_t size = journal_encode(&what, frame);
	uint32_t sum;
	FILE *file;

	(void)state;
	write_three();
	/* The oneof's tag, the first byte behind size and checksum: 4 << 3 | 2 becomes 15 << 3 | 2;
	 * FNV-1a over size and bytes, as in journal.c. */
	assert_int_equal(frame[8], 4 << 3 | 2);
	frame[8] = 15 << 3 | 2;
	sum = 2166136261u ^ (uint32_t)(size - 8);
	for (size_t i = 8; i < size; i++)
		sum = (sum ^ frame[i]) * 16777619u;
	memcpy(frame + 4, &sum, sizeof(sum));
	file = fopen(path(JOURNAL_FILE), "ae");
	assert_int_equal(fwrite(frame, size, 1, file), 1);
	fclose(file);
	put(8);
	assert_true(journal_write(&journal));
	assert_int_equal(read_all(), 5);
	assert_int_equal(seen[3], 1000);
	assert_int_equal(seen[4], 8);
}

static void a_new_file_takes_the_old_ones_place(void **state)
{
	struct stat is;

	(void)state;
	write_three();
	assert_false(journal_is_long(&journal));
	journal.size = JOURNAL_SMALL + 1;
	journal.live = JOURNAL_SMALL / JOURNAL_SLACK + 1;
	assert_false(journal_is_long(&journal));
	journal.live--;
	assert_true(journal_is_long(&journal));
	assert_true(journal_begin(&journal, false));
	put(9);
	assert_true(journal_write(&journal));
	assert_int_equal(read_all(), 3); /* whoever is killed here leaves the old one */
	assert_true(journal_commit(&journal));
	assert_int_equal(read_all(), 1);
	assert_int_equal(seen[0], 9);
	put(10);
	assert_true(journal_write(&journal));
	assert_int_equal(read_all(), 2);
	assert_int_not_equal(lstat(path(JOURNAL_FILE ".new"), &is), 0);
}

/* Compaction that can't make its file: what is written is true, and goes on to be written. */
static void the_old_file_stays_where_no_new_one_can_be_made(void **state)
{
	(void)state;
	write_three();
	journal.size = JOURNAL_SMALL + 1;
	journal.live = 1;
	assert_true(journal_is_long(&journal));
	assert_int_equal(mkdir(path(JOURNAL_FILE ".new"), 0700), 0);
	assert_false(journal_begin(&journal, true));
	assert_int_equal(read_all(), 3);
	assert_false(journal_is_long(&journal)); /* not at each request again */
	put(4);
	assert_true(journal_write(&journal));
	assert_int_equal(read_all(), 4);
	assert_int_equal(rmdir(path(JOURNAL_FILE ".new")), 0);
	assert_true(journal_begin(&journal, true));
	put(5);
	assert_true(journal_commit(&journal));
	assert_int_equal(journal.retry_ns, 0);
	assert_int_equal(read_all(), 1);
}

static void a_full_disk_leaves_nothing_half_true(void **state)
{
	struct rlimit before, small;

	(void)state;
	write_three();
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){journal.size + 5, before.rlim_max}; /* half of the next one */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	put(4);
	assert_false(journal_write(&journal));
	assert_true(journal.retry_ns > 0);
	assert_int_equal(read_all(), 0);
	put(5);
	assert_false(journal_write(&journal));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_true(journal_begin(&journal, false));
	put(6);
	assert_true(journal_commit(&journal));
	assert_int_equal(journal.retry_ns, 0);
	assert_int_equal(read_all(), 1);
}

static void nothing_is_followed_or_overwritten(void **state)
{
	struct stat is;
	FILE *file;

	(void)state;
	file = fopen(path("precious"), "we");
	fputs("mine\n", file);
	fclose(file);
	write_three();
	assert_int_equal(unlink(path(JOURNAL_FILE)), 0);
	assert_int_equal(symlink("precious", path(JOURNAL_FILE)), 0);
	assert_int_equal(symlink("precious", path(JOURNAL_FILE ".new")), 0);
	assert_int_equal(read_all(), 0);
	write_three();
	assert_int_equal(read_all(), 3);
	assert_int_equal(stat(path("precious"), &is), 0);
	assert_int_equal(is.st_size, 5);

	/* A folder in the way: said once, and the rest goes on. */
	assert_int_equal(unlink(path(JOURNAL_FILE)), 0);
	assert_int_equal(mkdir(path(JOURNAL_FILE), 0700), 0);
	assert_int_equal(read_all(), 0);
	assert_true(journal_begin(&journal, false));
	put(1);
	assert_false(journal_commit(&journal));
	assert_int_equal(journal.file, -1);
	assert_int_not_equal(lstat(path(JOURNAL_FILE ".new"), &is), 0);
	/* Nor is a pipe waited for. */
	assert_int_equal(rmdir(path(JOURNAL_FILE)), 0);
	assert_int_equal(mkfifo(path(JOURNAL_FILE), 0600), 0);
	assert_int_equal(read_all(), 0);
}

static void it_goes_where_nothing_is_to_be_kept(void **state)
{
	(void)state;
	write_three();
	journal_close(&journal, false);
	assert_int_not_equal(access(path(JOURNAL_FILE), F_OK), 0);
	journal_close(&journal, true);
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_folder(what_is_written_is_read),
	    with_folder(a_change_is_in_the_file_at_once_and_not_before),
	    with_folder(a_torn_tail_is_dropped),
	    with_folder(a_bent_byte_ends_the_file),
	    with_folder(an_unknown_kind_is_passed_on_as_none),
	    with_folder(a_new_file_takes_the_old_ones_place),
	    with_folder(the_old_file_stays_where_no_new_one_can_be_made),
	    with_folder(a_full_disk_leaves_nothing_half_true),
	    with_folder(nothing_is_followed_or_overwritten),
	    with_folder(it_goes_where_nothing_is_to_be_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
