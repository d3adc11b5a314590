/* SPDX-License-Identifier: MIT */
/* Large files written by several threads: on a disk, in a tmpfs, and with system calls refused. */
#include "unit.h"

#include "../../tools/copy/bulk.h"
#include "../../tools/common/crew.h"
#include "../../tools/copy/output.h"

#define SIZE ((size_t)(20 << 20) + 4096 + 77)

/* What the replaced system calls below answer. */
static struct {
	const unsigned char *unreadable; /* direct writes from these BULK_BLOCK bytes fail */
	int direct;			 /* errno of direct writes; 0: they work */
	int populate;			 /* errno of populating madvise(); 0: it works */
	int cpus;
	atomic_int bounced, refused;
} kernel;

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
	bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
	const unsigned char *from = data;

	if (direct && kernel.unreadable && from >= kernel.unreadable &&
	    from < kernel.unreadable + BULK_BLOCK) {
		kernel.bounced++;
		errno = EFAULT;
		return -1;
	}
	if (direct && kernel.direct) {
		kernel.refused++;
		errno = kernel.direct;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, data, size, at);
}

int madvise(void *at, size_t size, int advice)
{
	if (advice == 23 && kernel.populate) {
		kernel.refused++;
		errno = kernel.populate;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, size, advice);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	memset(set, 0, size);
	for (int i = 0; i < kernel.cpus; i++)
		CPU_SET(i, set);
	return 0;
}

static unsigned char *data;

static int make_data(void **state)
{
	uint32_t value = 1;

	data = aligned_alloc(BULK_ALIGN, (SIZE / BULK_ALIGN + 1) * BULK_ALIGN);
	for (size_t i = 0; data && i < SIZE; i++)
		data[i] = (unsigned char)((value = value * 1664525 + 1013904223) >> 24);
	return !data;
}

static int free_data(void **state)
{
	free(data);
	return 0;
}

static int new_kernel(void **state)
{
	kernel.unreadable = NULL;
	kernel.direct = kernel.populate = 0;
	kernel.cpus = 8;
	kernel.bounced = kernel.refused = 0;
	return 0;
}

static int open_in(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0) {
		print_message("skipped: no file can be made in %s\n", folder);
		skip();
	}
	return fd;
}

/* Write all data in blocks of `step`. Returns 0 or an errno. */
static int put(struct bulk *bulk, size_t step)
{
	int error = 0;

	for (size_t at = 0, part; !error && at < SIZE; at += part) {
		part = SIZE - at < step ? SIZE - at : step;
		bulk_start(bulk, data + at, part, at);
		error = bulk_wait(bulk);
	}
	return error;
}

static void assert_file(int fd)
{
	unsigned char *found = malloc(SIZE + 1);

	assert_non_null(found);
	assert_int_equal(pread(fd, found, SIZE + 1, 0), SIZE);
	assert_memory_equal(found, data, SIZE);
	free(found);
}

static enum bulk_way put_in(const char *folder, size_t step)
{
	int fd = open_in(folder);
	struct bulk bulk;
	enum bulk_way way;

	assert_int_equal(bulk_begin(&bulk, fd, SIZE), 0);
	way = bulk.way;
	assert_int_equal(put(&bulk, step), 0);
	bulk_end(&bulk);
	assert_file(fd);
	close(fd);
	return way;
}

static void test_disk(void **state)
{
	assert_int_not_equal(put_in("/var/tmp", BULK_BLOCK), BULK_NONE);
	put_in("/var/tmp", 3 << 20);
	put_in("/var/tmp", (1 << 20) + 512); /* not aligned for direct writes */
}

static void test_tmpfs(void **state)
{
	assert_int_equal(put_in("/dev/shm", BULK_BLOCK), BULK_MAPPED);
	put_in("/dev/shm", (1 << 20) + 7);
}

static void test_small(void **state)
{
	int fd = open_in("/tmp");
	struct bulk bulk;

	assert_int_equal(bulk_begin(&bulk, fd, BULK_LEAST - 1), 0);
	assert_int_equal(bulk.way, BULK_NONE);
	bulk_end(&bulk);
	close(fd);
	fd = open_in("/dev/shm");
	kernel.cpus = 2;
	assert_int_equal(bulk_begin(&bulk, fd, SIZE), 0);
	assert_int_equal(bulk.way, BULK_NONE);
	bulk_end(&bulk);
	close(fd);
}

/* A disk may be unable to read memory that a GPU driver has mapped. The data is then copied
 * first. */
static void test_unreadable(void **state)
{
	kernel.unreadable = data;
	if (put_in("/var/tmp", BULK_BLOCK) == BULK_DIRECT)
		assert_in_range(kernel.bounced, 1, BULK_PIECES);
}

static void test_direct_refused(void **state)
{
	kernel.direct = EINVAL;
	if (put_in("/var/tmp", BULK_BLOCK) == BULK_DIRECT)
		assert_in_range(kernel.refused, 1, BULK_PIECES);
}

static void test_old_kernel(void **state)
{
	kernel.populate = EINVAL;
	put_in("/dev/shm", BULK_BLOCK);
	assert_true(kernel.refused > 0);
}

/* If a disk fails or others fill the tmpfs, the result is an errno and no signal. */
static void test_fails(void **state)
{
	static const struct {
		const char *folder;
		int direct, populate, error;
	} failures[] = {{"/var/tmp", EIO, 0, EIO}, {"/dev/shm", 0, EFAULT, ENOSPC}};

	for (size_t i = 0; i < 2; i++) {
		int fd = open_in(failures[i].folder);
		struct bulk bulk;

		kernel.direct = failures[i].direct;
		kernel.populate = failures[i].populate;
		assert_int_equal(bulk_begin(&bulk, fd, SIZE), 0);
		if (bulk.way == BULK_DIRECT || bulk.way == BULK_MAPPED)
			assert_int_equal(put(&bulk, BULK_BLOCK), failures[i].error);
		bulk_end(&bulk);
		close(fd);
	}
}

static void test_no_room(void **state)
{
	int fd = open_in("/dev/shm");
	struct bulk bulk;

	assert_int_equal(bulk_begin(&bulk, fd, (uint64_t)1 << 46), ENOSPC);
	bulk_end(&bulk);
	close(fd);
}

/* An output takes blocks of any size, and counts what it has. */
static void test_output(void **state)
{
	static const volatile sig_atomic_t go_on = 0;
	char path[] = "/var/tmp/gpushare-unit.XXXXXX";
	struct output output;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_true(output_open(&output, path, &go_on));
	assert_true(output_reserve(&output, SIZE));
	assert_true(output_write(&output, data, 100));
	assert_true(output_write(&output, data + 100, SIZE - 100));
	assert_int_equal(output.written, SIZE);
	assert_true(output_commit(&output));
	close(fd);
	fd = open(path, O_RDONLY);
	assert_file(fd);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

struct count {
	atomic_int each[1000];
};

static void count_piece(void *user, size_t piece)
{
	struct count *count = user;

	count->each[piece]++;
}

static void test_crew(void **state)
{
	static struct count count;

	for (int threads = 0; threads <= CREW_MAX + 1; threads += 3) {
		struct crew *crew = crew_new(threads);

		assert_non_null(crew);
		memset(&count, 0, sizeof(count));
		for (size_t round = 1; round <= 1000; round++) {
			crew_start(crew, count_piece, &count, round);
			crew_wait(crew);
			for (size_t i = 0; i < 1000; i += 37)
				assert_int_equal(count.each[i], i < round ? round - i : 0);
		}
		crew_free(crew);
	}
	crew_free(NULL);
	assert_int_equal(crew_cpus(), 8);
}

#define TEST(name) cmocka_unit_test_setup(name, new_kernel)
UNIT_MAIN_BETWEEN(make_data, free_data, TEST(test_disk), TEST(test_tmpfs), TEST(test_small),
		  TEST(test_unreadable), TEST(test_direct_refused), TEST(test_old_kernel),
		  TEST(test_fails), TEST(test_no_room), TEST(test_output), TEST(test_crew))
