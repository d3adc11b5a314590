/* SPDX-License-Identifier: MIT */
/* The list of deferred frees: limits, questions to the registry, contexts. */
#include "unit.h"

#include "core/buffer/deferred.h"

static struct deferred deferred;
static unsigned int asked;    /* number of calls of ask() */
static int answer;	      /* what ask() returns */
static uint64_t attached[70]; /* attachments by generation */

static int set_up(void **state)
{
	deferred = (struct deferred)DEFERRED_INITIALIZER;
	deferred_set_limit(&deferred, DEFERRED_BYTES);
	answer = GPUSHARE_OK;
	memset(attached, 0, sizeof(attached));
	return 0;
}

/* Return the list's generations as text, such as "1 2", and free it. */
static const char *taken(struct deferred_entry *list)
{
	static char text[512];

	text[0] = '\0';
	for (; list; list = deferred_next(list))
		sprintf(text + strlen(text), "%s%d", *text ? " " : "", (int)list->generation);
	return text;
}

static int tear_down(void **state)
{
	taken(deferred_take_all(&deferred));
	return deferred_any(&deferred);
}

static cu_context context_of(uint64_t number)
{
	return (cu_context)(uintptr_t)(number * 64);
}

static void put(uint64_t generation, uint64_t size)
{
	struct deferred_entry entry = {.pointer = generation << 21,
				       .size = size,
				       .generation = generation,
				       .context = context_of(generation % 2)};

	assert_true(deferred_put(&deferred, &entry));
	attached[generation] = 1;
}

static int ask(void *user, uint64_t generations[DEFERRED_MAX], size_t *count)
{
	size_t left = 0;

	assert_ptr_equal(user, &deferred);
	asked++;
	for (size_t i = 0; i < *count; i++)
		if (!attached[generations[i]])
			generations[left++] = generations[i];
	*count = left;
	return answer;
}

/* What the next question gives back. It comes after a pause. */
static const char *left(void)
{
	struct deferred_entry *list;

	for (asked = 0;; poll(NULL, 0, 5)) {
		list = deferred_take_left(&deferred, ask, &deferred);
		if (asked)
			return taken(list);
		assert_null(list);
	}
}

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
	    {"0", 0},
	    {"1", 1},
	    {"12K", 12000},
	    {"12Ki", 12288},
	    {"3M", 3000000},
	    {"3Mi", 3 << 20},
	    {"2G", 2000000000},
	    {"2Gi", UINT64_C(2) << 30},
	    {"18446744073709551615", UINT64_MAX},
	    {NULL, DEFERRED_BYTES},
	    {"", DEFERRED_BYTES},
	    {"-1", DEFERRED_BYTES},
	    {" 1", DEFERRED_BYTES},
	    {"1k", DEFERRED_BYTES},
	    {"1KiB", DEFERRED_BYTES},
	    {"1i", DEFERRED_BYTES},
	    {"1Kx", DEFERRED_BYTES},
	    {"1 K", DEFERRED_BYTES},
	    {"x", DEFERRED_BYTES},
	    {"18446744073709551616", DEFERRED_BYTES},
	    {"18446744073709551615K", DEFERRED_BYTES},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (deferred_parse(cases[i].text) != cases[i].bytes)
			fail_msg("%s", cases[i].text);
}

static void test_limits(void **state)
{
	deferred_set_limit(&deferred, 100);
	assert_true(deferred_fits(&deferred, 100) && !deferred_fits(&deferred, 101));
	put(1, 40);
	put(2, 40);
	put(3, 20);
	assert_null(deferred_take_over(&deferred));
	put(4, 1);
	assert_string_equal(taken(deferred_take_over(&deferred)), "1");
	deferred_set_limit(&deferred, 0);
	assert_string_equal(taken(deferred_take_over(&deferred)), "2 3 4");
}

static void test_left(void **state)
{
	for (uint64_t i = 1; i <= 4; i++)
		put(i, 1);
	attached[2] = 0;
	assert_string_equal(left(), "2");
	assert_string_equal(left(), "");
	attached[4] = attached[1] = 0;
	assert_string_equal(left(), "1 4");
	answer = GPUSHARE_E_TIMED_OUT;
	assert_string_equal(left(), "");
	answer = GPUSHARE_E_NO_REGISTRY;
	assert_string_equal(left(), "3");
}

/* A killed registry's successor will know the attachments. Entries wait for it, but not for
 * ever. */
static void test_one_may_come(void **state)
{
	for (uint64_t i = 1; i <= 3; i++)
		put(i, 1);
	answer = GPUSHARE_E_NOT_READY;
	for (int i = 0; i < 2; i++) {
		assert_string_equal(left(), "");
		deferred.alone_ms -= DEFERRED_ALONE_MS - 1000;
	}
	/* the registry answers, so the earlier wait no longer counts */
	answer = GPUSHARE_OK;
	attached[2] = 0;
	assert_string_equal(left(), "2");
	answer = GPUSHARE_E_NOT_READY;
	assert_string_equal(left(), "");
	deferred.alone_ms -= DEFERRED_ALONE_MS;
	assert_string_equal(left(), "1 3");
}

/* More entries than one request holds, as may be the case for a moment. It asks about the
 * oldest. */
static void test_many(void **state)
{
	for (uint64_t i = 1; i <= DEFERRED_MAX + 2; i++)
		put(i, 1);
	attached[DEFERRED_MAX] = attached[DEFERRED_MAX + 1] = 0;
	assert_string_equal(left(), "64");
	put(DEFERRED_MAX + 3, 1);
	assert_string_equal(taken(deferred_take_over(&deferred)), "1 2");
}

static void test_context(void **state)
{
	for (uint64_t i = 1; i <= 5; i++)
		put(i, 7);
	assert_true(deferred_holds(&deferred, 1 << 21, 1));
	assert_false(deferred_holds(&deferred, (1 << 21) + 1, (1 << 21) - 1));
	deferred_return(&deferred, deferred_take_of(&deferred, context_of(1)));
	assert_string_equal(taken(deferred_take_of(&deferred, context_of(0))), "2 4");
	assert_string_equal(taken(deferred_take_of(&deferred, context_of(1))), "1 3 5");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(test_parse), TEST(test_limits), TEST(test_left), TEST(test_one_may_come),
	  TEST(test_many), TEST(test_context))
