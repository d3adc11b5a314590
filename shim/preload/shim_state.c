/* SPDX-License-Identifier: MIT */
#include "shim_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/client.h"
#include "core/buffer/deferred.h"
#include "base/shim_lock.h"
#include "shim_process.h"
#include "cuda/shim_quiet.h"

#define KINDS 2
#define VARIABLES (KINDS + 1) /* GPUSHARE_PUBLISH is the last */

struct state {
	struct rules *rules[KINDS]; /* by enum rules_kind */
	pthread_mutex_t lock;	    /* protects the rules' counters */
	bool asks_pid;		    /* a template contains %p */
	char rank[32];
	char log[256];
	_Atomic uint64_t allocations, largest; /* counted only for the log */
	int pid;	   /* a forked child, whose pid differs, logs nothing at its exit */
	uint64_t deferred; /* $GPUSHARE_DEFERRED_FREE, in bytes */
	unsigned int timeout_ms;
	unsigned int publishes; /* bits of enum publish_when */
};

static _Atomic(struct state *) current;
atomic_bool state_idle;

static const char *const variables[KINDS] = {
    [RULES_NAME] = "GPUSHARE_NAME",
    [RULES_ATTACH] = "GPUSHARE_ATTACH",
};

static const char *const rank_variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};

static void copy_variable(char *to, size_t room, const char *name)
{
	const char *value = secure_getenv(name);

	if (value && !to[0])
		snprintf(to, room, "%s", value);
}

/* A single write, so that lines of several threads or processes stay whole. A slow reader must not
 * block the program. If the reader has exited, the SIGPIPE of this write is consumed. */
static void put_line(int fd, const char *line)
{
	const struct iovec parts[] = {{(void *)(uintptr_t)line, strlen(line)}, {(void *)"\n", 1}};
	const struct timespec at_once = {0, 0};
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	sigset_t one, before, pending;

	if (poll(&room, 1, 0) != 1 || room.revents != POLLOUT)
		return;
	sigemptyset(&one);
	sigaddset(&one, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &one, &before);
	sigpending(&pending);
	if (writev(fd, parts, 2) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&one, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct state *state_new(char errors[VARIABLES][512])
{
	struct state *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	pthread_mutex_init(&made->lock, NULL);
	copy_variable(made->log, sizeof(made->log), "GPUSHARE_LOG");
	made->pid = made->log[0] ? getpid() : 0;
	made->deferred = deferred_parse(secure_getenv("GPUSHARE_DEFERRED_FREE"));
	for (size_t i = 0; i < sizeof(rank_variables) / sizeof(*rank_variables); i++)
		copy_variable(made->rank, sizeof(made->rank), rank_variables[i]);
	for (int kind = 0; kind < KINDS; kind++) {
		const char *text = secure_getenv(variables[kind]);

		errors[kind][0] = '\0';
		made->asks_pid |= text && strstr(text, "%p");
		if (text && *text)
			made->rules[kind] = rules_parse((enum rules_kind)kind, variables[kind],
							text, errors[kind], sizeof(errors[kind]));
	}
	made->publishes = when_parse(secure_getenv("GPUSHARE_PUBLISH"), errors[KINDS], 512);
	if (!made->rules[RULES_NAME])
		made->publishes = 0;
	made->timeout_ms = client_default_timeout_ms();
	return made;
}

/* Call it under the lock, or if there are no rules. */
static void note_idle(const struct state *state)
{
	bool idle = !state->log[0] && !rules_alive(state->rules[RULES_NAME]) &&
		    !rules_alive(state->rules[RULES_ATTACH]);

	atomic_store_explicit(&state_idle, idle, memory_order_relaxed);
}

/* No pthread_once, no lock: the first thread that stores its state wins, and prints the errors. If
 * there is no memory for a state, there are no rules. */
static struct state *state_get(void)
{
	static struct state none;
	struct state *known = atomic_load_explicit(&current, memory_order_acquire);
	char errors[VARIABLES][512];
	struct state *made;
	struct quiet quiet;

	if (known)
		return known;
	quiet = quiet_enter();
	made = state_new(errors);
	if (made && !atomic_compare_exchange_strong(&current, &known, made)) {
		for (int kind = 0; kind < KINDS; kind++)
			rules_free(made->rules[kind]);
		free(made);
		made = known;
	} else if (made) {
		if (!made->rules[RULES_NAME] && !made->rules[RULES_ATTACH])
			note_idle(made);
		for (int i = 0; i < VARIABLES; i++)
			if (errors[i][0])
				put_line(STDERR_FILENO, errors[i]);
	}
	quiet_leave(&quiet);
	return made ? made : &none;
}

bool state_is_active(void)
{
	const struct state *state = state_get();

	return state->rules[RULES_NAME] || state->rules[RULES_ATTACH];
}

static void count(struct state *state, uint64_t size)
{
	uint64_t largest = atomic_load_explicit(&state->largest, memory_order_relaxed);

	atomic_fetch_add_explicit(&state->allocations, 1, memory_order_relaxed);
	while (size > largest && !atomic_compare_exchange_weak(&state->largest, &largest, size))
		;
}

bool state_may_match(const struct rules_allocation *allocation)
{
	struct state *state = state_get();

	if (state->log[0])
		count(state, allocation->size);
	return rules_concern(state->rules[RULES_NAME], allocation) ||
	       rules_concern(state->rules[RULES_ATTACH], allocation);
}

uint64_t state_deferred(void)
{
	return state_get()->deferred;
}

unsigned int state_timeout_ms(void)
{
	return state_get()->timeout_ms;
}

bool state_publishes(enum publish_when when)
{
	return state_get()->publishes & when;
}

bool state_match(enum rules_kind kind, const struct rules_allocation *allocation,
		 struct rules_match *out)
{
	struct rules_process process = {.pid = 0};
	struct state *state = state_get();
	bool matched;
	size_t passed;

	passed = rules_pass(state->rules[kind], allocation);
	if (passed == RULES_NONE || !lock_take(&state->lock))
		return false;
	if (state->asks_pid)
		process.pid = getpid();
	process.rank = state->rank[0] ? state->rank : NULL;
	matched = rules_match(state->rules[kind], passed, allocation, &process, out);
	note_idle(state);
	pthread_mutex_unlock(&state->lock);
	if (matched)
		process_claim();
	return matched;
}

void state_return(enum rules_kind kind, size_t rule, uint64_t index)
{
	struct state *state = state_get();

	if (!lock_take(&state->lock))
		return;
	rules_return(state->rules[kind], rule, index);
	note_idle(state);
	pthread_mutex_unlock(&state->lock);
}

void state_uncount(enum rules_kind kind, const struct rules_allocation *allocation)
{
	struct state *state = state_get();

	if (!lock_take(&state->lock))
		return;
	rules_uncount(state->rules[kind], allocation);
	note_idle(state);
	pthread_mutex_unlock(&state->lock);
}

/* A function of its own: the line takes up the program's stack only if there is a log. */
__attribute__((noinline)) static void log_to(const struct state *state, const char *format,
					     va_list arguments)
{
	_quiet_ struct quiet quiet = quiet_enter();
	char line[1024];
	int size = snprintf(line, sizeof(line), "gpushare[%d]: ", (int)getpid());

	vsnprintf(line + size, sizeof(line) - (size_t)size, format, arguments);
	if (!strcmp(state->log, "stderr")) {
		put_line(STDERR_FILENO, line);
		return;
	}
	_cleanup_close_ int fd = open(
	    state->log,
	    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd >= 0)
		put_line(fd, line);
}

void state_log(const char *format, ...)
{
	const struct state *state = atomic_load_explicit(&current, memory_order_acquire);
	va_list arguments;

	if (!state || !state->log[0])
		return;
	va_start(arguments, format);
	log_to(state, format, arguments);
	va_end(arguments);
}

static void log_unmatched(const struct state *state, const struct rules *rules)
{
	const char *text;
	size_t length;

	for (size_t at = 0; (text = rules_unmatched(rules, at, &length)); at++) {
		if (length)
			state_log("rule \"%.*s\" matched none of %" PRIu64
				  " allocations (largest %" PRIu64 ")",
				  (int)length, text, state->allocations, state->largest);
	}
}

__attribute__((destructor)) static void state_exit(void)
{
	const struct state *state = atomic_load_explicit(&current, memory_order_acquire);

	if (!state || !state->log[0] || getpid() != state->pid)
		return;
	for (int kind = 0; kind < KINDS; kind++)
		log_unmatched(state, state->rules[kind]);
}
