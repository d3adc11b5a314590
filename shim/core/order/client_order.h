/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_ORDER_H
#define GPUSHARE_SHIM_CLIENT_ORDER_H
/*
 * What the CPU does with a mapped order page (order.h): publish, wait, release, reclaim. Needs no
 * CUDA and asks nobody. The roles that this takes are the caller's to have: a publisher asks the
 * registry for ORDER_PUBLISHES first, a consumer for its slot. Safe from any thread, and from several
 * copies of this code in a process.
 */
#include "order_page.h"

/* Milliseconds to wait; any negative number: for ever. */
#define ORDER_FOR_EVER (-1)

/* What tells a wait for this process's own GPU that nothing will come any more: true ends it. */
struct order_stuck {
	bool (*ask)(void *user);
	void *user;
};

/* One process's calls that give out numbers come one after the other; for as long as the driver takes to
 * enqueue. False: whoever has it did not give it back within so many milliseconds. */
bool order_take_turn(struct order_page *page, unsigned int within_ms);
void order_give_turn(struct order_page *page);

/* After all that was published or given to a stream before. OK; E_OWNER_GONE: ordering has ended,
 * or another publishes; E_CUDA: `stuck` (may be NULL) said so; E_TIMED_OUT: it had no turn in time. Where
 * it fails, no number is lost. */
int order_publish(struct order_page *page, unsigned int turn_ms, const struct order_stuck *stuck,
		  uint64_t *out_sequence);
/* The same, but waits for nobody: E_NOT_READY where something is still to be published before, or
 * another thread has the turn for longer than a moment. */
int order_publish_now(struct order_page *page, uint64_t *out_sequence);
/* `published` was stored elsewhere: wake those who sleep. */
void order_wake_readers(struct order_page *page);
/* The next number, published at once: for a buffer whose numbers are given late. */
uint64_t order_publish_late(struct order_page *page);

/* Until at_least is published. OK; E_OWNER_GONE: it never will be; E_TIMED_OUT. */
int order_wait(struct order_page *page, uint64_t at_least, int timeout_ms, uint64_t *out_sequence);
/* The same, without a look at whether it ever will be. */
int order_wait_number(_Atomic uint64_t *word, _Atomic uint32_t *sleepers, uint64_t number,
		      int timeout_ms, const struct order_stuck *stuck);

void order_release(struct order_page *page, uint32_t slot, uint64_t sequence);

/* From now on nobody joins for `sequence` or below. */
void order_stop_joins(struct order_page *page, uint64_t sequence);
/* The first slot from *at on whose consumer has not released it; NULL: none. */
struct order_slot *order_next_behind(struct order_page *page, uint64_t sequence, uint32_t *at);
/* Until all who joined have released it. OK or E_TIMED_OUT. */
int order_reclaim(struct order_page *page, uint64_t sequence, int timeout_ms);

#endif
