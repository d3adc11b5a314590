/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ORDER_PAGE_H
#define GPUSHARE_REGISTRY_ORDER_PAGE_H
/*
 * Order pages (protocol/order.h), one for each buffer that somebody asked for its page, and who is
 * what to it. When a publisher or a consumer goes, whoever waits for it is let through, by a mark
 * that is made again for a while: what its GPU still had to write may come after it. All want the
 * registry's lock held.
 */
#include "order.h"
#include "registry.h"

/* A connection, and what it is to a buffer's order. */
struct participant {
	struct session *session;
	struct order *order;
	uint32_t roles;					 /* enum order_role */
	uint32_t slot;					 /* a consumer's, from 1 on; 0: none */
	unsigned int record_slot;			 /* see save.h */
	struct participant *prev, *next;		 /* of the order */
	struct participant *session_prev, *session_next; /* of the session */
};

struct order {
	UT_hash_handle hh;
	uint64_t generation;
	struct held *held;	 /* the page's descriptor; NULL: it is not here */
	struct order_page *page; /* NULL: it is not here, or not this process's any more */
	struct participant *participants;
	bool left;  /* who published has gone, and nobody else does */
	bool gone;  /* so whoever waits is let through */
	bool ended; /* the buffer is not known any more: the page goes when it need not be marked */
	uint64_t rated;		   /* what was published when it was last told to who watches */
	int64_t settled_ns;	   /* before then another process may not publish... */
	struct process leaver;	   /* ...but where this one, if it is known, has ended */
	int64_t marked_ns;	   /* when a mark was made last that was not there */
	int64_t awaited_ns;	   /* until then who is not here may come back; 0: nobody */
	struct order *prev, *next; /* of those that are marked */
	struct order_place {
		bool taken;
		bool missed;		       /* its consumer went while the page was not here */
		int64_t free_ns;	       /* it is not used again before */
		struct quarantine *quarantine; /* nor while that stands */
	} place[ORDER_SLOTS];
};

/* A slot that the process has left, and that its GPU may write to. */
struct quarantine {
	struct process process;
	uint64_t settles;	  /* until one less than that is released there; 0: at any time */
	unsigned int record_slot; /* see save.h */
};

struct order *order_find(const struct registry *registry, uint64_t generation);
/* Whether it has the buffer: may be something to its order. */
bool order_may(const struct entry *entry, const struct session *session);
/* Its page is there. OK, E_NO_MEMORY, E_LIMIT; E_TIMED_OUT: it was lost, and is yet to be given back
 * by those who have it; `out_order` may be one without a page, where `make`
 * is false. */
int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order);
/* The page comes back; the reference is the order's where this says true. order_check() is to follow
 * when the caller has said what it is to it. */
bool order_give_back(struct registry *registry, struct order *order, struct held *held);

/* A mark was made, which is to be made again for a while. */
void order_mark_soon(struct registry *registry, struct order *order);

/* order_participant.c. NULL: it is nothing to it. */
struct participant *participant_find(const struct order *order, const struct session *session);
/* And that besides. OK, E_NO_MEMORY, E_LIMIT: no slot. `slot`: the one that it has had; 0: none. */
int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first);
/* Those roles end, and with the last one the participant. */
enum parting {
	PARTING_DEATH,	   /* nobody says what its GPU has still to do */
	PARTING_SETTLED,   /* nothing */
	PARTING_UNSETTLED, /* something: `settles`, see struct quarantine */
};
void participant_part(struct registry *registry, struct participant *participant, uint32_t roles,
		      enum parting how, uint64_t settles);
void participant_end(struct registry *registry, struct participant *participant);
/* Whether who published last may still be at it. */
bool participant_is_unsettled(const struct order *order);
/* Somebody else's process that publishes; NULL: none. */
const struct participant *participant_rival(const struct order *order,
					    const struct session *session);
/* One number for a process, which is told from others of the host. */
uint64_t participant_number(const struct process *peer);
/* The page says that it was this process who published. */
bool participant_published_last(const struct order *order, const struct session *session);
/* From the records: as it was. */
struct participant *participant_load(struct registry *registry, struct session *session,
				     uint64_t generation, uint32_t roles, uint32_t slot);
void participant_restore(struct order *order);
/* A disconnected session is that process: its pages have the number of that, unless some are still to come. */
void participant_see(struct session *session, const struct process *peer);
void participant_move_all(struct session *from, struct session *to);
/* Whether who published last, as the page says, has a connection or had one before a restart. */
bool participant_publisher_is_here(const struct registry *registry, const struct order *order);

/* order_quarantine.c: slots from 1 on. */
void quarantine_add(struct registry *registry, struct order *order, uint32_t slot,
		    const struct process *process, uint64_t settles);
struct quarantine *quarantine_load(struct registry *registry, uint64_t generation, uint32_t slot,
				   const struct process *process, uint64_t settles);
void quarantine_end(struct registry *registry, struct order_place *place);
/* False, and there is none any more: the process has ended, or its GPU has. Places from 0 on. */
bool quarantine_stands(struct registry *registry, struct order *order, uint32_t at);

/* order_settle.c: what the page says, and is to say, of who is there. */
void order_unmark(struct registry *registry, struct order *order);
/* Some number has been given out that was not published, or may be at any time. */
bool order_is_under_way(const struct order_page *page);
/* Gone, or not: by who is left. */
void order_settle(struct registry *registry, struct order *order, const struct entry *entry);
/* The page has come: from a predecessor, or from who had it. */
void order_look_over(struct registry *registry, struct order *order);

/* Something about the buffer has changed: who has gone is nothing to it any more. */
void order_check(struct registry *registry, uint64_t generation);
/* Its owner is another one. */
void order_adopt(struct registry *registry, uint64_t generation);
/* The buffer goes, and is not known any more. */
void order_end(struct registry *registry, uint64_t generation);
/* What the session is anything to, for the last time. */
void order_end_session(struct registry *registry, struct session *session);
/* Marks that are to be made again; when the next will be, INT64_MAX: none. */
int64_t order_tick(struct registry *registry, int64_t now_ns);
void order_tell(const struct registry *registry, const struct entry *entry, record *out_info);
/* The records have been read: take the pages that were put away, and end what nobody knows. */
void order_restore(struct registry *registry);
/* The pages are a successor's: nothing is marked any more. */
void order_let_go(struct registry *registry);
void order_free(struct registry *registry, struct order *order);
void order_finish(struct registry *registry);

#endif
