/* SPDX-License-Identifier: MIT */
/* Which process has claimed the shim, across every way to make a child, and at its end. */
#include "unit.h"

#include "preload/shim_process.h"

/* Run a part in a child, so that its claim doesn't affect other tests. */
static void in_child(void (*part)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(20);
		part();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

static void reap(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void unclaimed(void)
{
	pid_t child;

	CHECK(process_is_mine() && !process_is_ending());
	child = fork();
	if (!child) {
		CHECK(process_is_mine());
		process_claim();
		_exit(process_is_mine() ? 0 : 1);
	}
	reap(child);
	CHECK(process_is_mine());
}

static void anybodys_until_claimed(void **state)
{
	in_child(unclaimed);
}

static pid_t by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* A child is not the claimant and can't become it, and its own children neither. */
static void claimed_by(pid_t (*split)(void))
{
	pid_t child;

	process_claim();
	process_claim();
	CHECK(process_is_mine());
	child = split();
	if (!child) {
		CHECK(!process_is_mine());
		process_claim();
		CHECK(!process_is_mine());
		child = split();
		if (!child)
			_exit(process_is_mine() ? 1 : 0);
		reap(child);
		_exit(0);
	}
	reap(child);
	CHECK(process_is_mine());
}

static void claimed_fork(void)
{
	claimed_by(fork);
}

static void claimed_clone(void)
{
	claimed_by(by_clone);
}

/* A vfork() child shares the parent's memory: the parent must still be the claimant afterwards. */
static void claimed_vfork(void)
{
	pid_t child;

	process_claim();
	child = vfork();
	if (!child)
		_exit(0);
	reap(child);
	CHECK(process_is_mine());
}

/* An emulator doesn't wipe the pages in a forked child. */
static void needs_wipe_on_fork(void)
{
	const char *emulator = getenv("EMULATOR");

	if (!emulator || !*emulator)
		return;
	fprintf(stderr, "skipped: qemu-user ignores MADV_WIPEONFORK\n");
	skip();
}

static void a_child_passes_through(void **state)
{
	needs_wipe_on_fork();
	in_child(claimed_fork);
	in_child(claimed_clone);
	in_child(claimed_vfork);
}

static void *claim_in_thread(void *unused)
{
	process_claim();
	return process_is_mine() ? NULL : (void *)1;
}

static void claimed_by_threads(void)
{
	pthread_t threads[8];
	void *bad;
	pid_t child;

	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL, claim_in_thread, NULL));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_join(threads[i], &bad) && !bad);
	CHECK(process_is_mine());
	child = fork();
	if (!child)
		_exit(process_is_mine() ? 1 : 0);
	reap(child);
}

static void threads_claim_together(void **state)
{
	needs_wipe_on_fork();
	in_child(claimed_by_threads);
}

static void expect_ending(void)
{
	if (!process_is_ending())
		_exit(1);
}

static void expect_not_ending(void)
{
	if (process_is_ending())
		_exit(1);
}

/* Exit handlers run in reverse order: one registered before the claim sees the end, one
 * registered after it does not. */
static void claim_and_exit(void)
{
	atexit(expect_ending);
	process_claim();
	atexit(expect_not_ending);
	CHECK(!process_is_ending());
	exit(0);
}

static void the_end_is_known_from_exit_on(void **state)
{
	in_child(claim_and_exit);
}

UNIT_MAIN(UNIT(anybodys_until_claimed), UNIT(a_child_passes_through), UNIT(threads_claim_together),
	  UNIT(the_end_is_known_from_exit_on))
