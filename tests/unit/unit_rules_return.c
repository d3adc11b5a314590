/* SPDX-License-Identifier: MIT */
/* Rules: what a failed allocation gives back, in every order and from several threads. */
#include "unit.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "unit_rules.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/*
 * A capital is an allocation of one byte, or of as many as the digit after it says; the small
 * letter is its failure. `names` are what the capitals get, "-" for none.
 */
static const struct {
	const char *rules, *script, *names;
} scripts[] = {
    {"w", "A a B C", "w w -"},
    {"w", "A a A a A a B", "w w w w"},
    {"w,k", "A B a C D", "w k w -"},
    {"w,k", "A B b a C D E", "w k w k -"},
    {"w,k", "A B a b C D E", "w k w k -"},
    {"w%i", "A B b C", "w0 w1 w1"},
    {"w%i", "A B a C", "w0 w1 w2"},
    {"w%i", "A B a b C", "w0 w1 w1"},
    {"w%i", "A B C c b a D", "w0 w1 w2 w0"},
    {"w%i", "A B C a b c D", "w0 w1 w2 w2"},
    {"w%i", "A B C b c D E", "w0 w1 w2 w2 w3"},
    {"w%i", "A B b C a D", "w0 w1 w1 w2"},
    {"w:nth=1", "A a B C", "w w -"},
    {"w:nth=2", "A B b C D", "- w w -"},
    {"w%i:nth=2-3", "A B C c D E", "- w0 w1 w1 -"},
    {"w%i:nth=2-3", "A B b C D E", "- w0 w0 w1 -"},
    {"w%i:nth=2-3", "A B C b D E", "- w0 w1 w2 -"},
    /* it was counted by each rule whose selectors held, and by no other */
    {"a,b:nth=2", "A a B C", "a a b"},
    {"a,b:nth=2", "A B a C D", "a b a -"},
    {"a:size=2,b:nth=3", "A2 a B1 C1 D1 E1", "a - - b -"},
    {"a:size=2,b:nth=2:size=1", "A1 B2 b C1 D1", "- a b -"},
    /* the name is the Nth's, who came meanwhile: it goes to no later one */
    {"w:nth=1", "A B a C", "w - -"},
    /* an Nth is one allocation, whatever was returned */
    {"big:size=2,b%i:nth=2", "A2 B1 a C1 D1", "big b0 - -"},
    {"big:size=2,b%i:nth=2-3", "A2 B1 a C1 D1", "big b0 b1 -"},
};

static void run_script(struct rules *rules, const char *script, char *names)
{
	struct rules_match matches[26];
	struct rules_allocation whats[26];

	for (const char *at = script; *at; at++) {
		int slot = tolower(*at) - 'a';

		if (islower(*at)) {
			rules_return(rules, &whats[slot], &matches[slot]);
		} else if (isupper(*at)) {
			matches[slot] = (struct rules_match){.name = "-"};
			whats[slot].size = isdigit(at[1]) ? (uint64_t)(at[1] - '0') : 1;
			rules_match(rules, &whats[slot], &process, &matches[slot]);
			strcat(strcat(names, *names ? " " : ""), matches[slot].name);
		}
	}
}

static void what_failed_is_given_to_the_next(void **state)
{
	for (size_t i = 0; i < COUNT(scripts); i++) {
		for (int kind = RULES_NAME; kind <= RULES_ATTACH; kind++) {
			struct rules *rules = parsed((enum rules_kind)kind, scripts[i].rules);
			char names[128] = "";

			run_script(rules, scripts[i].script, names);
			if (strcmp(names, scripts[i].names) != 0)
				fail_msg("%s: %s: got %s", scripts[i].rules, scripts[i].script,
					 names);
			rules_free(rules);
		}
	}
}

static void a_match_says_which_rule_and_index(void **state)
{
	struct rules *rules = parsed(RULES_NAME, "one,two:size=2,w%i");
	static const struct {
		uint64_t size, rule, index;
	} rows[] = {{2, 0, 0}, {1, 2, 0}, {2, 1, 0}, {2, 2, 1}, {1, 2, 2}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rules_match match;

		assert_true(rules_match(rules, &(struct rules_allocation){.size = rows[i].size},
					&process, &match));
		assert_int_equal(match.rule, rows[i].rule);
		assert_int_equal(match.index, rows[i].index);
	}
	rules_free(rules);
}

static void a_return_counts_only_where_the_selectors_held(void **state)
{
	struct rules_allocation app = {.size = 1, .driver = RULES_API_cuMemAlloc, .from = "./app"};
	struct rules_allocation lib = {
	    .size = 1, .device = 1, .driver = RULES_API_cuMemCreate, .from = "/lib/lib.so"};
	/* each of the last three sees one of the two */
	struct rules *rules = parsed(
	    RULES_NAME, "any%i:nth=1-4,d:device=1:nth=2,a:api=cuMemAlloc:nth=3,f:from=lib*:nth=4");
	struct rules_match match, failed;

	for (int i = 0; i < 2; i++)
		assert_true(rules_match(rules, &app, &process, &match));
	assert_true(rules_match(rules, &lib, &process, &match));
	assert_true(rules_match(rules, &lib, &process, &failed));
	assert_string_equal(failed.name, "any3");
	rules_return(rules, &lib, &failed); /* any: 3, d: 1, a: 2, f: 1 */
	assert_true(rules_match(rules, &app, &process, &match));
	assert_string_equal(match.name, "any3"); /* any: 4, a: 3 */
	assert_true(rules_match(rules, &lib, &process, &match));
	assert_string_equal(match.name, "d");
	assert_false(rules_match(rules, &lib, &process, &match));
	assert_true(rules_match(rules, &lib, &process, &match));
	assert_string_equal(match.name, "f");
	rules_free(rules);
}

static void a_return_brings_spent_rules_to_life(void **state)
{
	static const char *const texts[] = {"w", "w:nth=1", "w%i:nth=1", "w:size=1,w:size=2:nth=1"};
	static const bool alive[] = {false, false, false, true};

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct rules *rules = parsed(RULES_NAME, texts[i]);
		struct rules_allocation what = {.size = 1};
		struct rules_match match;

		assert_true(rules_match(rules, &what, &process, &match));
		assert_int_equal(rules_alive(rules), alive[i]);
		rules_return(rules, &what, &match);
		assert_true(rules_alive(rules));
		rules_free(rules);
	}
}

#define LIVE 5

/* The `number`th order of LIVE things. */
static void permutation(int number, int order[LIVE])
{
	for (int i = 0; i < LIVE; i++)
		order[i] = i;
	for (int left = LIVE; left > 1; number /= left, left--) {
		int pick = number % left, kept = order[pick];

		order[pick] = order[left - 1];
		order[left - 1] = kept;
	}
}

/* All of nth=1-5 match, `count` of them fail in this order: then as many match again, no more. */
static void return_in_order(const int order[LIVE], int count)
{
	struct rules *rules = parsed(RULES_NAME, "w%i:nth=1-5");
	struct rules_allocation what = {.size = 1};
	struct rules_match matches[LIVE], more;

	for (int i = 0; i < LIVE; i++)
		assert_true(rules_match(rules, &what, &process, &matches[i]));
	assert_false(rules_alive(rules));
	for (int i = 0; i < count; i++)
		rules_return(rules, &what, &matches[order[i]]);
	for (int i = 0; i < count; i++)
		assert_true(rules_match(rules, &what, &process, &matches[order[i]]));
	assert_false(rules_match(rules, &what, &process, &more));
	assert_false(rules_alive(rules));
	for (int i = 0; i < LIVE; i++)
		for (int other = 0; other < i; other++)
			assert_string_not_equal(matches[i].name, matches[other].name);
	rules_free(rules);
}

static void returns_in_any_order_leave_room_for_as_many(void **state)
{
	for (int number = 0; number < 1 * 2 * 3 * 4 * 5; number++) {
		int order[LIVE];

		permutation(number, order);
		for (int count = 1; count <= LIVE; count++)
			return_in_order(order, count);
	}
}

#define MATCHERS 4
#define ASKERS 2
#define ROUNDS 5000 /* of three, the first fails */

/* Matchers share a lock, as the rules ask of them; askers take none. */
struct crowd {
	pthread_mutex_t lock;
	struct rules *rules;
	char kept[MATCHERS * ROUNDS]; /* by index: how many allocations have it */
	int kept_count, failures;
	atomic_int matching, wrong;
};

static void match_once(struct crowd *crowd, int round)
{
	struct rules_allocation what = {
	    .size = (uint64_t)round % 2 + 1, .driver = RULES_API_cuMemAlloc, .from = "./app"};
	struct rules_match match;
	bool matched;

	pthread_mutex_lock(&crowd->lock);
	matched = rules_match(crowd->rules, &what, &process, &match);
	pthread_mutex_unlock(&crowd->lock);
	if (!matched || match.rule != 1 || match.index >= sizeof(crowd->kept)) {
		atomic_fetch_add(&crowd->wrong, 1);
		return;
	}
	pthread_mutex_lock(&crowd->lock);
	if (round % 3) {
		crowd->kept[match.index]++;
		crowd->kept_count++;
	} else {
		rules_return(crowd->rules, &what, &match);
		crowd->failures++;
	}
	pthread_mutex_unlock(&crowd->lock);
}

static void *matcher(void *context)
{
	struct crowd *crowd = context;

	for (int round = 0; round < ROUNDS; round++)
		match_once(crowd, round);
	atomic_fetch_sub(&crowd->matching, 1);
	return NULL;
}

static void *asker(void *context)
{
	struct crowd *crowd = context;

	do {
		struct rules_allocation what = {.size = 2, .driver = RULES_API_cuMemAlloc};

		if (!rules_concern(crowd->rules, &what))
			atomic_fetch_add(&crowd->wrong, 1);
		what.size = 3;
		if (rules_concern(crowd->rules, &what))
			atomic_fetch_add(&crowd->wrong, 1);
	} while (atomic_load(&crowd->matching) > 0);
	return NULL;
}

static void threads_never_share_an_index_and_askers_need_no_lock(void **state)
{
	static struct crowd crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .matching = MATCHERS};
	pthread_t threads[MATCHERS + ASKERS];
	struct rules_match match;

	crowd.rules = parsed(RULES_NAME, "c:api=cuMemCreate:size=1-2,w%i:from=app:size=1-2,"
					 "n:size=1-2:nth=13334");
	for (int i = 0; i < MATCHERS + ASKERS; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, i < MATCHERS ? matcher : asker, &crowd), 0);
	for (int i = 0; i < MATCHERS + ASKERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.wrong, 0);
	for (size_t i = 0; i < sizeof(crowd.kept); i++)
		assert_in_range(crowd.kept[i], 0, 1);
	/* what failed left no trace in the counts: the next allocation is this one */
	assert_int_equal(crowd.kept_count, MATCHERS * ROUNDS - crowd.failures);
	assert_int_equal(crowd.kept_count, 13332);
	assert_true(rules_match(crowd.rules, &(struct rules_allocation){.size = 1, .from = "app"},
				&process, &match));
	assert_int_equal(match.rule, 1);
	assert_true(
	    rules_match(crowd.rules, &(struct rules_allocation){.size = 1}, &process, &match));
	assert_string_equal(match.name, "n");
	rules_free(crowd.rules);
}

struct queue {
	struct rules *rules;
	pthread_mutex_t lock;
	atomic_int passed, matched;
};

static void *passer(void *context)
{
	const struct rules_allocation what = {.size = 1};
	struct queue *queue = context;
	struct rules_match match;
	bool matched;

	for (int round = 0; round < ROUNDS; round++) {
		size_t asked = rules_pass(queue->rules, &what);

		if (rules_passed(queue->rules, asked)) {
			atomic_fetch_add(&queue->passed, 1);
			continue;
		}
		pthread_mutex_lock(&queue->lock);
		matched = rules_match_from(queue->rules, asked, &what, &process, &match);
		pthread_mutex_unlock(&queue->lock);
		atomic_fetch_add(&queue->matched, matched);
	}
	return NULL;
}

static void who_counts_without_a_lock_leaves_the_wanted_ones(void **state)
{
	static struct queue queue = {.lock = PTHREAD_MUTEX_INITIALIZER};
	const struct rules_allocation other = {.size = 9};
	pthread_t threads[MATCHERS];

	queue.rules =
	    parsed(RULES_NAME, "a:size=1:nth=1000-1002,w%i:size=1:nth=2000-2003,z:size=5");
	for (int i = 0; i < MATCHERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, passer, &queue), 0);
	for (int i = 0; i < MATCHERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(queue.matched, 1 + 4);
	assert_in_range(queue.passed, MATCHERS * ROUNDS - 100, MATCHERS * ROUNDS - 5);
	/* what no selector lets through is passed too, and counted nowhere */
	assert_true(rules_passed(queue.rules, rules_pass(queue.rules, &other)));
	assert_int_equal(rules_pass(queue.rules, &(struct rules_allocation){.size = 5}), 2);
	assert_true(rules_passed(NULL, rules_pass(NULL, &other)));
	rules_free(queue.rules);
}

UNIT_MAIN(UNIT(who_counts_without_a_lock_leaves_the_wanted_ones),
	  UNIT(what_failed_is_given_to_the_next), UNIT(a_match_says_which_rule_and_index),
	  UNIT(a_return_counts_only_where_the_selectors_held),
	  UNIT(a_return_brings_spent_rules_to_life),
	  UNIT(returns_in_any_order_leave_room_for_as_many),
	  UNIT(threads_never_share_an_index_and_askers_need_no_lock))
