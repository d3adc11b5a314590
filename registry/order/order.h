/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ORDER_H
#define GPUSHARE_REGISTRY_ORDER_H
/* Stream-sync pages (protocol/order_page.h), one for each buffer whose page a client asked for. A
 * `struct order` is what the registry knows of such a page and its participants. All functions need
 * the registry's lock held. README.md describes slots and marks. */
#include "order_page.h"
#include "context/registry.h"

/* A session that publishes or consumes a buffer. */
struct participant {
	struct session *session;
	struct order *order;
	uint32_t roles;					 /* enum order_role */
	uint32_t slot;					 /* of a consumer, from 1 on; 0: none */
	uint64_t record_slot;				 /* see persist/persist.h */
	struct participant *prev, *next;		 /* list of the order's participants */
	struct participant *session_prev, *session_next; /* list of the session's participants */
};

struct order {
	UT_hash_handle hh;
	uint64_t generation;
	/* the page's descriptor; NULL: the page was never made, or it was lost and a participant
	 * may bring it back */
	struct fdref *fdref;
	struct order_page *page; /* NULL: none, or unmapped by order_unmap_all() */
	struct participant *participants;
	bool left;	/* the publisher has left, and nobody else publishes */
	bool gone;	/* the page says that nothing more will be published */
	bool ended;	/* the buffer was removed; the page is only kept to repeat its marks */
	uint64_t rated; /* number of publications when the rate was computed last */
	int64_t under_way_ns;  /* until then, a new publisher waits for the last one's GPU */
	int64_t mark_until_ns; /* marks are repeated at least until then; 0: not repeated */
	int64_t again_ns;      /* when marks are repeated next */
	/* until then, participants without a record may resume; 0: none are awaited */
	int64_t awaited_ns;
	struct order *prev, *next; /* list of orders whose marks are repeated */
	uint32_t looked;	   /* next slot whose process is checked, modulo page->top */
	struct {
		bool taken; /* by a participant */
		/* when it may be assigned again; INT64_MAX: not while its last process lives */
		int64_t free_ns;
	} slot[ORDER_SLOTS];
};

/* NULL: that buffer has no order, or was removed. */
struct order *order_find(const struct registry *registry, uint64_t generation);
/* Whether the session shares the buffer or has it attached. */
bool order_may(const struct entry *entry, const struct session *session);
/* Find or make the order of that buffer. `make`: make its page, too, if there is none. OK,
 * E_NO_MEMORY, E_LIMIT; E_TIMED_OUT: the page was lost, and no participant has brought it back. */
int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order);
/* A participant brings a lost page back. True: the order takes over the reference, and the
 * caller must call order_check(). */
bool order_give_back(struct registry *registry, struct order *order, struct fdref *fdref);
void order_free(struct registry *registry, struct order *order);

/* Call when the buffer, its owner or its attachments have changed: ends participants that may no
 * longer use the buffer. */
void order_check(struct registry *registry, uint64_t generation);
/* Call when the buffer has a new owner, which may publish. */
void order_adopt(struct registry *registry, uint64_t generation);
/* Call when the buffer is removed. */
void order_end(struct registry *registry, uint64_t generation);
void order_end_session(struct registry *registry, struct session *session);

/* Repeats marks that are due, and checks which processes have ended. Works for PIECE_NS at most.
 * Returns when to call this again; INT64_MAX: there is no mark to repeat. */
int64_t order_tick(struct registry *registry, int64_t now_ns);

/* Sets `sequence` and `ordering` of *out_info, which come from the page. */
void order_describe(const struct registry *registry, const struct entry *entry, record *out_info);
/* Call when the records have been read: takes the pages from the fd store and ends the orders of
 * unknown buffers. */
void order_restore(struct registry *registry);
/* Unmaps all pages and repeats no more marks, because a successor takes over. */
void order_unmap_all(struct registry *registry);

/* NULL: the session is no participant of this order. */
struct participant *participant_find(const struct order *order, const struct session *session);
/* Adds roles. `slot`: the slot that a consumer resumes; 0: assign one. *out_first: the first number
 * that the consumer has still to release; 0: the session has no slot. OK, E_NO_MEMORY, E_LIMIT: no
 * slot is free. */
int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first);
/* Removes roles (UINT32_MAX: all). If none is left, frees the participant. */
void participant_part(struct registry *registry, struct participant *participant, uint32_t roles);
/* Finds a publisher in another process than the session's. `session` NULL: in any process. NULL:
 * there is none. */
const struct participant *participant_rival(const struct order *order,
					    const struct session *session);
/* Whether `session` may publish only after the last publisher's GPU has finished. */
bool participant_is_under_way(const struct registry *registry, const struct order *order,
			      const struct session *session);
/* Restores a participant from a record. NULL: out of memory, or the record is invalid. */
struct participant *participant_load(struct registry *registry, struct session *session,
				     uint64_t generation, uint32_t roles, uint32_t slot);
/* Replaces what is known of the session's process: its records came from another pid namespace, and
 * `peer` is how this registry sees the process. */
void participant_see(struct session *session, const struct process *peer);
void participant_move_all(struct session *from, struct session *to);
/* The number that stands for a process in stream-sync pages. */
uint64_t participant_number(const struct process *peer);
/* Whether the process with that number and stack has ended or has called exec(). false if the
 * registry can't see the process. */
bool participant_has_ended(uint64_t number, uint64_t stack);

#endif
