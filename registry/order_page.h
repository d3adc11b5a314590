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
struct player {
	struct lease *lease;
	struct order *order;
	uint32_t roles;				/* enum order_role */
	uint32_t slot;				/* a consumer's, from 1 on; 0: none */
	unsigned int noted;			/* see note.h */
	struct player *prev, *next;		/* of the order */
	struct player *lease_prev, *lease_next; /* of the lease */
};

struct order {
	UT_hash_handle hh;
	uint64_t generation;
	struct held *held;	 /* the page's descriptor; NULL: it is not here */
	struct order_page *page; /* NULL: it is not here, or not this process's any more */
	struct player *players;
	bool left;  /* who published has gone, and nobody else does */
	bool gone;  /* so whoever waits is let through */
	bool ended; /* the buffer is not known any more: the page goes when it need not be marked */
	uint64_t rated;		   /* what was published when it was last told to who watches */
	int64_t settled_ns;	   /* before then another process may not publish */
	int64_t marked_ns;	   /* when a mark was made last that was not there */
	struct order *prev, *next; /* of those that are marked */
	struct order_place {
		bool taken;
		bool burned;	 /* a GPU may write to it at any time */
		int64_t free_ns; /* it is not used again before */
	} place[ORDER_SLOTS];
};

struct order *order_find(const struct registry *registry, uint64_t generation);
/* Whether it has the buffer: may be something to its order. */
bool order_may(const struct entry *entry, const struct lease *lease);
/* Its page is there. OK, E_NO_MEMORY, E_LIMIT; E_TIMED_OUT: it was lost, and is yet to be given back
 * by those who have it; `out_order` may be one without a page, where `make`
 * is false. */
int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order);
/* The page comes back; the reference is the order's where this says true. */
bool order_give_back(struct registry *registry, struct order *order, struct held *held);

/* A mark was made, which is to be made again for a while. */
void order_mark_soon(struct registry *registry, struct order *order);

/* order_player.c. NULL: it is nothing to it. */
struct player *player_find(const struct order *order, const struct lease *lease);
/* And that besides. OK, E_NO_MEMORY, E_LIMIT: no slot. `slot`: the one that it has had; 0: none. */
int player_add(struct registry *registry, struct order *order, struct lease *lease, uint32_t roles,
	       uint32_t slot, uint64_t *out_first);
/* Those roles end, and with the last one the player. */
enum parting {
	PARTING_DEATH,	   /* nobody says what its GPU has still to do */
	PARTING_SETTLED,   /* nothing */
	PARTING_UNSETTLED, /* something, at any time */
};
void player_part(struct registry *registry, struct player *player, uint32_t roles,
		 enum parting how);
void player_end(struct registry *registry, struct player *player);
/* Somebody else's process that publishes; NULL: none. */
const struct player *player_rival(const struct order *order, const struct lease *lease);
/* The page says that it was this process who published. */
bool player_published_last(const struct order *order, const struct lease *lease);
/* From the journal: as it was. */
void player_replay(struct registry *registry, struct lease *lease, uint64_t generation,
		   uint32_t roles, uint32_t slot);
void player_restore(struct order *order);
void player_move_all(struct lease *from, struct lease *to);

/* Something about the buffer has changed: who has gone is nothing to it any more. */
void order_check(struct registry *registry, uint64_t generation);
/* Its owner is another one. */
void order_adopt(struct registry *registry, uint64_t generation);
/* The buffer goes, and is not known any more. */
void order_end(struct registry *registry, uint64_t generation);
/* What the lease is anything to, for the last time. */
void order_end_lease(struct registry *registry, struct lease *lease);
/* Marks that are to be made again; when the next will be, INT64_MAX: none. */
int64_t order_tick(struct registry *registry, int64_t now_ns);
void order_tell(const struct registry *registry, const struct entry *entry, record *out_info);
/* The journal has been read: take the pages that were put away, and end what nobody knows. */
void order_restore(struct registry *registry);
/* The pages are a successor's: nothing is marked any more. */
void order_let_go(struct registry *registry);
void order_finish(struct registry *registry);

#endif
