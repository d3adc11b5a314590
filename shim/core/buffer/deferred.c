/* SPDX-License-Identifier: MIT */
#include "deferred.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/monotonic.h"
#include "base/shim_lock.h"
#include "protocol.h"

uint64_t deferred_parse(const char *text)
{
	uint64_t bytes;
	const char *end = text ? text_size(text, &bytes) : NULL;

	return end && !*end ? bytes : DEFERRED_BYTES;
}

bool deferred_fits(const struct deferred *deferred, uint64_t size)
{
	return size <= atomic_load_explicit(&deferred->limit, memory_order_relaxed);
}

/* The caller holds the lock. */
static void append(struct deferred *deferred, struct deferred_entry *entry)
{
	LL_APPEND(deferred->first, entry);
	deferred->bytes += entry->size;
	atomic_fetch_add_explicit(&deferred->count, 1, memory_order_release);
}

bool deferred_put(struct deferred *deferred, const struct deferred_entry *entry)
{
	struct deferred_entry *made = malloc(sizeof(*made));

	if (!made || !lock_take(&deferred->lock)) {
		free(made);
		return false;
	}
	*made = *entry;
	if (!deferred->first) {
		/* The caller has just asked the registry, so the next request can wait. */
		deferred->asked_ms = deferred->looked_ms = monotonic_ms();
		deferred->alone_ms = 0;
	}
	append(deferred, made);
	pthread_mutex_unlock(&deferred->lock);
	return true;
}

bool deferred_holds(struct deferred *deferred, uint64_t base, uint64_t size)
{
	const struct deferred_entry *entry;

	if (!deferred_any(deferred) || !lock_take(&deferred->lock))
		return false;
	LL_FOREACH (deferred->first, entry) {
		if (entry->pointer >= base && entry->pointer - base < size)
			break;
	}
	pthread_mutex_unlock(&deferred->lock);
	return entry != NULL;
}

struct asked {
	uint64_t generations[DEFERRED_MAX];
	size_t count;
};

/* Which entries to take: all, those over the limits, those of a context, or those in `asked`. */
struct wanted {
	enum { ALL, OVER, CONTEXT, ASKED } what;
	cu_context context;
	const struct asked *asked;
};

static bool is_asked(const struct asked *asked, uint64_t generation)
{
	size_t at = 0;

	while (at < asked->count && asked->generations[at] != generation)
		at++;
	return at < asked->count;
}

static bool is_wanted(const struct deferred *deferred, const struct deferred_entry *entry,
		      const struct wanted *wanted)
{
	switch (wanted->what) {
	case OVER:
		return !deferred_fits(deferred, deferred->bytes) ||
		       atomic_load_explicit(&deferred->count, memory_order_relaxed) > DEFERRED_MAX;
	case CONTEXT:
		return entry->context == wanted->context;
	case ASKED:
		return is_asked(wanted->asked, entry->generation);
	default:
		return true;
	}
}

static struct deferred_entry *take(struct deferred *deferred, struct wanted wanted)
{
	struct deferred_entry *taken = NULL, **end = &taken, **link = &deferred->first, *entry;

	if (!deferred_any(deferred) || !lock_take(&deferred->lock))
		return NULL;
	if (wanted.what == ASKED)
		deferred->alone_ms = 0;
	while ((entry = *link)) {
		if (!is_wanted(deferred, entry, &wanted)) {
			link = &entry->next;
			continue;
		}
		*link = entry->next;
		*end = entry;
		end = &entry->next;
		deferred->bytes -= entry->size;
		atomic_fetch_sub_explicit(&deferred->count, 1, memory_order_release);
	}
	*end = NULL;
	pthread_mutex_unlock(&deferred->lock);
	return taken;
}

struct deferred_entry *deferred_take_over(struct deferred *deferred)
{
	return take(deferred, (struct wanted){.what = OVER});
}

struct deferred_entry *deferred_take_all(struct deferred *deferred)
{
	return take(deferred, (struct wanted){.what = ALL});
}

struct deferred_entry *deferred_take_of(struct deferred *deferred, cu_context context)
{
	return take(deferred, (struct wanted){.what = CONTEXT, .context = context});
}

void deferred_return(struct deferred *deferred, struct deferred_entry *list)
{
	struct deferred_entry *entry, *next;

	if (!list || !lock_take(&deferred->lock))
		return;
	LL_FOREACH_SAFE (list, entry, next) {
		append(deferred, entry);
	}
	pthread_mutex_unlock(&deferred->lock);
}

/* False: another thread asks, or the pause since the latest request is not over. If `waits`, the
 * caller waits for the answer, and no other such caller begins before end_to_ask(). Otherwise this
 * doesn't even wait for the lock. */
static bool begin_to_ask(struct deferred *deferred, bool waits, struct asked *asked)
{
	const struct deferred_entry *entry;
	int64_t now_ms = monotonic_ms();
	bool due;

	if (!deferred_any(deferred) ||
	    (waits ? !lock_take(&deferred->lock) : pthread_mutex_trylock(&deferred->lock) != 0))
		return false;
	due = deferred->first && !(waits && deferred->asking) &&
	      now_ms - (waits ? deferred->asked_ms : deferred->looked_ms) >= DEFERRED_PAUSE_MS;
	if (due) {
		if (waits)
			deferred->asking = true;
		else
			deferred->looked_ms = now_ms;
		LL_FOREACH (deferred->first, entry) {
			if (asked->count < DEFERRED_MAX)
				asked->generations[asked->count++] = entry->generation;
		}
	}
	pthread_mutex_unlock(&deferred->lock);
	return due;
}

/* The pause starts after the answer, which may take longer than the pause. */
static void end_to_ask(struct deferred *deferred)
{
	if (!lock_take(&deferred->lock))
		return;
	deferred->asking = false;
	deferred->asked_ms = monotonic_ms();
	pthread_mutex_unlock(&deferred->lock);
}

/* Called if no registry runs. False: none has started for DEFERRED_ALONE_MS, so wait no longer. */
static bool may_come(struct deferred *deferred)
{
	int64_t now_ms = monotonic_ms();
	bool may;

	if (!lock_take(&deferred->lock))
		return true;
	if (!deferred->alone_ms)
		deferred->alone_ms = now_ms;
	may = now_ms - deferred->alone_ms < DEFERRED_ALONE_MS;
	pthread_mutex_unlock(&deferred->lock);
	return may;
}

static struct deferred_entry *take_by(struct deferred *deferred, int status,
				      const struct asked *asked)
{
	if (status == GPUSHARE_OK)
		return take(deferred, (struct wanted){.what = ASKED, .asked = asked});
	if (status == GPUSHARE_E_TIMED_OUT ||
	    (status == GPUSHARE_E_NOT_READY && may_come(deferred)))
		return NULL;
	return deferred_take_all(deferred);
}

struct deferred_entry *deferred_take_left(struct deferred *deferred, deferred_ask *ask, void *user)
{
	struct asked asked = {.count = 0};
	int status;

	if (!begin_to_ask(deferred, true, &asked))
		return NULL;
	status = ask(user, asked.generations, &asked.count);
	end_to_ask(deferred);
	return take_by(deferred, status, &asked);
}

struct deferred_entry *deferred_look(struct deferred *deferred, deferred_ask *ask, void *user)
{
	struct asked asked = {.count = 0};

	if (!begin_to_ask(deferred, false, &asked))
		return NULL;
	return take_by(deferred, ask(user, asked.generations, &asked.count), &asked);
}

struct deferred_entry *deferred_next(struct deferred_entry *list)
{
	struct deferred_entry *next = list->next;

	free(list);
	return next;
}

cu_result deferred_stand_in(const struct driver *driver)
{
	cu_deviceptr small;
	cu_result result = driver->cuMemAlloc_v2(&small, 1);

	return result == CU_OK ? driver->cuMemFree_v2(small) : result;
}
