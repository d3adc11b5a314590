/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ORDER_H
#define GPUSHARE_REGISTRY_ORDER_H
/*
 * Stream-sync pages (protocol/order_page.h), one for each buffer whose page was asked for, and
 * their participants. All functions need the registry's lock held. README.md describes slots and
 * marks.
 */
#include "order_page.h"
#include "context/registry.h"

/* A session that publishes or consumes a buffer. */
struct participant {
	struct session *session;
	struct order *order;
	uint32_t roles;					 /* enum order_role */
	uint32_t slot;					 /* a consumer's, from 1 on; 0: none */
	uint64_t record_slot;				 /* see persist/persist.h */
	struct participant *prev, *next;		 /* list of the order's participants */
	struct participant *session_prev, *session_next; /* list of the session's participants */
};

struct order {
	UT_hash_handle hh;
	uint64_t generation;
	/* the page's descriptor; NULL: there is no page, or it is lost and a participant may
	 * bring it back */
	struct fdref *fdref;
	struct order_page *page; /* NULL: none, or unmapped by order_unmap_all() */
	struct participant *participants;
	bool left;	/* the publisher has left, and nobody else publishes */
	bool gone;	/* the page says that nothing more will be published */
	bool ended;	/* the buffer was removed; the page is only kept to repeat its marks */
	uint64_t rated; /* number of publications when the rate was computed last */
	int64_t under_way_ns;  /* until then a new publisher waits for the GPU of the last one */
	int64_t mark_until_ns; /* marks are repeated at least until then; 0: they aren't */
	int64_t again_ns;      /* when marks are repeated next */
	/* until then, participants without a record may resume; 0: none are awaited */
	int64_t awaited_ns;
	struct order *prev, *next; /* list of orders whose marks are repeated */
	uint32_t looked;	   /* slot whose process is checked next, modulo the slots used */
	struct {
		bool taken;	 /* by a participant */
		int64_t free_ns; /* not assigned before then; INT64_MAX: its process may live */
	} slot[ORDER_SLOTS];
};

/* NULL: there is none, or its buffer was removed. */
struct order *order_find(const struct registry *registry, uint64_t generation);
/* Whether the session shares the buffer or has it attached. */
bool order_may(const struct entry *entry, const struct session *session);
/* Find or make the order of that buffer; with `make` also its page. OK, E_NO_MEMORY, E_LIMIT;
 * E_TIMED_OUT: the page was lost, and no participant has brought it back so far. */
int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order);
/* A participant brings a lost page back. True: the order takes over the reference, and the
 * caller must call order_check(). */
bool order_give_back(struct registry *registry, struct order *order, struct fdref *fdref);
void order_free(struct registry *registry, struct order *order);

/* Call when the buffer, its owner or its attachments have changed: ends participants that have
 * lost the right. */
void order_check(struct registry *registry, uint64_t generation);
/* Call when the buffer has a new owner, which may publish. */
void order_adopt(struct registry *registry, uint64_t generation);
/* Call when the buffer is removed. */
void order_end(struct registry *registry, uint64_t generation);
void order_end_session(struct registry *registry, struct session *session);

/* Repeats marks that are due, and checks which processes have ended. Works for PIECE_NS at most.
 * Returns when to call it next; INT64_MAX: there is no mark to repeat. */
int64_t order_tick(struct registry *registry, int64_t now_ns);

/* Fills in the fields that come from the page. */
void order_describe(const struct registry *registry, const struct entry *entry, record *out_info);
/* Call when the records have been read: takes the pages from the fd store and ends the orders of
 * unknown buffers. */
void order_restore(struct registry *registry);
/* Unmaps all pages: a successor has them from now on. */
void order_unmap_all(struct registry *registry);

/* NULL: the session is no participant of this order. */
struct participant *participant_find(const struct order *order, const struct session *session);
/* Adds roles. `slot`, of a consumer: the one to resume; 0: a new one. *out_first: the first number
 * that the consumer has still to release; 0: it has no slot. OK, E_NO_MEMORY, E_LIMIT: no slot is
 * free. */
int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first);
/* Removes roles (UINT32_MAX: all). If none is left, frees the participant. */
void participant_part(struct registry *registry, struct participant *participant, uint32_t roles);
/* A publisher in another process than the session's (`session` NULL: any publisher). NULL: there
 * is none. */
const struct participant *participant_rival(const struct order *order,
					    const struct session *session);
/* Whether another process has to wait until the last publisher's GPU has finished. */
bool participant_is_under_way(const struct registry *registry, const struct order *order,
			      const struct session *session);
/* Restores a participant from a record. NULL: out of memory, or the record is invalid. */
struct participant *participant_load(struct registry *registry, struct session *session,
				     uint64_t generation, uint32_t roles, uint32_t slot);
/* Replaces the data on the session's process, e.g. when it is now seen in another pid namespace. */
void participant_see(struct session *session, const struct process *peer);
void participant_move_all(struct session *from, struct session *to);
/* The number by which pages identify a process of this host. */
uint64_t participant_number(const struct process *peer);
/* Whether the registry can see that process, and it has ended or has called exec(). */
bool participant_has_ended(uint64_t number, uint64_t stack);

#endif
