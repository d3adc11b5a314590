/* SPDX-License-Identifier: MIT */
#include "shim_line.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/monotonic.h"
#include "shim_live.h"
#include "base/shim_lock.h"
#include "shim_state.h"

/* Pauses after a failure. A call that fails at once costs little, and the registry may be
 * restarting: try again soon. After a failure that took SLOW_MS or more, pause much longer. */
#define SLOW_MS 100
#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 1000
#define PAUSE_SLOW_MIN_MS 1000
#define PAUSE_SLOW_MAX_MS 30000

struct line line;

static struct {
	pthread_mutex_t lock;
	unsigned int limit_ms;	/* time limit of one turn */
	int64_t began_ms;	/* start of this turn */
	int64_t quiet_until_ms; /* after a transport failure: no call before this time */
	int64_t pause_ms;	/* length of the latest pause; 0: the registry was reached since */
	atomic_bool unanswered; /* the latest transport failure was a missing answer */
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A forked child closes its copy of the socket: the parent's session must end with the parent. */
static void drop_in_child(void)
{
	client_disconnect(line.client);
}

static bool have_client(void)
{
	const struct client_options options = {.who = "shim",
					       .timeout_ms = state_timeout_ms(),
					       .autostart = true,
					       .shares_late = true};

	if (line.client)
		return true;
	line.client = client_new(&options);
	if (!line.client)
		return false;
	resync_by(&live_resync, &shim_resync_calls, line.client);
	turn.limit_ms = line.client->timeout_ms;
	pthread_atfork(NULL, NULL, drop_in_child);
	return true;
}

static int begin_turn(char *why, size_t why_size)
{
	if (!have_client()) {
		snprintf(why, why_size, "out of memory");
		return GPUSHARE_E_NO_MEMORY;
	}
	turn.began_ms = monotonic_ms();
	if (turn.quiet_until_ms && turn.began_ms < turn.quiet_until_ms) {
		snprintf(why, why_size, "the registry failed a moment ago; not asked again yet");
		return GPUSHARE_E_NO_REGISTRY;
	}
	line.until_ms = turn.began_ms + turn.limit_ms;
	if (line.client->connections && resync_missed(&live_resync))
		client_tell_anew(line.client);
	return GPUSHARE_OK;
}

int line_enter_by(int64_t until_ms, char *why, size_t why_size)
{
	int64_t left_ms = until_ms - monotonic_ms();
	int status;

	if (!lock_take_within(&turn.lock, left_ms > 0 ? (unsigned int)left_ms : 0)) {
		snprintf(why, why_size, "another thread's registry call took too long");
		return GPUSHARE_E_TIMED_OUT;
	}
	status = begin_turn(why, why_size);
	if (status != GPUSHARE_OK)
		pthread_mutex_unlock(&turn.lock);
	else if (line.until_ms > until_ms)
		line.until_ms = until_ms;
	return status;
}

int line_enter(char *why, size_t why_size)
{
	return line_enter_by(monotonic_ms() + state_timeout_ms(), why, why_size);
}

int line_enter_standing(bool *out_runs)
{
	int status;

	*out_runs = false;
	if (pthread_mutex_trylock(&turn.lock))
		return GPUSHARE_E_TIMED_OUT;
	line.until_ms = 0; /* line_leave() gets no time to share buffers again */
	if (client_stands(line.client))
		return GPUSHARE_OK;
	status = client_probe(line.client);
	pthread_mutex_unlock(&turn.lock);
	*out_runs = status == GPUSHARE_OK;
	return status == GPUSHARE_OK ? GPUSHARE_E_TIMED_OUT : status;
}

void line_leave(void)
{
	int64_t until_ms = line.until_ms;

	pthread_mutex_unlock(&turn.lock);
	if (resync_wants(&live_resync))
		shim_resync_share(until_ms);
}

bool line_standing(unsigned int *out_connection)
{
	if (pthread_mutex_trylock(&turn.lock))
		return false;
	*out_connection = client_stands(line.client) ? line.client->connections : 0;
	pthread_mutex_unlock(&turn.lock);
	return true;
}

bool line_is_unanswered(void)
{
	return atomic_load_explicit(&turn.unanswered, memory_order_relaxed);
}

/* Clear the pause if the registry was reached, else set a longer one. */
static void note(bool reached, int status)
{
	bool slow = monotonic_ms() - turn.began_ms >= SLOW_MS;
	int64_t least = slow ? PAUSE_SLOW_MIN_MS : PAUSE_MIN_MS;
	int64_t most = slow ? PAUSE_SLOW_MAX_MS : PAUSE_MAX_MS;

	turn.quiet_until_ms = 0;
	atomic_store_explicit(&turn.unanswered, !reached && status == GPUSHARE_E_TIMED_OUT,
			      memory_order_relaxed);
	if (reached) {
		turn.pause_ms = 0;
		return;
	}
	turn.pause_ms *= 2;
	if (turn.pause_ms < least)
		turn.pause_ms = least;
	if (turn.pause_ms > most)
		turn.pause_ms = most;
	turn.quiet_until_ms = monotonic_ms() + turn.pause_ms;
}

/* Limit the client to the time that is left in this turn. */
static struct client *limited(void)
{
	int64_t left_ms = line.until_ms - monotonic_ms();

	line.client->timeout_ms = left_ms > 0 ? (unsigned int)left_ms : 1;
	return line.client;
}

static int say(int status, char *why, size_t why_size)
{
	if (status != GPUSHARE_OK)
		snprintf(why, why_size, "%s", line.client->why);
	return status;
}

request *line_ask(pb_size_t verb)
{
	request *question = &line.client->request;

	memset(question, 0, sizeof(*question));
	question->which_verb = verb;
	line.client->goes = -1;
	return question;
}

int line_call(char *why, size_t why_size)
{
	int status = client_call(limited(), 0);

	note(status == GPUSHARE_OK || !client_is_silent(line.client), status);
	return say(status, why, why_size);
}

int line_give_back(char *why, size_t why_size)
{
	int64_t least_ms = monotonic_ms() + turn.limit_ms / 4;
	int status;

	if (line.until_ms < least_ms)
		line.until_ms = least_ms;
	line.client->giving_back = true;
	status = client_call(limited(), 0);
	line.client->giving_back = false;
	/* a success doesn't end the pause of an earlier failure */
	if (status != GPUSHARE_OK && client_is_silent(line.client))
		note(false, status);
	return say(status, why, why_size);
}

void line_fetch_changes(void)
{
	if (monotonic_ms() < line.until_ms)
		client_fetch_changes(limited());
}
