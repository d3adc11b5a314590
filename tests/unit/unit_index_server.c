/* SPDX-License-Identifier: MIT */
/* The real daemon's index: when it is to be believed, and that nobody else writes to it. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index.h"
#include "raw_fds.h"

static int page_fd(void)
{
	int fd = raw_fds_dial();
	int status = raw_fds_ask(fd, raw_fds_header(FDS_INDEX, -1), NULL, 0);

	close(fd);
	if (status == GPUSHARE_E_NOT_SUPPORTED) {
		printf("skipped: an emulator knows no robust locks\n");
		skip();
	}
	assert_int_equal(status, GPUSHARE_OK);
	assert_true(raw_fds_came >= 0);
	return raw_fds_came;
}

static const struct index_page *page_map(void)
{
	int fd = page_fd();
	const struct index_page *page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);

	close(fd);
	assert_true(page != MAP_FAILED);
	assert_int_equal(page->version, INDEX_VERSION);
	assert_int_equal(page->size, sizeof(*page));
	return page;
}

static bool finds(const struct index_page *page, const char *name)
{
	struct index_record found;

	return index_is_live(page) && index_find(page, name, &found);
}

/* Whoever is answered can tell another process, and that one finds it. */
static void it_is_there_before_the_answer(void **state)
{
	const struct index_page *page = page_map();
	int own = raw_connect(&raw_here);
	char name[32];

	(void)state;
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(raw_say(own, raw_share(name)), GPUSHARE_OK);
		assert_true(finds(page, name));
	}
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(raw_say(own, raw_withdraw(name, 0)), GPUSHARE_OK);
		assert_false(finds(page, name));
	}
	close(own);
	munmap((void *)page, sizeof(*page));
}

static void a_dead_owners_names_go(void **state)
{
	const struct index_page *page = page_map();
	pid_t pid = raw_owner("x", raw_share);
	long long begin;

	(void)state;
	assert_true(finds(page, "x"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	begin = raw_now_ms();
	while (finds(page, "x"))
		raw_sleep_ms(1);
	assert_in_range(raw_now_ms() - begin, 0, RAW_GONE_MS);
	munmap((void *)page, sizeof(*page));
}

static void a_killed_daemon_is_not_believed(void **state)
{
	const struct index_page *page = page_map(), *next;
	int own = raw_connect(&raw_here);

	(void)state;
	assert_int_equal(raw_say(own, raw_share("x")), GPUSHARE_OK);
	assert_true(finds(page, "x"));
	kill(raw_here.pid, SIGKILL);
	assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS), 128 + SIGKILL);
	assert_false(index_is_live(page));
	raw_daemon_start(&raw_here, NULL);
	assert_false(index_is_live(page));
	next = page_map(); /* what it knows of before is in its own */
	assert_true(finds(next, "x"));
	close(own);
	munmap((void *)page, sizeof(*page));
	munmap((void *)next, sizeof(*next));
}

static void one_that_leaves_is_not_believed(void **state)
{
	const struct index_page *page = page_map();

	(void)state;
	assert_true(index_is_live(page));
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	assert_false(index_is_live(page));
	raw_daemon_start(&raw_here, NULL);
	munmap((void *)page, sizeof(*page));
}

static void nobody_else_writes_to_it(void **state)
{
	(void)state;
	raw_fds_assert_read_only(page_fd());
}

/* Handles are for those who attach, and are counted. */
static void it_holds_no_handle(void **state)
{
	const struct index_page *page = page_map();
	unsigned char handle[GPUSHARE_HANDLE_SIZE];
	int own = raw_connect(&raw_here);

	(void)state;
	assert_int_equal(raw_say(own, raw_share("x")), GPUSHARE_OK);
	memset(handle, RAW_HANDLE_BYTE, sizeof(handle));
	assert_null(memmem(page, sizeof(*page), handle, 8));
	close(own);
	munmap((void *)page, sizeof(*page));
}

int main(void)
{
#define SERVED(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)
	const struct CMUnitTest tests[] = {
	    SERVED(it_is_there_before_the_answer),   SERVED(a_dead_owners_names_go),
	    SERVED(a_killed_daemon_is_not_believed), SERVED(one_that_leaves_is_not_believed),
	    SERVED(nobody_else_writes_to_it),	     SERVED(it_holds_no_handle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
