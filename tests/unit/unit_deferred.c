/* SPDX-License-Identifier: MIT */
/* Deferred frees: limits, questions to the registry, contexts, and failures without a driver or
 * memory. */
#include "unit.h"

static _Thread_local unsigned int mallocs_left = -1u; /* 0: malloc() fails */

static void *short_malloc(size_t size)
{
	if (!mallocs_left)
		return NULL;
	mallocs_left--;
	return malloc(size);
}

#define malloc short_malloc
#include "core/buffer/deferred.c"
#undef malloc

static struct deferred deferred;
static unsigned int asked;    /* number of calls of ask() */
static int answer;	      /* what ask() returns */
static uint64_t attached[70]; /* attachments by generation */

static int set_up(void **state)
{
	deferred = (struct deferred)DEFERRED_INITIALIZER;
	deferred_set_limit(&deferred, DEFERRED_BYTES);
	asked = 0;
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
	assert_false(deferred_any(&deferred));
	assert_int_equal(deferred.bytes, 0);
	return 0;
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

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
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

static void test_bytes(void **state)
{
	deferred_set_limit(&deferred, 100);
	assert_true(deferred_fits(&deferred, 100));
	assert_false(deferred_fits(&deferred, 101));
	put(1, 40);
	put(2, 40);
	put(3, 20);
	assert_null(deferred_take_over(&deferred));
	put(4, 1);
	assert_string_equal(taken(deferred_take_over(&deferred)), "1");
	put(5, 100);
	assert_string_equal(taken(deferred_take_over(&deferred)), "2 3 4");
	deferred_set_limit(&deferred, 0);
	assert_false(deferred_fits(&deferred, 1));
	assert_string_equal(taken(deferred_take_over(&deferred)), "5");
}

static void test_count(void **state)
{
	for (int i = 1; i <= DEFERRED_MAX; i++)
		put((uint64_t)i, 1);
	assert_null(deferred_take_over(&deferred));
	put(65, 1);
	put(66, 1);
	assert_string_equal(taken(deferred_take_over(&deferred)), "1 2");
	assert_int_equal(deferred.bytes, DEFERRED_MAX);
}

static void test_holds(void **state)
{
	assert_false(deferred_holds(&deferred, 0, UINT64_MAX));
	put(3, 1 << 21);
	assert_true(deferred_holds(&deferred, 3 << 21, 1));
	assert_false(deferred_holds(&deferred, (3 << 21) + 1, 1 << 21));
	assert_true(deferred_holds(&deferred, 2 << 21, (1 << 21) + 1));
	assert_false(deferred_holds(&deferred, 2 << 21, 1 << 21));
}

static void test_left(void **state)
{
	assert_null(deferred_take_left(&deferred, ask, &deferred));
	assert_int_equal(asked, 0);
	for (int i = 1; i <= 4; i++) {
		put((uint64_t)i, 1);
		attached[i] = i != 2;
	}
	/* the first put counts as a recent question */
	assert_null(deferred_take_left(&deferred, ask, &deferred));
	assert_int_equal(asked, 0);
	pause_ms(DEFERRED_PAUSE_MS + 1);
	assert_string_equal(taken(deferred_take_left(&deferred, ask, &deferred)), "2");
	attached[4] = attached[1] = 0;
	assert_null(deferred_take_left(&deferred, ask, &deferred));
	assert_int_equal(asked, 1);
	pause_ms(DEFERRED_PAUSE_MS + 1);
	assert_string_equal(taken(deferred_take_left(&deferred, ask, &deferred)), "1 4");
	assert_int_equal(asked, 2);
}

/* Without a registry all entries are freed. After a timeout they are kept. */
static void test_no_registry(void **state)
{
	for (int i = 1; i <= 3; i++)
		put((uint64_t)i, attached[i] = 1);
	pause_ms(DEFERRED_PAUSE_MS + 1);
	answer = GPUSHARE_E_TIMED_OUT;
	assert_null(deferred_take_left(&deferred, ask, &deferred));
	pause_ms(DEFERRED_PAUSE_MS + 1);
	answer = GPUSHARE_E_NO_REGISTRY;
	assert_string_equal(taken(deferred_take_left(&deferred, ask, &deferred)), "1 2 3");
}

/* A killed registry's successor will know the attachments. Entries wait for it, but not for
 * ever. */
static void test_one_may_come(void **state)
{
	for (int i = 1; i <= 3; i++)
		put((uint64_t)i, attached[i] = 1);
	answer = GPUSHARE_E_NOT_READY;
	for (int i = 0; i < 2; i++) {
		pause_ms(DEFERRED_PAUSE_MS + 1);
		assert_null(deferred_take_left(&deferred, ask, &deferred));
		deferred.alone_ms -= DEFERRED_ALONE_MS - 1000;
	}
	/* the registry answers, so the earlier wait no longer counts */
	answer = GPUSHARE_OK;
	attached[2] = 0;
	pause_ms(DEFERRED_PAUSE_MS + 1);
	assert_string_equal(taken(deferred_take_left(&deferred, ask, &deferred)), "2");
	answer = GPUSHARE_E_NOT_READY;
	pause_ms(DEFERRED_PAUSE_MS + 1);
	assert_null(deferred_take_left(&deferred, ask, &deferred));
	deferred.alone_ms -= DEFERRED_ALONE_MS;
	pause_ms(DEFERRED_PAUSE_MS + 1);
	assert_string_equal(taken(deferred_take_left(&deferred, ask, &deferred)), "1 3");
}

/* More entries than one request holds, as may be the case for a moment. It asks about the
 * oldest. */
static void test_many(void **state)
{
	for (int i = 1; i <= 66; i++)
		put((uint64_t)i, attached[i] = 1);
	attached[64] = attached[65] = 0;
	pause_ms(DEFERRED_PAUSE_MS + 1);
	assert_string_equal(taken(deferred_take_left(&deferred, ask, &deferred)), "64");
}

static void test_context(void **state)
{
	struct deferred_entry *list;

	for (int i = 1; i <= 5; i++)
		put((uint64_t)i, 7);
	list = deferred_take_of(&deferred, context_of(1));
	assert_int_equal(deferred.bytes, 14);
	assert_false(deferred_holds(&deferred, 1 << 21, 1));
	deferred_return(&deferred, list);
	assert_int_equal(deferred.bytes, 35);
	assert_string_equal(taken(deferred_take_of(&deferred, context_of(0))), "2 4");
	assert_string_equal(taken(deferred_take_of(&deferred, context_of(1))), "1 3 5");
}

static void test_no_memory(void **state)
{
	const struct deferred_entry entry = {.size = 1};

	mallocs_left = 0;
	assert_false(deferred_put(&deferred, &entry));
	mallocs_left = -1u;
}

/* Threads put, ask and take. No entry may be taken twice or lost. */
static _Atomic(uint64_t) sum_in, sum_out;

static uint64_t sum_of(struct deferred_entry *list)
{
	uint64_t sum = 0;

	for (; list; list = deferred_next(list))
		sum += list->generation;
	return sum;
}

static void *churn(void *number)
{
	uint64_t first = (uintptr_t)number * 1000 + 1;

	for (uint64_t i = first; i < first + 1000; i++) {
		struct deferred_entry entry = {.pointer = i, .size = 1 << 20, .generation = i};

		if (deferred_put(&deferred, &entry))
			sum_in += i;
		sum_out +=
		    sum_of(i % 100 ? deferred_take_over(&deferred) : deferred_take_all(&deferred));
		deferred_holds(&deferred, i, 1);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[4];

	deferred_set_limit(&deferred, 10 << 20);
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	sum_out += sum_of(deferred_take_all(&deferred));
	assert_int_equal(sum_in, sum_out);
	assert_int_equal(sum_in, 4000 * 4001 / 2);
}

static cu_result alloc_result, free_result;
static cu_deviceptr freed;

static cu_result fake_alloc(cu_deviceptr *pointer, size_t size)
{
	assert_int_equal(size, 1);
	*pointer = 4711;
	return alloc_result;
}

static cu_result fake_free(cu_deviceptr pointer)
{
	freed = pointer;
	return free_result;
}

static void test_stand_in(void **state)
{
	const struct driver fake = {.cuMemAlloc_v2 = fake_alloc, .cuMemFree_v2 = fake_free};

	assert_int_equal(deferred_stand_in(&fake), CU_OK);
	assert_int_equal(freed, 4711);
	free_result = CU_ILLEGAL_ADDRESS;
	assert_int_equal(deferred_stand_in(&fake), CU_ILLEGAL_ADDRESS);
	freed = 0;
	alloc_result = CU_STREAM_CAPTURE_UNSUPPORTED;
	assert_int_equal(deferred_stand_in(&fake), CU_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(freed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(test_parse), TEST(test_bytes), TEST(test_count), TEST(test_holds), TEST(test_left),
	  TEST(test_no_registry), TEST(test_many), TEST(test_context), TEST(test_one_may_come),
	  TEST(test_no_memory), TEST(test_threads), TEST(test_stand_in))
