/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_ORDER_H
#define GPUSHARE_SHIM_CLIENT_ORDER_H
/*
 * What the CPU does on a buffer's stream-sync page, shared memory that holds the numbers of its
 * publications (order_page.h): publish, wait, release, reclaim. Needs no CUDA, and sends no
 * request. The registry must have given the caller its role before: ORDER_PUBLISHES to a publisher,
 * a slot to a consumer. Safe from any thread, and from several copies of this code in one process.
 */
#include "order_page.h"

/* Milliseconds to wait; any negative number: for ever. */
#define ORDER_FOR_EVER (-1)

/* A wait for a number that this process's own GPU is to store calls ask(). If ask() returns true,
 * the GPU will store no more numbers, and the wait ends with E_CUDA. */
struct order_stuck {
	bool (*ask)(void *user);
	void *user;
};

/* The turn is a lock in the page. Of the publishing process's threads, only its holder assigns
 * numbers, and keeps it while the driver enqueues work. False: the turn was not free within
 * `within_ms`. */
bool order_take_turn(struct order_page *page, unsigned int within_ms);
void order_give_turn(struct order_page *page);

/* Wait until all numbers assigned before are published, then publish the next one. OK;
 * E_OWNER_GONE: ordering has ended, or another process publishes; E_CUDA: `stuck` (may be NULL)
 * returned true; E_TIMED_OUT: no turn within `turn_ms`, which is not 0. A failed call gives its
 * number back if it was the last. */
int order_publish(struct order_page *page, unsigned int turn_ms, const struct order_stuck *stuck,
		  uint64_t *out_sequence);
/* The same without waiting. E_NOT_READY: an earlier number is not published, or another thread
 * keeps the turn for longer than a moment. */
static inline int order_publish_now(struct order_page *page, uint64_t *out_sequence)
{
	return order_publish(page, 0, NULL, out_sequence);
}
/* Wake the threads that wait for `published`. For a caller that has stored `published` itself. */
void order_wake_readers(struct order_page *page);
/* Take the next number and publish it, in one step: for a buffer whose publications get their
 * number when they run (order_page.late). */
uint64_t order_publish_late(struct order_page *page);

/* Wait until `at_least` is published. OK; E_OWNER_GONE: that number will never be; E_TIMED_OUT. */
int order_wait(struct order_page *page, uint64_t at_least, int timeout_ms, uint64_t *out_sequence);
/* The same for one word of a page. E_OWNER_GONE: the word has ORDER_GONE_BIT; the page's state is
 * not read. E_CUDA: `stuck` (may be NULL) returned true. */
int order_wait_number(_Atomic uint64_t *word, _Atomic uint32_t *sleepers, uint64_t number,
		      int timeout_ms, const struct order_stuck *stuck);

void order_release(struct order_page *page, uint32_t slot, uint64_t sequence);

/* From this call on, a consumer that joins gets only what is published after `sequence`. */
void order_stop_joins(struct order_page *page, uint64_t sequence);
/* The first slot from *at on whose consumer has not released `sequence`; NULL: none. */
struct order_slot *order_next_behind(struct order_page *page, uint64_t sequence, uint32_t *at);
/* Wait until all consumers that joined have released `sequence`. OK or E_TIMED_OUT. */
int order_reclaim(struct order_page *page, uint64_t sequence, int timeout_ms);

#endif
