/* SPDX-License-Identifier: MIT */
/* The daemon's page of changes: when a name's count grows, and that only the daemon can write. */
#include "unit.h"

#include "raw_fds.h"

static const struct changes_page *page_map(void)
{
	return raw_fds_page(FDS_CHANGES, sizeof(struct changes_page));
}

static uint64_t count_of(const struct changes_page *page, const char *name)
{
	return atomic_load(&page->count[changes_slot(name)]);
}

static int kept(int own, const char *name)
{
	return raw_fds_put(own, name, GPUSHARE_FLAG_KEEP);
}

/* The names count in different slots. */
static void a_count_grows_when_its_name_goes_or_is_replaced(void **state)
{
	const struct changes_page *page = page_map();
	int own = raw_connect(&raw_here), other = raw_connect(&raw_here);
	uint64_t quiet = count_of(page, "quiet"), before;
	pid_t pid;

	assert_int_not_equal(changes_slot("quiet"), changes_slot("x"));
	assert_int_not_equal(changes_slot("quiet"), changes_slot("k"));
	assert_int_equal(raw_say(own, raw_share("quiet")), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_share("x")), GPUSHARE_OK);
	quiet = count_of(page, "quiet");
	before = count_of(page, "x");
	assert_int_equal(raw_say(other, raw_attach("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(count_of(page, "x"), before);
	assert_int_equal(raw_say(own, raw_withdraw("x", 0)), GPUSHARE_OK);
	assert_int_not_equal(count_of(page, "x"), before);
	pid = raw_owner("x", raw_share);
	before = count_of(page, "x");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (raw_say(other, raw_lookup("x", 0)) != GPUSHARE_E_NOT_FOUND)
		raw_sleep_ms(1);
	assert_int_not_equal(count_of(page, "x"), before);
	/* A buffer kept without its owner stays the same buffer; the one that replaces it is
	 * another. */
	pid = raw_owner_by("k", kept);
	before = count_of(page, "k");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	do {
		assert_int_equal(raw_say(other, raw_lookup("k", 0)), GPUSHARE_OK);
	} while (!raw_answer.body.lookup.buffer.owner_gone);
	assert_int_equal(count_of(page, "k"), before);
	assert_int_equal(kept(own, "k"), GPUSHARE_OK);
	assert_int_not_equal(count_of(page, "k"), before);
	assert_int_equal(count_of(page, "quiet"), quiet);
	close(own);
	close(other);
}

static void nobody_else_writes_to_it(void **state)
{
	raw_fds_assert_read_only(raw_fds_page_fd(FDS_CHANGES));
}

static void every_daemon_begins_elsewhere(void **state)
{
	const struct changes_page *first = page_map(), *second;

	raw_daemon_again(SIGTERM);
	second = page_map();
	for (size_t i = 0; i < CHANGES_SLOTS; i++)
		assert_int_not_equal(atomic_load(&first->count[i]), atomic_load(&second->count[i]));
}

/* Only requests may carry a descriptor. */
static void it_is_asked_for_with_nothing_beside(void **state)
{
	int before = raw_fds_settled(), fd = raw_fds_dial(), file = raw_fds_make();

	assert_int_equal(raw_fds_ask(fd, raw_fds_header(FDS_CHANGES, -1), &file, 1),
			 GPUSHARE_E_PROTOCOL);
	assert_int_equal(raw_fds_hear(fd), 1);
	close(file);
	close(fd);
	raw_fds_await(before);
}

UNIT_MAIN(RAW_TEST(a_count_grows_when_its_name_goes_or_is_replaced),
	  RAW_TEST(nobody_else_writes_to_it), RAW_TEST(every_daemon_begins_elsewhere),
	  RAW_TEST(it_is_asked_for_with_nothing_beside))
