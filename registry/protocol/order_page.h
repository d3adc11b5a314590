/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROTOCOL_ORDER_PAGE_H
#define GPUSHARE_REGISTRY_PROTOCOL_ORDER_PAGE_H
/*
 * The stream-sync page of one buffer: shared host memory that says which numbers (versions of the
 * buffer) were published, and which of them each consumer has released. The registry makes the
 * page, a sealed memfd, when a client first asks for it. Processes, their GPUs and the registry
 * read and write it. Readers use a value only as a number, so a false value harms only users of
 * this buffer.
 *
 * A GPU that waits for `word >= value` checks the sign of the difference. So setting ORDER_GONE_BIT
 * in `published` or `released` releases all waiters; readers mask that bit. A publisher's own
 * streams wait for each other on the lower half of `published`, which the bit doesn't change. They
 * must not be released: if one of them writes a number, all numbers before it count as published.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_MAGIC UINT64_C(0x67707573686f7264)
#define ORDER_VERSION 1u
#define ORDER_PAGE_SIZE 16384
#define ORDER_LINE 64 /* a cache line: words with different writers are in different lines */
#define ORDER_HEADER 1024
#define ORDER_SLOTS ((ORDER_PAGE_SIZE - ORDER_HEADER) / ORDER_LINE)
#define ORDER_GONE_BIT (UINT64_C(1) << 62)
#define ORDER_UNSETTLED UINT64_MAX /* order_slot.final: more may be released at any time */

/* Roles of a process for a buffer: bits of Order.roles. */
enum order_role { ORDER_CONSUMES = 1, ORDER_PUBLISHES = 2 };

enum order_state {
	ORDER_LIVE = 1, /* more may be published */
	/* nothing more is published: the publisher has left, or the buffer lost its owner */
	ORDER_GONE = 2,
};

enum order_slot_state { ORDER_SLOT_UNUSED = 0, ORDER_SLOT_ACTIVE = 1, ORDER_SLOT_LEFT = 2 };

/* Values of order_page.turn, the lock of `next`. Older versions know only the first two: they wake
 * nobody when they unlock it. */
enum order_turn { ORDER_TURN_FREE = 0, ORDER_TURN_TAKEN = 1, ORDER_TURN_WAITED_FOR = 2 };

/* The slot of a consumer. */
struct order_slot {
	/* the consumer is done with all numbers up to this one */
	_Alignas(ORDER_LINE) _Atomic uint64_t released;
	_Atomic uint32_t state;
	/* The process that has the slot, or had it last: participant_number() of order/order.h. */
	_Atomic uint64_t process;
	/* A consumer that leaves sets this to 1 + the last number that its streams will write to
	 * `released`, or to ORDER_UNSETTLED. 0: not set. */
	_Atomic uint64_t final;
	/* Address of the stack of the process's program, which exec() changes; 0: unknown. */
	_Atomic uint64_t stack;
};

struct order_page {
	uint64_t magic;
	uint32_t version, slots;
	uint64_t generation;
	uint64_t id; /* random; no other page has it */

	_Alignas(ORDER_LINE) _Atomic uint64_t published;
	/* not 0: threads sleep (futex) until `published` grows; wake them */
	_Atomic uint32_t readers;

	/* the last number that was assigned to a publication */
	_Alignas(ORDER_LINE) _Atomic uint64_t next;
	_Atomic uint32_t turn; /* enum order_turn: locks `next` */
	/* Not 0: a publication was captured in a graph, so its number is assigned when the GPU runs
	 * it. */
	_Atomic uint32_t late;
	/* the last number that was assigned before `late` was set */
	_Atomic uint64_t late_after;
	_Atomic uint64_t publisher;	  /* the publishing process, as in order_slot.process */
	_Atomic uint64_t publisher_stack; /* as order_slot.stack */

	/* The publisher has reclaimed all numbers up to this one: no consumer may join for them. */
	_Alignas(ORDER_LINE) _Atomic uint64_t reclaimed;
	/* not 0: threads sleep (futex) until a slot's `released` grows */
	_Atomic uint32_t reclaimers;
	_Atomic uint32_t top; /* slots with this index or a higher one were never used */

	_Alignas(ORDER_LINE) _Atomic uint32_t state; /* enum order_state */
	_Atomic uint32_t means;			     /* enum gpushare_ordering of the publisher */

	_Alignas(ORDER_HEADER) struct order_slot slot[ORDER_SLOTS];
};
_Static_assert(sizeof(struct order_slot) == ORDER_LINE, "one line a slot");
_Static_assert(offsetof(struct order_page, slot) == ORDER_HEADER, "the slots follow the header");
_Static_assert(sizeof(struct order_page) == ORDER_PAGE_SIZE, "the slots fill the page");

static inline uint64_t order_number(uint64_t word)
{
	return word & ~ORDER_GONE_BIT;
}

static inline bool order_reaches(uint64_t word, uint64_t wanted)
{
	return (int64_t)(order_number(word) - wanted) >= 0;
}

/* Whether the slot's consumer has left, and its GPU has written all that it will write there. */
static inline bool order_slot_is_final(const struct order_slot *slot)
{
	uint64_t final = atomic_load(&slot->final);

	return final && final != ORDER_UNSETTLED &&
	       order_reaches(atomic_load(&slot->released), final - 1);
}

/* Makes a page. Returns its descriptor, sealed so that no process can shorten the page; -1 and
 * errno. */
int order_page_make(uint64_t generation, uint64_t id);
/* Maps a received page. OK, E_NO_MEMORY; E_PROTOCOL: `fd` is no such page, or one of another
 * generation (0: any will do). */
int order_page_map(int fd, uint64_t generation, struct order_page **out_page);
void order_page_unmap(struct order_page *page);

/* The number that was published last. */
uint64_t order_published(const struct order_page *page);
bool order_is_gone(const struct order_page *page);
/* Raises the word to `number`, and keeps its ORDER_GONE_BIT. False: the word was not lower. */
bool order_raise(_Atomic uint64_t *word, uint64_t number);

/* Give the slot to a consumer in that process. Returns the first number that can't be reclaimed
 * before the consumer releases it. If a publisher sets `reclaimed` after this function has read it,
 * the publisher sees the slot. */
uint64_t order_join(struct order_page *page, uint32_t slot, uint64_t process);
/* The consumer of a slot resumes, even if the slot was marked as left. */
void order_rejoin(struct order_page *page, uint32_t slot, uint64_t process);
/* The process with this number publishes from now on. If another process did before, the numbers
 * continue after the last published one. */
void order_begin(struct order_page *page, uint64_t publisher);

/* Set the mark that releases all waiters: for a publication, or for that slot's releases. True: the
 * mark was missing, because it is new or was overwritten. */
bool order_mark_gone(struct order_page *page);
bool order_mark_left(struct order_page *page, uint32_t slot);

#endif
