/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROTOCOL_ORDER_PAGE_H
#define GPUSHARE_REGISTRY_PROTOCOL_ORDER_PAGE_H
/*
 * The order page of one buffer: shared host memory that says what was published of it, who consumes
 * it and what each consumer is done with. The registry makes it (a sealed memfd) when it is first
 * asked for; processes, their GPUs and the registry read and write it. Nothing that is read here is
 * trusted further than to be a number: a lie harms the buffer's own users alone.
 *
 * A GPU waits for `word >= value` by the sign of the difference. So a word plus ORDER_GONE_BIT lets
 * everybody through, and readers take that bit away. A publisher's streams wait for each other by the
 * word's lower half: they are not let through, for what they write stands for all before it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_MAGIC UINT64_C(0x67707573686f7264)
#define ORDER_VERSION 1u
#define ORDER_PAGE_SIZE 16384
#define ORDER_LINE 64 /* of a cache: what different processors write lies apart */
#define ORDER_HEADER 1024
#define ORDER_SLOTS ((ORDER_PAGE_SIZE - ORDER_HEADER) / ORDER_LINE)
#define ORDER_GONE_BIT (UINT64_C(1) << 62)
#define ORDER_UNSETTLED UINT64_MAX /* of order_slot.final: a graph may release at any time */

/* What a process is to a buffer: bits of Order.roles. */
enum order_role { ORDER_CONSUMES = 1, ORDER_PUBLISHES = 2 };

enum order_state {
	ORDER_LIVE = 1, /* more may be published */
	ORDER_GONE = 2, /* who published has gone, or the buffer's name has */
};

enum order_slot_state { ORDER_SLOT_UNUSED = 0, ORDER_SLOT_ACTIVE = 1, ORDER_SLOT_LEFT = 2 };

/* Of order_page.turn. Older programs know the first two, and wake nobody when they give it back. */
enum order_turn { ORDER_TURN_FREE = 0, ORDER_TURN_TAKEN = 1, ORDER_TURN_WAITED_FOR = 2 };

/* A consumer's. */
struct order_slot {
	_Alignas(ORDER_LINE) _Atomic uint64_t released; /* done with all up to that */
	_Atomic uint32_t state;
	_Atomic uint64_t
	    process; /* the registry's number of the process that has it, or had it last */
	/* A consumer that leaves: one more than the last number that its streams will release here, or
	 * ORDER_UNSETTLED. 0: it has not said so far. */
	_Atomic uint64_t final;
	_Atomic uint64_t stack; /* of the process's program, which exec() changes; 0: not known */
};

struct order_page {
	uint64_t magic;
	uint32_t version, slots;
	uint64_t generation;
	uint64_t id; /* no two pages have one */

	_Alignas(ORDER_LINE) _Atomic uint64_t published;
	_Atomic uint32_t readers; /* some sleep until `published` grows: wake them */

	_Alignas(ORDER_LINE) _Atomic uint64_t next; /* the publisher's: given out last */
	_Atomic uint32_t turn;			    /* enum order_turn: of who gives one out */
	_Atomic uint32_t late; /* numbers are given when the GPU comes there: captured in a graph */
	_Atomic uint64_t late_after;	  /* this one was the last that was given out before */
	_Atomic uint64_t publisher;	  /* which process that is */
	_Atomic uint64_t publisher_stack; /* as order_slot.stack */

	_Alignas(ORDER_LINE) _Atomic uint64_t reclaimed; /* nobody may join for that or below */
	_Atomic uint32_t reclaimers; /* some sleep until a slot's `released` grows */
	_Atomic uint32_t top;	     /* no slot at or above it was ever used */

	_Alignas(ORDER_LINE) _Atomic uint32_t state; /* enum order_state */
	_Atomic uint32_t means;			     /* enum gpushare_ordering, of the publisher */

	_Alignas(ORDER_HEADER) struct order_slot slot[ORDER_SLOTS];
};
_Static_assert(sizeof(struct order_slot) == ORDER_LINE, "one line a slot");
_Static_assert(offsetof(struct order_page, slot) == ORDER_HEADER, "the slots follow the header");
_Static_assert(sizeof(struct order_page) == ORDER_PAGE_SIZE, "all of it, and no more");

static inline uint64_t order_number(uint64_t word)
{
	return word & ~ORDER_GONE_BIT;
}

static inline bool order_reaches(uint64_t word, uint64_t wanted)
{
	return (int64_t)(order_number(word) - wanted) >= 0;
}

/* The consumer has left, and its GPU writes to the slot no more. */
static inline bool order_slot_is_final(const struct order_slot *slot)
{
	uint64_t final = atomic_load(&slot->final);

	return final && final != ORDER_UNSETTLED &&
	       order_reaches(atomic_load(&slot->released), final - 1);
}

/* A new page's descriptor, sealed so that nobody can make it shorter; -1 and errno. */
int order_page_make(uint64_t generation, uint64_t id);
/* Map what came as one. OK; E_PROTOCOL: it is none; E_NO_MEMORY. */
int order_page_map(int fd, uint64_t generation, struct order_page **out_page);
void order_page_unmap(struct order_page *page);

/* What was published last. */
uint64_t order_published(const struct order_page *page);
bool order_is_gone(const struct order_page *page);
/* The word becomes `number` if that is more, and stays gone if it is. False: it was not less. */
bool order_raise(_Atomic uint64_t *word, uint64_t number);

/*
 * A consumer of that process takes the slot; returns the first number that can't be reclaimed before the
 * consumer releases it. A publisher that reclaims later than `reclaimed` was read here sees the slot.
 */
uint64_t order_join(struct order_page *page, uint32_t slot, uint64_t process);
/* The consumer of a slot that was marked as left goes on. */
void order_rejoin(struct order_page *page, uint32_t slot, uint64_t process);
/* That process publishes from now on: if another one did, after the last number that was published. */
void order_begin(struct order_page *page, uint64_t publisher);

/* Let those through who wait for more, or for that slot. True: that had not been said, or it was
 * overwritten since. */
bool order_mark_gone(struct order_page *page);
bool order_mark_left(struct order_page *page, uint32_t slot);

#endif
