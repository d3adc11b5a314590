/* SPDX-License-Identifier: MIT */
#include "limbo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"
#include "base/shim_lock.h"

static bool unit_parse(const char *text, uint64_t *out_unit)
{
	static const char letters[] = "KMG";
	const char *letter = *text ? strchr(letters, *text) : NULL;
	uint64_t step = letter && text[1] == 'i' ? 1024 : 1000;

	*out_unit = 1;
	for (const char *at = letters; letter && at <= letter; at++)
		*out_unit *= step;
	return !*text || (letter && !text[1 + (step == 1024)]);
}

uint64_t limbo_parse(const char *text)
{
	uint64_t count, unit, bytes;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return LIMBO_BYTES;
	errno = 0;
	count = strtoull(text, &end, 10);
	if (errno || !unit_parse(end, &unit) || __builtin_mul_overflow(count, unit, &bytes))
		return LIMBO_BYTES;
	return bytes;
}

bool limbo_fits(const struct limbo *limbo, uint64_t size)
{
	return size <= atomic_load_explicit(&limbo->limit, memory_order_relaxed);
}

/* Under the lock, as the rest that has no lock of its own. */
static void append(struct limbo *limbo, struct limbo_entry *entry)
{
	struct limbo_entry **link = &limbo->first;

	while (*link)
		link = &(*link)->next;
	entry->next = NULL;
	*link = entry;
	limbo->bytes += entry->size;
	atomic_fetch_add_explicit(&limbo->count, 1, memory_order_release);
}

static struct limbo_entry *unlink_at(struct limbo *limbo, struct limbo_entry **link)
{
	struct limbo_entry *entry = *link;

	*link = entry->next;
	limbo->bytes -= entry->size;
	atomic_fetch_sub_explicit(&limbo->count, 1, memory_order_release);
	return entry;
}

bool limbo_put(struct limbo *limbo, const struct limbo_entry *entry)
{
	struct limbo_entry *made = malloc(sizeof(*made));

	if (!made || !lock_take(&limbo->lock)) {
		free(made);
		return false;
	}
	*made = *entry;
	if (!limbo->first) { /* the registry has just said that somebody has it, or is not there */
		limbo->asked_ms = limbo->looked_ms = monotonic_ms();
		limbo->alone_ms = 0;
	}
	append(limbo, made);
	pthread_mutex_unlock(&limbo->lock);
	return true;
}

bool limbo_holds(struct limbo *limbo, uint64_t base, uint64_t size)
{
	const struct limbo_entry *entry;

	if (!limbo_any(limbo) || !lock_take(&limbo->lock))
		return false;
	entry = limbo->first;
	while (entry && (entry->pointer < base || entry->pointer - base >= size))
		entry = entry->next;
	pthread_mutex_unlock(&limbo->lock);
	return entry != NULL;
}

typedef bool limbo_test(const struct limbo *limbo, const struct limbo_entry *entry,
			const void *wanted);

static struct limbo_entry *take(struct limbo *limbo, limbo_test *test, const void *wanted)
{
	struct limbo_entry *taken = NULL, **tail = &taken, **link = &limbo->first;

	if (!limbo_any(limbo) || !lock_take(&limbo->lock))
		return NULL;
	while (*link) {
		if (!test(limbo, *link, wanted)) {
			link = &(*link)->next;
			continue;
		}
		*tail = unlink_at(limbo, link);
		tail = &(*tail)->next;
		*tail = NULL;
	}
	pthread_mutex_unlock(&limbo->lock);
	return taken;
}

static bool is_over(const struct limbo *limbo, const struct limbo_entry *entry, const void *wanted)
{
	(void)entry;
	(void)wanted;
	return limbo->bytes > atomic_load_explicit(&limbo->limit, memory_order_relaxed) ||
	       atomic_load_explicit(&limbo->count, memory_order_relaxed) > LIMBO_MAX;
}

struct limbo_entry *limbo_take_over(struct limbo *limbo)
{
	return take(limbo, is_over, NULL);
}

static bool is_any(const struct limbo *limbo, const struct limbo_entry *entry, const void *wanted)
{
	(void)limbo;
	(void)entry;
	(void)wanted;
	return true;
}

struct limbo_entry *limbo_take_all(struct limbo *limbo)
{
	return take(limbo, is_any, NULL);
}

static bool is_of(const struct limbo *limbo, const struct limbo_entry *entry, const void *wanted)
{
	(void)limbo;
	return entry->context == wanted;
}

struct limbo_entry *limbo_take_of(struct limbo *limbo, cu_context context)
{
	return take(limbo, is_of, context);
}

void limbo_return(struct limbo *limbo, struct limbo_entry *list)
{
	while (list && lock_take(&limbo->lock)) {
		struct limbo_entry *next = list->next;

		append(limbo, list);
		pthread_mutex_unlock(&limbo->lock);
		list = next;
	}
}

struct asked {
	uint64_t generations[LIMBO_MAX];
	size_t count;
};

static bool is_asked(const struct limbo *limbo, const struct limbo_entry *entry, const void *wanted)
{
	const struct asked *asked = wanted;
	size_t at = 0;

	(void)limbo;
	while (at < asked->count && asked->generations[at] != entry->generation)
		at++;
	return at < asked->count;
}

/* Under the lock. */
static void list(const struct limbo *limbo, struct asked *asked)
{
	for (const struct limbo_entry *entry = limbo->first; entry && asked->count < LIMBO_MAX;
	     entry = entry->next)
		asked->generations[asked->count++] = entry->generation;
}

/* Nobody else asks until end_to_ask(): false if somebody does, or has a moment ago. */
static bool begin_to_ask(struct limbo *limbo, struct asked *asked)
{
	bool due;

	if (!limbo_any(limbo) || !lock_take(&limbo->lock))
		return false;
	due = limbo->first && !limbo->asking && monotonic_ms() - limbo->asked_ms >= LIMBO_PAUSE_MS;
	if (due) {
		limbo->asking = true;
		list(limbo, asked);
	}
	pthread_mutex_unlock(&limbo->lock);
	return due;
}

/* The pause counts from here: an answer may have taken longer than that. */
static void end_to_ask(struct limbo *limbo)
{
	if (!lock_take(&limbo->lock))
		return;
	limbo->asking = false;
	limbo->asked_ms = monotonic_ms();
	pthread_mutex_unlock(&limbo->lock);
}

static bool begin_to_look(struct limbo *limbo, struct asked *asked)
{
	int64_t now_ms = monotonic_ms();
	bool due;

	if (!limbo_any(limbo) || pthread_mutex_trylock(&limbo->lock))
		return false;
	due = limbo->first && now_ms - limbo->looked_ms >= LIMBO_PAUSE_MS;
	if (due) {
		limbo->looked_ms = now_ms;
		list(limbo, asked);
	}
	pthread_mutex_unlock(&limbo->lock);
	return due;
}

/* No registry is there; false: none has come for so long that none will. */
static bool may_come(struct limbo *limbo)
{
	int64_t now_ms = monotonic_ms();
	bool may;

	if (!lock_take(&limbo->lock))
		return true;
	if (!limbo->alone_ms)
		limbo->alone_ms = now_ms;
	may = now_ms - limbo->alone_ms < LIMBO_ALONE_MS;
	pthread_mutex_unlock(&limbo->lock);
	return may;
}

static struct limbo_entry *take_asked(struct limbo *limbo, const struct asked *asked)
{
	if (lock_take(&limbo->lock)) {
		limbo->alone_ms = 0;
		pthread_mutex_unlock(&limbo->lock);
	}
	return take(limbo, is_asked, asked);
}

static struct limbo_entry *take_by(struct limbo *limbo, int status, const struct asked *asked)
{
	if (status == GPUSHARE_OK)
		return take_asked(limbo, asked);
	if (status == GPUSHARE_E_TIMED_OUT || (status == GPUSHARE_E_NOT_READY && may_come(limbo)))
		return NULL;
	return limbo_take_all(limbo);
}

struct limbo_entry *limbo_take_left(struct limbo *limbo, limbo_ask *ask, void *user)
{
	struct asked asked = {.count = 0};
	int status;

	if (!begin_to_ask(limbo, &asked))
		return NULL;
	status = ask(user, asked.generations, &asked.count);
	end_to_ask(limbo);
	return take_by(limbo, status, &asked);
}

struct limbo_entry *limbo_look(struct limbo *limbo, limbo_ask *ask, void *user)
{
	struct asked asked = {.count = 0};

	if (!begin_to_look(limbo, &asked))
		return NULL;
	return take_by(limbo, ask(user, asked.generations, &asked.count), &asked);
}

struct limbo_entry *limbo_next(struct limbo_entry *list)
{
	struct limbo_entry *next = list->next;

	free(list);
	return next;
}

cu_result limbo_stand_in(const struct driver *driver)
{
	cu_deviceptr small;
	cu_result result;

	if (!driver->cuMemAlloc_v2 || !driver->cuMemFree_v2)
		return CU_NOT_SUPPORTED;
	result = driver->cuMemAlloc_v2(&small, 1);
	return result == CU_OK ? driver->cuMemFree_v2(small) : result;
}
