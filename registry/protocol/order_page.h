/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROTOCOL_ORDER_PAGE_H
#define GPUSHARE_REGISTRY_PROTOCOL_ORDER_PAGE_H
/*
 * The stream-sync page of one buffer: shared host memory that says what was published, and what
 * each consumer has released. The registry makes it (a sealed memfd) when a client first asks for
 * it. Processes, their GPUs and the registry read and write it. Readers trust a value to be a
 * number and no more, so a false one harms only users of this buffer.
 *
 * A GPU waits for `word >= value` by the sign of the difference. So setting ORDER_GONE_BIT in a
 * word releases all waiters; readers mask that bit. A publisher's own streams wait for each other
 * on the lower half of the word, which that bit doesn't change. They must not be released, because
 * a number that one of them writes implies all numbers before it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_MAGIC UINT64_C(0x67707573686f7264)
#define ORDER_VERSION 1u
#define ORDER_PAGE_SIZE 16384
#define ORDER_LINE 64 /* a cache line: words of different writers are in different lines */
#define ORDER_HEADER 1024
#define ORDER_SLOTS ((ORDER_PAGE_SIZE - ORDER_HEADER) / ORDER_LINE)
#define ORDER_GONE_BIT (UINT64_C(1) << 62)
#define ORDER_UNSETTLED UINT64_MAX /* in order_slot.final: unknown, more may be released */

/* Roles of a process for a buffer: bits of Order.roles. */
enum order_role { ORDER_CONSUMES = 1, ORDER_PUBLISHES = 2 };

enum order_state {
	ORDER_LIVE = 1, /* more may be published */
	ORDER_GONE = 2, /* nothing more is published: the publisher or the buffer's owner is gone */
};

enum order_slot_state { ORDER_SLOT_UNUSED = 0, ORDER_SLOT_ACTIVE = 1, ORDER_SLOT_LEFT = 2 };

/* Values of order_page.turn. Older versions know only the first two, and wake nobody when they
 * release the turn. */
enum order_turn { ORDER_TURN_FREE = 0, ORDER_TURN_TAKEN = 1, ORDER_TURN_WAITED_FOR = 2 };

/* The slot of a consumer. */
struct order_slot {
	_Alignas(ORDER_LINE) _Atomic uint64_t released; /* done with all numbers up to this one */
	_Atomic uint32_t state;
	/* The process that has the slot, or had it last, as a number of participant_number(). */
	_Atomic uint64_t process;
	/* Set by a consumer that leaves: 1 + the last number that its streams will write to
	 * `released`, or ORDER_UNSETTLED. 0: not set. */
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
	_Atomic uint32_t readers; /* not 0: threads sleep until `published` grows; wake them */

	_Alignas(ORDER_LINE) _Atomic uint64_t next; /* the last number that was assigned */
	_Atomic uint32_t turn;			    /* enum order_turn: locks `next` */
	/* Not 0: a publication was captured in a graph, so its number is assigned when the GPU runs
	 * it. */
	_Atomic uint32_t late;
	_Atomic uint64_t late_after;	  /* the last number that was assigned before that */
	_Atomic uint64_t publisher;	  /* the publishing process, as in order_slot.process */
	_Atomic uint64_t publisher_stack; /* as order_slot.stack */

	/* No consumer may join for this number or a lower one. */
	_Alignas(ORDER_LINE) _Atomic uint64_t reclaimed;
	_Atomic uint32_t reclaimers; /* not 0: threads sleep until a slot's `released` grows */
	_Atomic uint32_t top;	     /* no slot at or above it was ever used */

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

/* Whether the consumer has left, and its GPU no longer writes to the slot. */
static inline bool order_slot_is_final(const struct order_slot *slot)
{
	uint64_t final = atomic_load(&slot->final);

	return final && final != ORDER_UNSETTLED &&
	       order_reaches(atomic_load(&slot->released), final - 1);
}

/* Makes a page. Returns its descriptor, sealed so that nobody can make it shorter; -1 and errno. */
int order_page_make(uint64_t generation, uint64_t id);
/* Maps a page that came as a descriptor. OK; E_PROTOCOL: it is no page of that generation (0: of
 * any); E_NO_MEMORY. */
int order_page_map(int fd, uint64_t generation, struct order_page **out_page);
void order_page_unmap(struct order_page *page);

/* The number that was published last. */
uint64_t order_published(const struct order_page *page);
bool order_is_gone(const struct order_page *page);
/* Raises the word to `number`, and keeps its ORDER_GONE_BIT. False: the word was not lower. */
bool order_raise(_Atomic uint64_t *word, uint64_t number);

/*
 * A consumer of that process takes the slot. Returns the first number that can't be reclaimed
 * before the consumer releases it. If a publisher reclaims after this has read `reclaimed`, it sees
 * the slot.
 */
uint64_t order_join(struct order_page *page, uint32_t slot, uint64_t process);
/* The consumer of a slot resumes, also if the slot was marked as left. */
void order_rejoin(struct order_page *page, uint32_t slot, uint64_t process);
/* That process publishes from now on. If another one did before, the numbers continue after the
 * last published one. */
void order_begin(struct order_page *page, uint64_t publisher);

/* Set the mark that releases all waiters for a publication, or for that slot. True: the mark was
 * missing, because it is new or was overwritten. */
bool order_mark_gone(struct order_page *page);
bool order_mark_left(struct order_page *page, uint32_t slot);

#endif
