/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_CREW_H
#define TESTS_CHAOS_CREW_H
/* The workers as the killer handles them: start, open gates, kill, wait for the end. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "chaos.h"

#define CREW_SLOTS 256
#define CREW_EACH 2 /* workers of one kill: an owner and an attacher */

/* X(kind, its program, options after the name in GPUSHARE_NAME, whether its buffer is kept) */
#define CREW_KINDS(X) \
	X(rule_ipc, "drv_chaos_worker", "", false) \
	X(rule_vmm, "drv_chaos_worker", ":vmm", false) \
	X(rule_keep, "drv_chaos_worker", ":keep", true) \
	X(ipc, "api_chaos_worker", NULL, false) \
	X(vmm, "api_chaos_worker", NULL, false) \
	X(keep, "api_chaos_worker", NULL, true)

static const struct crew_kind {
	const char *name, *program, *rule;
	bool keeps;
} crew_kinds[] = {
#define X(kind, program, rule, keeps) {#kind, program, rule, keeps},
    CREW_KINDS(X)
#undef X
};
#define CREW_KIND_COUNT (sizeof(crew_kinds) / sizeof(*crew_kinds))

struct crew {
	const char *programs, *preload; /* the programs' folder; the value for LD_PRELOAD */
	int memory;			/* memfd of the pages */
	atomic_int alive, most;		/* living workers: now, and the most at once */
	struct chaos_page *pages;
	int64_t deadline_ns; /* time limit for each step */
	bool publishes;	     /* owners publish and attachers consume */
	uint32_t pace;	     /* see chaos.h */
	/* Recent mean time from a gate to the next one: [0] attachers, [1] owners. */
	_Atomic int64_t usual_ns[2][CHAOS_GATE_COUNT];
};
static struct crew crew;

static void crew_note(int more)
{
	int alive = atomic_fetch_add(&crew.alive, more) + more, most = atomic_load(&crew.most);

	while (alive > most && !atomic_compare_exchange_weak(&crew.most, &most, alive))
		;
}

static void crew_nap_us(long us)
{
	chaos_nap_us(us * (long)crew.pace);
}

struct member {
	pid_t pid; /* 0: none */
	bool owns;
	struct chaos_page *page;
	int64_t opened_ns;
	char why[300]; /* what went wrong; "": nothing */
};

static bool member_fail(struct member *member, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (!*member->why)
		vsnprintf(member->why, sizeof(member->why), format, arguments);
	va_end(arguments);
	return false;
}

static bool crew_open(const char *programs, const char *preload, unsigned int slots,
		      int64_t deadline_ns)
{
	size_t size = sizeof(struct chaos_page) * CREW_SLOTS * CREW_EACH;

	crew.programs = programs;
	crew.preload = preload;
	crew.deadline_ns = deadline_ns;
	crew.pace = 1 + slots / 8;
	crew.memory = memfd_create("chaos", 0); /* the workers inherit it */
	if (crew.memory < 0 || ftruncate(crew.memory, (off_t)size))
		return false;
	crew.pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, crew.memory, 0);
	return crew.pages != MAP_FAILED;
}

/*
 * Copy the environment. If `rule` is not "", the program knows nothing of gpushare: add the preload
 * and the rule.
 */
static void crew_environment(char **to, size_t room, char *preload, char *rule)
{
	size_t count = 0;

	for (char **at = environ; *at && count + 4 < room; at++)
		to[count++] = *at;
	if (*rule) {
		to[count++] = preload;
		to[count++] = rule;
		if (crew.publishes)
			to[count++] = "GPUSHARE_PUBLISH=sync,free,exit";
	}
	to[count] = NULL;
}

/*
 * `place`: index of its page. An owner's kind says how it shares; an attacher's only chooses the
 * program.
 */
static bool member_start(struct member *member, int place, bool owns, const struct crew_kind *kind,
			 const char *name, size_t size, uint64_t seed)
{
	char program[512], preload[600], rule[400] = "", numbers[4][24];
	char *argv[] = {program,
			numbers[0],
			numbers[1],
			owns ? "owner" : "attacher",
			(char *)kind->name,
			(char *)name,
			numbers[2],
			numbers[3],
			NULL};
	char *environment[512];
	int error;

	*member = (struct member){.owns = owns, .page = crew.pages + place};
	memset(member->page, 0, sizeof(*member->page));
	member->page->pace = crew.pace;
	member->page->publishes = crew.publishes;
	snprintf(program, sizeof(program), "%s/%s", crew.programs, kind->program);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", crew.preload);
	if (kind->rule && owns)
		snprintf(rule, sizeof(rule), "GPUSHARE_NAME=%s%s", name, kind->rule);
	else if (kind->rule)
		snprintf(rule, sizeof(rule), "GPUSHARE_ATTACH=%s:must", name);
	snprintf(numbers[0], sizeof(numbers[0]), "%d", crew.memory);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", place);
	snprintf(numbers[2], sizeof(numbers[2]), "%zu", size);
	snprintf(numbers[3], sizeof(numbers[3]), "%llu", (unsigned long long)seed);
	crew_environment(environment, sizeof(environment) / sizeof(*environment), preload, rule);
	member->opened_ns = chaos_now_ns();
	error = posix_spawn(&member->pid, program, NULL, NULL, argv, environment);
	if (!error) {
		crew_note(1);
		return true;
	}
	member->pid = 0;
	return member_fail(member, "%s can't be started: %s", program, strerror(error));
}

static bool member_has_ended(const struct member *member)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)member->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/*
 * The gate where a worker stands when everything before `gate` is done. A busy worker asks for
 * CHAOS_END only after CHAOS_END is open.
 */
static enum chaos_gate gate_before(enum chaos_gate gate)
{
	return gate == CHAOS_END ? CHAOS_BUSY : gate;
}

/* Wait until the worker stands at `gate`. */
static bool member_await(struct member *member, enum chaos_gate gate)
{
	int64_t deadline = chaos_now_ns() + crew.deadline_ns;

	while (atomic_load(&member->page->asked) < gate_before(gate)) {
		if (member_has_ended(member))
			return member_fail(member, "%s ended: %s",
					   member->owns ? "owner" : "attacher",
					   member->page->trouble);
		if (chaos_now_ns() > deadline)
			return member_fail(member, "%s hangs before gate %d",
					   member->owns ? "owner" : "attacher", (int)gate);
		crew_nap_us(100);
	}
	return true;
}

static void member_open(struct member *member, enum chaos_gate gate)
{
	member->opened_ns = chaos_now_ns();
	atomic_store(&member->page->open, gate);
	syscall(SYS_futex, &member->page->open, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/*
 * Open all gates up to `gate`, each when the worker stands there. Then wait until it stands at the
 * next one.
 */
static bool member_advance(struct member *member, enum chaos_gate gate)
{
	for (enum chaos_gate at = atomic_load(&member->page->open) + 1; at <= gate; at++) {
		_Atomic int64_t *usual = &crew.usual_ns[member->owns][at];

		if (!member_await(member, at))
			return false;
		member_open(member, at);
		if (at == CHAOS_BUSY || at == CHAOS_ENDED)
			continue;
		if (!member_await(member, at + 1))
			return false;
		atomic_store(usual, (atomic_load(usual) * 7 + member->page->asked_ns[at + 1] -
				     member->opened_ns) /
					8);
	}
	return true;
}

/* Wait until the worker has made `more` more copies. */
static bool member_await_copies(struct member *member, uint64_t more)
{
	uint64_t wanted = atomic_load(&member->page->copies) + more;
	int64_t deadline = chaos_now_ns() + crew.deadline_ns;

	while (atomic_load(&member->page->copies) < wanted) {
		if (member_has_ended(member))
			return member_fail(member, "attacher ended: %s", member->page->trouble);
		if (chaos_now_ns() > deadline)
			return member_fail(member, "attacher copies no more");
		crew_nap_us(200);
	}
	return true;
}

/* Wait for the end and store the exit status. Kill a process that hangs. */
static bool member_reap(struct member *member, int *out_status)
{
	int64_t deadline = chaos_now_ns() + crew.deadline_ns;
	bool in_time = true;

	while (!member_has_ended(member)) {
		if (in_time && chaos_now_ns() > deadline) {
			in_time = member_fail(member, "%s does not end",
					      member->owns ? "owner" : "attacher");
			kill(member->pid, SIGKILL);
		}
		crew_nap_us(200);
	}
	waitpid(member->pid, out_status, 0);
	crew_note(-1);
	member->pid = 0;
	return in_time;
}

static bool member_kill(struct member *member)
{
	int status = 0;

	kill(member->pid, SIGKILL);
	if (!member_reap(member, &status))
		return false;
	if (WIFEXITED(status) && WEXITSTATUS(status))
		return member_fail(member, "%s ended by itself: %s",
				   member->owns ? "owner" : "attacher", member->page->trouble);
	return true;
}

/* Let the worker end by itself. */
static bool member_finish(struct member *member)
{
	int status = 0;

	if (!member_advance(member, CHAOS_ENDED) || !member_reap(member, &status))
		return false;
	if (status)
		return member_fail(member, "%s ended with %d: %s",
				   member->owns ? "owner" : "attacher", status,
				   member->page->trouble);
	return true;
}

#endif
