/* SPDX-License-Identifier: MIT */
/* GPUSHARE_PUBLISH: its words, a publication that waits for nobody, and when the shim makes one. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/order/client_order.h"
#include "preloaded.h"
#include "preload/shim_hooks.h"
#include "preload/shim_lookup.h"
#include "preload/shim_pages.h"
#include "preload/shim_when.h"

static void parses_words(void **state)
{
	static const struct {
		const char *text;
		unsigned int bits;
	} good[] = {
	    {NULL, 0},
	    {"", 0},
	    {"sync", PUBLISH_SYNC},
	    {"free", PUBLISH_FREE},
	    {"exit", PUBLISH_EXIT},
	    {"exit,sync", PUBLISH_EXIT | PUBLISH_SYNC},
	    {"sync,free,exit", PUBLISH_SYNC | PUBLISH_FREE | PUBLISH_EXIT},
	    {"sync,sync", PUBLISH_SYNC},
	};
	char error[512];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(when_parse(good[i].text, error, sizeof(error)), good[i].bits);
		assert_string_equal(error, "");
	}
}

static void refuses_words(void **state)
{
	static const struct {
		const char *text, *marked;
	} bad[] = {
	    {"x", ">>>x<<<"},	      {",", ">>><<<,"},
	    {"sync,", "sync,>>><<<"}, {"sync,fre,exit", "sync,>>>fre<<<,exit"},
	    {"syncs", ">>>syncs<<<"}, {"Sync", ">>>Sync<<<"},
	    {" sync", ">>> sync<<<"},
	};
	char error[512], longest[4096];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(when_parse(bad[i].text, error, sizeof(error)), 0);
		assert_non_null(strstr(error, "gpushare: GPUSHARE_PUBLISH: "));
		assert_non_null(strstr(error, bad[i].marked));
		assert_null(strchr(error, '\n'));
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(when_parse(longest, error, sizeof(error)), 0);
	assert_non_null(strstr(error, "<<<"));
}

static struct order_page *page_begin(void)
{
	struct order_page *page;
	int fd = order_page_make(7, 9);

	assert_true(fd >= 0);
	assert_int_equal(order_page_map(fd, 7, &page), GPUSHARE_OK);
	close(fd);
	order_begin(page, 1);
	return page;
}

/* Numbers that another one gives are told from those of before; what is said again begins nothing. */
static void begins_anew(void **state)
{
	struct order_page *page = page_begin();

	atomic_store(&page->next, 5);
	order_begin(page, 1);
	assert_true(atomic_load(&page->next) == 5);
	order_begin(page, 2);
	assert_true(!atomic_load(&page->next));
	order_page_unmap(page);
}

static void publishes_now(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 0;

	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
		assert_int_equal(sequence, i);
		assert_int_equal(order_published(page), i);
	}
	assert_int_equal(order_publish(page, 0, NULL, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 4);
	order_page_unmap(page);
}

/* What a stream is still to publish, a thread that has the turn: neither is waited for, and no number
 * is lost by it. */
static void waits_for_nobody(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 0;

	atomic_store(&page->next, 1);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_NOT_READY);
	order_raise(&page->published, 1);
	assert_true(order_take_turn(page, 0));
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_NOT_READY);
	order_give_turn(page);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 2);
	order_page_unmap(page);
}

static void publishes_late_numbers(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 0;

	atomic_store(&page->late, 1);
	assert_int_equal(order_publish_late(page), 1);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_OK);
	assert_int_equal(sequence, 2);
	order_page_unmap(page);
}

static void ends_with_the_page(void **state)
{
	struct order_page *page = page_begin();
	uint64_t sequence = 77;

	order_mark_gone(page);
	assert_int_equal(order_publish_now(page, &sequence), GPUSHARE_E_OWNER_GONE);
	assert_int_equal(sequence, 77);
	assert_int_equal(order_published(page), 0);
	order_page_unmap(page);
}

static uint64_t published(const char *name)
{
	struct gpushare_info info;

	CHECK(preloaded_finds(name, &info));
	return info.sequence;
}

static void replace_what_is_asked(void)
{
	const struct driver *driver = preloaded("w", NULL);

	CHECK(lookup_replace((void *)driver->cuMemAlloc_v2) == (void *)hook_cuMemAlloc_v2);
#define S(name, ...) CHECK(lookup_replace((void *)driver->name) == (void *)hook_##name);
	SHIM_SYNC(S)
#undef S
}

static void replace_nothing_else(void)
{
	const struct driver *driver = preloaded("w", NULL);

	CHECK(lookup_replace((void *)driver->cuMemAlloc_v2) == (void *)hook_cuMemAlloc_v2);
#define S(name, ...) CHECK(lookup_replace((void *)driver->name) == (void *)driver->name);
	SHIM_SYNC(S)
#undef S
}

static void replaces(void **state)
{
	setenv("GPUSHARE_PUBLISH", "sync", 1);
	stage_play(replace_what_is_asked, NULL);
	setenv("GPUSHARE_PUBLISH", "free,exit", 1);
	stage_play(replace_nothing_else, NULL);
	unsetenv("GPUSHARE_PUBLISH");
	stage_play(replace_nothing_else, NULL);
}

static void publish_by_each_call(void)
{
	const struct driver *driver = preloaded("w", NULL);
	cu_deviceptr pointer;
	cu_event event;

	CHECK(preloaded_alloc(&pointer, BLOCK) == CU_OK);
	CHECK(published("w") == 0);
	errno = 77;
	CHECK(hook_cuCtxSynchronize() == CU_OK && published("w") == 1);
	CHECK(hook_cuCtxSynchronize_v2(NULL) == CU_OK && published("w") == 2);
	CHECK(hook_cuStreamSynchronize(NULL) == CU_OK && published("w") == 3);
	CHECK(hook_cuStreamSynchronize_ptsz(NULL) == CU_OK && published("w") == 4);
	CHECK(driver->cuEventCreate(&event, CU_EVENT_NO_TIMING) == CU_OK);
	CHECK(hook_cuEventSynchronize(event) == CU_OK && published("w") == 5);
	/* what the driver refuses publishes nothing */
	CHECK(hook_cuStreamSynchronize((cu_stream)(uintptr_t)0x1230) != CU_OK);
	CHECK(published("w") == 5);
	CHECK(preloaded_free(pointer) == CU_OK);
	CHECK(hook_cuCtxSynchronize() == CU_OK);
}

static void publishes_by_each_call(void **state)
{
	setenv("GPUSHARE_PUBLISH", "sync", 1);
	stage_play(publish_by_each_call, NULL);
	unsetenv("GPUSHARE_PUBLISH");
}

/* The publisher is one process, the owner from the moment on that it shares. */
static void publish_before_another(void)
{
	cu_deviceptr pointer;

	preloaded("w", NULL);
	CHECK(preloaded_alloc(&pointer, BLOCK) == CU_OK);
	say();
	hear();
	for (int i = 0; i < 3; i++) {
		errno = 77;
		pages_publish();
		CHECK(errno == 77);
	}
	CHECK(published("w") == 3);
	CHECK(preloaded_free(pointer) == CU_OK);
}

static void try_to_publish(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	uint64_t sequence;

	hear();
	OK(gpushare_attach(session, "w", NULL, &buffer));
	CHECK(gpushare_publish_host(buffer, &sequence) < 0);
	say();
	OK(gpushare_acquire_host(buffer, 3, 10000, &sequence));
	CHECK(sequence == 3 && gpushare_ordering(buffer) == GPUSHARE_ORDERING_HOST);
	OK(gpushare_close(session));
}

static void is_the_one_who_publishes(void **state)
{
	setenv("GPUSHARE_PUBLISH", "sync", 1);
	stage_play(publish_before_another, try_to_publish);
	unsetenv("GPUSHARE_PUBLISH");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parses_words),
	    cmocka_unit_test(refuses_words),
	    cmocka_unit_test(begins_anew),
	    cmocka_unit_test(publishes_now),
	    cmocka_unit_test(waits_for_nobody),
	    cmocka_unit_test(publishes_late_numbers),
	    cmocka_unit_test(ends_with_the_page),
	    cmocka_unit_test_setup_teardown(replaces, stage_open, stage_close),
	    cmocka_unit_test_setup_teardown(publishes_by_each_call, stage_open, stage_close),
	    cmocka_unit_test_setup_teardown(is_the_one_who_publishes, stage_open, stage_close),
	};

	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
