/* SPDX-License-Identifier: MIT */
#include "client_order.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpushare.h"
#include "base/monotonic.h"

#define SPIN_LOOKS 1024 /* about 50 us */
#define NAP_FIRST_NS 50000
#define NAP_LONGEST_NS 1000000 /* limited, because a GPU's store wakes nobody */

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("isb" ::: "memory");
#endif
}

/* A futex has 32 bits: this is the low half of the word, which each new number changes. */
static uint32_t *futex_of(_Atomic uint64_t *word)
{
	return (uint32_t *)(void *)word;
}

static void wake(_Atomic uint64_t *word, _Atomic uint32_t *sleepers)
{
	if (!atomic_load(sleepers))
		return;
	atomic_store(sleepers, 0);
	syscall(SYS_futex, futex_of(word), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleep until the word differs from `seen`, at most `ns`. A thread that stores to the word reads
 * `sleepers` after its store, so it wakes this one. */
static void nap(_Atomic uint64_t *word, _Atomic uint32_t *sleepers, uint64_t seen, long ns)
{
	const struct timespec length = {0, ns};

	atomic_store(sleepers, 1);
	syscall(SYS_futex, futex_of(word), FUTEX_WAIT, (uint32_t)seen, &length, NULL, 0);
}

/* A wait reads its word SPIN_LOOKS times in a row, then with growing sleeps in between. */
struct patience {
	unsigned int looks;
	long nap_ns;
	int64_t until_ms; /* INT64_MAX: no end; INT64_MIN: no wait; 0: not computed yet */
};

static struct patience patience_for(int timeout_ms)
{
	return (struct patience){
	    .nap_ns = NAP_FIRST_NS,
	    .until_ms = timeout_ms < 0 ? INT64_MAX
			: timeout_ms   ? 0
				       : INT64_MIN,
	};
}

/* False: the time is up. */
static bool patience_wait(struct patience *patience, int timeout_ms, _Atomic uint64_t *word,
			  _Atomic uint32_t *sleepers, uint64_t seen)
{
	if (patience->until_ms == INT64_MIN)
		return false;
	if (patience->looks < SPIN_LOOKS) {
		patience->looks++;
		relax();
		return true;
	}
	if (!patience->until_ms)
		patience->until_ms = monotonic_ms() + timeout_ms;
	else if (patience->until_ms != INT64_MAX && monotonic_ms() >= patience->until_ms)
		return false;
	nap(word, sleepers, seen, patience->nap_ns);
	if (patience->nap_ns < NAP_LONGEST_NS)
		patience->nap_ns *= 2;
	if (patience->nap_ns > NAP_LONGEST_NS)
		patience->nap_ns = NAP_LONGEST_NS;
	return true;
}

static bool try_turn(struct order_page *page)
{
	uint32_t free = ORDER_TURN_FREE;

	for (unsigned int tries = 0; tries < SPIN_LOOKS; tries++, free = ORDER_TURN_FREE) {
		if (atomic_compare_exchange_weak_explicit(&page->turn, &free, ORDER_TURN_TAKEN,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
		relax();
	}
	return false;
}

/* Each sleep is limited: another library of the process may have an older version of this code,
 * which wakes nobody. No FUTEX_PRIVATE_FLAG: the process may have mapped the page at two
 * addresses. */
bool order_take_turn(struct order_page *page, unsigned int within_ms)
{
	const struct timespec length = {0, NAP_LONGEST_NS};
	int64_t until_ms;

	if (try_turn(page))
		return true;
	until_ms = monotonic_ms() + within_ms;
	while (atomic_exchange(&page->turn, ORDER_TURN_WAITED_FOR) != ORDER_TURN_FREE) {
		if (monotonic_ms() >= until_ms)
			return false;
		syscall(SYS_futex, &page->turn, FUTEX_WAIT, ORDER_TURN_WAITED_FOR, &length, NULL,
			0);
	}
	return true;
}

void order_give_turn(struct order_page *page)
{
	if (atomic_exchange(&page->turn, ORDER_TURN_FREE) == ORDER_TURN_WAITED_FOR)
		syscall(SYS_futex, &page->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void order_wake_readers(struct order_page *page)
{
	wake(&page->published, &page->readers);
}

/* `page` (may be NULL): the wait also ends if this page is marked gone. The mark is read before the
 * word, because the publisher stores its last number before the page is marked. */
static int wait_for(const struct order_page *page, _Atomic uint64_t *word,
		    _Atomic uint32_t *sleepers, uint64_t number, int timeout_ms,
		    const struct order_stuck *stuck, uint64_t *out_seen)
{
	struct patience patience = patience_for(timeout_ms);

	for (;;) {
		bool gone = page && order_is_gone(page);
		uint64_t seen = atomic_load(word);

		if (order_reaches(seen, number)) {
			if (out_seen)
				*out_seen = order_number(seen);
			return GPUSHARE_OK;
		}
		if (gone || seen & ORDER_GONE_BIT)
			return GPUSHARE_E_OWNER_GONE;
		if (patience.looks == SPIN_LOOKS && stuck && stuck->ask(stuck->user))
			return GPUSHARE_E_CUDA;
		if (!patience_wait(&patience, timeout_ms, word, sleepers, seen))
			return GPUSHARE_E_TIMED_OUT;
	}
}

int order_wait_number(_Atomic uint64_t *word, _Atomic uint32_t *sleepers, uint64_t number,
		      int timeout_ms, const struct order_stuck *stuck)
{
	return wait_for(NULL, word, sleepers, number, timeout_ms, stuck, NULL);
}

int order_wait(struct order_page *page, uint64_t at_least, int timeout_ms, uint64_t *out_sequence)
{
	return wait_for(page, &page->published, &page->readers, at_least, timeout_ms, NULL,
			out_sequence);
}

uint64_t order_publish_late(struct order_page *page)
{
	uint64_t sequence = order_number(atomic_fetch_add(&page->published, 1)) + 1;

	order_raise(&page->next, sequence);
	order_wake_readers(page);
	return sequence;
}

/* Undo the assignment of number `sequence`, if it was the last: the next call assigns it again. */
static void give_back(struct order_page *page, unsigned int turn_ms, uint64_t sequence)
{
	if (!order_take_turn(page, turn_ms))
		return;
	atomic_compare_exchange_strong(&page->next, &sequence, sequence - 1);
	order_give_turn(page);
}

int order_publish(struct order_page *page, unsigned int turn_ms, const struct order_stuck *stuck,
		  uint64_t *out_sequence)
{
	uint64_t sequence, before;
	bool late, ready;
	int status;

	if (order_is_gone(page))
		return GPUSHARE_E_OWNER_GONE;
	if (turn_ms ? !order_take_turn(page, turn_ms) : !try_turn(page))
		return turn_ms ? GPUSHARE_E_TIMED_OUT : GPUSHARE_E_NOT_READY;
	late = atomic_load_explicit(&page->late, memory_order_relaxed);
	before = late ? atomic_load(&page->late_after) : atomic_load(&page->next);
	ready = turn_ms || order_reaches(atomic_load(&page->published), before);
	if (ready && !late)
		atomic_store(&page->next, before + 1);
	order_give_turn(page);
	if (!ready)
		return GPUSHARE_E_NOT_READY;
	status = order_wait_number(&page->published, &page->readers, before, ORDER_FOR_EVER, stuck);
	if (status && !late)
		give_back(page, turn_ms, before + 1);
	if (status)
		return status;
	if (late) {
		sequence = order_publish_late(page);
	} else {
		sequence = before + 1;
		order_raise(&page->published, sequence);
		order_wake_readers(page);
	}
	if (out_sequence)
		*out_sequence = sequence;
	return GPUSHARE_OK;
}

void order_release(struct order_page *page, uint32_t slot, uint64_t sequence)
{
	_Atomic uint64_t *released = &page->slot[slot].released;

	if (order_raise(released, sequence))
		wake(released, &page->reclaimers);
}

/* Callers do this before they look at any slot: see order_join(). */
void order_stop_joins(struct order_page *page, uint64_t sequence)
{
	order_raise(&page->reclaimed, sequence);
}

static bool is_behind(const struct order_slot *slot, uint64_t sequence)
{
	uint64_t released;

	if (atomic_load(&slot->state) != ORDER_SLOT_ACTIVE)
		return false;
	released = atomic_load(&slot->released);
	return !(released & ORDER_GONE_BIT) && !order_reaches(released, sequence);
}

struct order_slot *order_next_behind(struct order_page *page, uint64_t sequence, uint32_t *at)
{
	uint32_t top = atomic_load(&page->top);

	for (; *at < top && *at < ORDER_SLOTS; ++*at) {
		if (is_behind(&page->slot[*at], sequence))
			return &page->slot[*at];
	}
	return NULL;
}

int order_reclaim(struct order_page *page, uint64_t sequence, int timeout_ms)
{
	struct patience patience = patience_for(timeout_ms);
	struct order_slot *slot;
	uint32_t at = 0;

	order_stop_joins(page, sequence);
	while ((slot = order_next_behind(page, sequence, &at))) {
		uint64_t seen = atomic_load(&slot->released);

		if (!is_behind(slot, sequence))
			continue;
		if (!patience_wait(&patience, timeout_ms, &slot->released, &page->reclaimers, seen))
			return GPUSHARE_E_TIMED_OUT;
	}
	return GPUSHARE_OK;
}
