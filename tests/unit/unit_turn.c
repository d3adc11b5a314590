/* SPDX-License-Identifier: MIT */
/* Turns: one thread at a time has the turn. A waiting thread gets it, or gives up in time. */
#include "unit.h"

#include "api/api_turn.h"
#include "base/monotonic.h"

#define THREADS 4
#define ROUNDS 20000
#define LONG_MS 60000

static struct turn turn;
static unsigned int inside, done; /* in the turn */

static void *take_each(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (!turn_take(&turn, LONG_MS))
			abort();
		if (inside++)
			abort();
		done++;
		inside--;
		turn_give(&turn);
	}
	return unused;
}

static void one_at_a_time(void **state)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_each, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(done, THREADS * ROUNDS);
	assert_int_equal(turn.word, 0);
}

static void *take_late(void *out_taken)
{
	*(bool *)out_taken = turn_take(&turn, LONG_MS);
	return NULL;
}

static void who_waits_is_woken_or_gives_up(void **state)
{
	int64_t began_ms = monotonic_ms();
	bool taken = false;
	pthread_t thread;

	assert_true(turn_take(&turn, 0));
	assert_false(turn_take(&turn, 0));
	assert_false(turn_take(&turn, 50));
	assert_true(monotonic_ms() - began_ms >= 49);
	assert_int_equal(pthread_create(&thread, NULL, take_late, &taken), 0);
	usleep(50000);
	turn_give(&turn);
	pthread_join(thread, NULL);
	assert_true(taken && monotonic_ms() - began_ms < LONG_MS / 2);
	turn_give(&turn);
	assert_true(turn_take(&turn, 0));
	turn_give(&turn);
}

static void *give_up(void *unused)
{
	if (turn_take(&turn, 20))
		abort();
	return unused;
}

/* A thread that gives up doesn't use up the wake-up of the next one. */
static void who_gives_up_keeps_nobody_asleep(void **state)
{
	int64_t began_ms = monotonic_ms();
	pthread_t leaves, stays;
	bool taken = false;

	assert_true(turn_take(&turn, 0));
	assert_int_equal(pthread_create(&leaves, NULL, give_up, NULL), 0);
	usleep(5000);
	assert_int_equal(pthread_create(&stays, NULL, take_late, &taken), 0);
	pthread_join(leaves, NULL);
	usleep(20000);
	turn_give(&turn);
	pthread_join(stays, NULL);
	assert_true(taken && monotonic_ms() - began_ms < LONG_MS / 2);
	turn_give(&turn);
}

static void hear_signal(int number)
{
}

static void *take_in_time(void *out_waited_ms)
{
	int64_t began_ms = monotonic_ms();

	if (turn_take(&turn, 200))
		abort();
	*(int64_t *)out_waited_ms = monotonic_ms() - began_ms;
	return NULL;
}

/* Signals make the wait neither shorter nor longer. */
static void signals_change_no_deadline(void **state)
{
	const struct sigaction hears = {.sa_handler = hear_signal};
	int64_t waited_ms = 0;
	pthread_t thread;

	assert_int_equal(sigaction(SIGUSR1, &hears, NULL), 0);
	assert_true(turn_take(&turn, 0));
	assert_int_equal(pthread_create(&thread, NULL, take_in_time, &waited_ms), 0);
	for (int i = 0; i < 30; i++) {
		usleep(5000);
		pthread_kill(thread, SIGUSR1);
	}
	pthread_join(thread, NULL);
	assert_in_range(waited_ms, 199, LONG_MS / 2);
	turn_give(&turn);
}

UNIT_MAIN(UNIT(one_at_a_time), UNIT(who_waits_is_woken_or_gives_up),
	  UNIT(who_gives_up_keeps_nobody_asleep), UNIT(signals_change_no_deadline))
