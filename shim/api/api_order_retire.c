/* SPDX-License-Identifier: MIT */
/*
 * Frees the orderings that streams have used. CUDA can't tell whether a stream still uses one. So
 * an ordering that its session no longer uses is only marked as retired. Retired ones are freed
 * later, in batches, when no stream waits on any page and none has still to write to a retired one.
 * An ordering that a graph has captured is never freed: the graph may be launched at any time.
 */
#include "api_order_stream.h"
#include "base/fork_check.h"

#include <unistd.h>
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
	DL_PREPEND2(views.first, ordering, prev_view, next_view);
	pthread_mutex_unlock(&views.lock);
}

static bool has_late_publication(const struct ordering *ordering)
{
	return atomic_load(&ordering->pending) ||
	       !order_reaches(atomic_load(&ordering->page->published),
			      atomic_load(&ordering->publishing.last));
}

/* Whether streams have released all up to `last` in the slot; true for slot 0 (none). */
static bool has_come(const struct ordering *ordering, uint32_t slot, uint64_t last)
{
	return !slot || order_reaches(atomic_load(&ordering->page->slot[slot - 1].released), last);
}

static bool has_late_release(const struct ordering *ordering)
{
	return atomic_load(&ordering->pending) || !has_come(ordering, atomic_load(&ordering->slot),
							    atomic_load(&ordering->releasing.last));
}

void stream_note_left(struct ordering *ordering, uint32_t slot, uint64_t last)
{
	if (!has_come(ordering, slot, last) && last > ordering->left[slot - 1])
		ordering->left[slot - 1] = last;
}

void stream_leave_slot(struct ordering *ordering, uint32_t next)
{
	uint32_t slot = atomic_exchange(&ordering->slot, next);

	stream_note_left(ordering, slot, atomic_exchange(&ordering->releasing.last, 0));
}

/* Whether a stream still has to write a number. Graphs don't count. */
static bool is_written_to(const struct ordering *ordering)
{
	bool late = has_late_publication(ordering) || has_late_release(ordering);

	for (uint32_t at = 0; !late && at < ORDER_SLOTS; at++)
		late = !has_come(ordering, ordering->left[at] ? at + 1 : 0, ordering->left[at]);
	return late;
}

/* Whether no stream waits on this page for another participant. */
static bool is_quiet(const struct ordering *ordering)
{
	uint64_t published = atomic_load(&ordering->page->published);
	uint32_t at = 0;

	return ((published & ORDER_GONE_BIT) || /* which ends all waits for it */
		order_reaches(published, atomic_load(&ordering->waited))) &&
	       !order_next_behind(ordering->page, atomic_load(&ordering->reclaimed), &at);
}

/* Whether this ordering forbids freeing any ordering. A free waits for the whole GPU, so also for
 * streams that wait on this ordering's page, or have still to write to it. Those streams may need
 * this thread to go on. */
static bool is_held_up(const struct ordering *ordering)
{
	return !is_quiet(ordering) || (ordering->retired && is_written_to(ordering));
}

/* Whether the ordering will be freed at some time: it is retired, and no graph has captured it. */
static bool is_to_go(const struct ordering *ordering)
{
	return ordering->retired && !atomic_load(&ordering->captured);
}

/* Under the lock: take an ordering to free, of `session` (NULL: any) or of a closed session. NULL:
 * there is none, or an ordering in the list is held up. */
static struct ordering *take_quiet(const struct gpushare_session *session)
{
	struct ordering *each, *quiet = NULL;

	LL_FOREACH2 (views.first, each, next_view) {
		if (is_held_up(each))
			return NULL;
		if (!quiet && is_to_go(each) &&
		    (!session || !each->session || each->session == session))
			quiet = each;
	}
	if (quiet)
		DL_DELETE2(views.first, quiet, prev_view, next_view);
	return quiet;
}

/* Under the lock. */
static bool are_many(unsigned int many)
{
	const struct ordering *each;
	unsigned int count = 0;

	LL_FOREACH2 (views.first, each, next_view) {
		count += is_to_go(each);
	}
	return count >= many;
}

static void view_close(struct ordering *ordering)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = ordering->driver;
	bool registered = atomic_load(&ordering->at);

	if (device_enter_relaxed(driver, ordering->context, &scope) == GPUSHARE_OK) {
		if (registered)
			registered = driver->cuMemHostUnregister(ordering->page) != CU_OK;
		if (ordering->probe)
			driver->cuEventDestroy_v2(ordering->probe);
	}
	if (registered)
		ordering->page = NULL; /* it stays mapped */
	ordering_free(ordering);
}

/* Free orderings if at least `many` can be. Freeing one waits for the GPU, and streams may get more
 * work meanwhile. So each round looks at all of them again. */
static void sweep(const struct gpushare_session *session, unsigned int many)
{
	struct ordering *taken;
	bool due;

	if (views.process != fork_check_number())
		return;
	pthread_mutex_lock(&views.lock);
	due = are_many(many);
	pthread_mutex_unlock(&views.lock);
	while (due) {
		pthread_mutex_lock(&views.lock);
		taken = take_quiet(session);
		pthread_mutex_unlock(&views.lock);
		due = taken;
		if (taken)
			view_close(taken);
	}
}

bool stream_keep(struct ordering *ordering)
{
	if (!atomic_load(&ordering->means))
		return false;
	pthread_mutex_lock(&views.lock);
	ordering->retired = true;
	pthread_mutex_unlock(&views.lock);
	sweep(NULL, RETIRED_MANY);
	return true;
}

/* An ordering that is freed later needs its context then, to unregister the page. So that context
 * stays retained until the process ends. An ordering that a graph has captured is never freed, and
 * its context is not retained for it. */
void stream_sweep(struct gpushare_session *session)
{
	struct ordering *each;

	sweep(session, 1);
	if (views.process != fork_check_number())
		return;
	pthread_mutex_lock(&views.lock);
	LL_FOREACH2 (views.first, each, next_view) {
		if (each->session != session)
			continue;
		each->session = NULL;
		if (!atomic_load(&each->captured))
			device_keep(&session->devices, each->context);
	}
	pthread_mutex_unlock(&views.lock);
}
