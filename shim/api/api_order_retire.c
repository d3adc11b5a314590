/* SPDX-License-Identifier: MIT */
/*
 * Frees the orderings that streams have used. CUDA doesn't tell when no stream needs one any more:
 * a waiting stream may have been destroyed, and a graph may be launched late. So an ordering is
 * retired first. It is freed later, when all numbers that streams wait for or write have arrived.
 */
#include "api_order_stream.h"
#include "base/fork_check.h"

#include <utlist.h>

/* Orderings are freed in batches of this size: freeing one waits for the GPU, as cuMemFree does. */
#define RETIRED_MANY 32

/* All orderings that streams have used, in use and retired. */
static struct {
	pthread_mutex_t lock; /* never held over a CUDA call */
	unsigned int process; /* the owner of the orderings: a forked child has none */
	struct ordering *first;
} views = {.lock = PTHREAD_MUTEX_INITIALIZER};

void view_add(struct ordering *ordering)
{
	pthread_mutex_lock(&views.lock);
	if (views.process != fork_check_number()) {
		views.process = fork_check_number();
		views.first = NULL;
	}
	LL_PREPEND2(views.first, ordering, next_view);
	pthread_mutex_unlock(&views.lock);
}

/* Whether a stream has still to release in the slot. When all has come, another consumer may get it,
 * so don't look any more. */
static bool has_late_release(struct ordering *ordering)
{
	uint32_t slot = atomic_load(&ordering->slot);
	const struct order_slot *its;

	if (!slot)
		return false;
	its = &ordering->page->slot[slot - 1];
	if (!order_reaches(atomic_load(&its->released), atomic_load(&its->given)))
		return true;
	atomic_store(&ordering->slot, 0);
	return false;
}

/* Whether a stream has still to write a number that it was given. Graphs don't count. */
static bool is_written_to(struct ordering *ordering)
{
	return has_late_release(ordering) || atomic_load(&ordering->pending) ||
	       !order_reaches(atomic_load(&ordering->page->published),
			      atomic_load(&ordering->publishing.last));
}

/* Whether a stream waits on this page for another participant. */
static bool is_waited_on(const struct ordering *ordering)
{
	uint64_t published = atomic_load(&ordering->page->published);
	uint32_t at = 0;

	return (!(published & ORDER_GONE_BIT) && /* which ends all waits for it */
		!order_reaches(published, atomic_load(&ordering->waited))) ||
	       order_next_behind(ordering->page, atomic_load(&ordering->reclaimed), &at);
}

/* Whether this one prevents the freeing of any other. Freeing waits for the GPU, and so also for
 * streams that wait or have still to write here. Such streams may depend on this thread. */
static bool is_held_up(struct ordering *ordering)
{
	return (ordering->retired && is_written_to(ordering)) || is_waited_on(ordering);
}

/* Take an ordering to free. NULL: there are fewer than `many`, or one in the list is held up. */
static struct ordering *take_quiet(unsigned int many)
{
	struct ordering *each, *quiet = NULL;
	unsigned int count = 0;
	bool held_up = false;

	pthread_mutex_lock(&views.lock);
	LL_FOREACH2 (views.first, each, next_view) {
		held_up |= is_held_up(each);
		if (!each->retired || atomic_load(&each->stays))
			continue;
		quiet = each;
		count++;
	}
	if (held_up || count < many)
		quiet = NULL;
	if (quiet)
		LL_DELETE2(views.first, quiet, next_view);
	pthread_mutex_unlock(&views.lock);
	return quiet;
}

static void view_close(struct ordering *ordering)
{
	struct order_scope scope = {.driver = NULL};
	const struct driver *driver = ordering->driver;

	if (order_enter(driver, ordering->context, &scope) == GPUSHARE_OK) {
		if (ordering->view)
			view_drop(driver, ordering->view);
		if (ordering->probe)
			driver->cuEventDestroy_v2(ordering->probe);
	}
	order_leave(&scope);
	ordering_free(ordering);
}

/* Free orderings if at least `many` can be. Freeing one waits for the GPU, and streams may get more
 * work meanwhile. So each round looks at all of them again. */
static void sweep(unsigned int many)
{
	struct ordering *taken;

	while ((taken = take_quiet(many))) {
		view_close(taken);
		many = 1;
	}
}

bool stream_keep(struct ordering *ordering)
{
	if (!atomic_load(&ordering->means))
		return false;
	pthread_mutex_lock(&views.lock);
	ordering->retired = true;
	pthread_mutex_unlock(&views.lock);
	sweep(RETIRED_MANY);
	return true;
}

bool stream_sweep(const struct gpushare_session *session)
{
	struct ordering *each = NULL;

	if (views.process != fork_check_number())
		return false;
	sweep(1);
	pthread_mutex_lock(&views.lock);
	LL_FOREACH2 (views.first, each, next_view) {
		if (each->session == session && !atomic_load(&each->stays))
			break;
	}
	pthread_mutex_unlock(&views.lock);
	return each;
}
