/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_WORKER_H
#define TESTS_CHAOS_WORKER_H
/*
 * A worker that is killed, or outlives one that is: PROGRAM PAGE INDEX ROLE KIND NAME SIZE SEED.
 * Each program (this library's API, a plain driver program) fills in a struct way.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "chaos.h"

struct worker {
	struct chaos_page *page;
	bool owns;
	const char *kind, *name;
	size_t size;
	uint64_t seed;
	unsigned char *host; /* `size` bytes */
};

/* Each returns an error text, or NULL for success. */
struct way {
	const char *(*start)(void);
	const char *(*call)(const struct worker *worker); /* share, or attach */
	const char *(*write)(const struct worker *worker);
	const char *(*read)(const struct worker *worker);
	/* publish, or consume what is published; called repeatedly */
	const char *(*turn)(const struct worker *worker);
	const char *(*end)(const struct worker *worker); /* free, or detach */
};

static void worker_check(const struct worker *worker, const char *what, const char *trouble)
{
	if (!trouble)
		return;
	snprintf(worker->page->trouble, sizeof(worker->page->trouble), "%s: %s", what, trouble);
	_exit(1);
}

static void worker_pass(const struct worker *worker, enum chaos_gate gate)
{
	struct chaos_page *page = worker->page;
	uint32_t open;

	atomic_store(&page->asked_ns[gate], chaos_now_ns());
	atomic_store(&page->asked, gate);
	while ((open = atomic_load(&page->open)) < gate)
		syscall(SYS_futex, &page->open, FUTEX_WAIT, open, NULL, NULL, 0);
}

static const char *worker_compare(const struct worker *worker, const struct way *way)
{
	const char *trouble;

	memset(worker->host, 0, worker->size);
	trouble = way->read(worker);
	if (trouble)
		return trouble;
	return chaos_is_pattern(worker->host, worker->size, worker->seed)
		   ? NULL
		   : "the contents are not what the owner wrote";
}

static void worker_stay_busy(const struct worker *worker, const struct way *way)
{
	struct chaos_page *page = worker->page;

	while (atomic_load(&page->open) < CHAOS_END) {
		if (!worker->owns)
			worker_check(worker, "copying", worker_compare(worker, way));
		if (page->publishes)
			worker_check(worker, worker->owns ? "publishing" : "consuming",
				     way->turn(worker));
		atomic_fetch_add(&page->copies, 1);
		chaos_nap_us(500 * (long)page->pace);
	}
}

static int worker_run(char **argument, const struct way *way)
{
	struct worker worker = {
	    .owns = !strcmp(argument[3], "owner"),
	    .kind = argument[4],
	    .name = argument[5],
	    .size = strtoull(argument[6], NULL, 10),
	    .seed = strtoull(argument[7], NULL, 10),
	};
	int page = atoi(argument[1]), index = atoi(argument[2]);
	size_t all = sizeof(*worker.page) * (size_t)(index + 1);
	struct chaos_page *pages = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	worker.host = malloc(worker.size);
	if (pages == MAP_FAILED || !worker.host)
		return 2;
	close(page);
	worker.page = pages + index;
	worker_check(&worker, "starting", way->start());
	worker_pass(&worker, CHAOS_CALL);
	worker_check(&worker, worker.owns ? "sharing" : "attaching", way->call(&worker));
	worker_pass(&worker, CHAOS_WRITE);
	chaos_pattern(worker.host, worker.size, worker.seed);
	worker_check(&worker, worker.owns ? "writing" : "reading",
		     worker.owns ? way->write(&worker) : worker_compare(&worker, way));
	worker_pass(&worker, CHAOS_BUSY);
	worker_stay_busy(&worker, way);
	worker_check(&worker, "reading again", worker_compare(&worker, way));
	worker_pass(&worker, CHAOS_END);
	worker_check(&worker, worker.owns ? "freeing" : "detaching", way->end(&worker));
	worker_pass(&worker, CHAOS_ENDED);
	free(worker.host);
	return 0;
}

#endif
