/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ORDER_H
#define GPUSHARE_REGISTRY_ORDER_H
/*
 * Stream-sync pages (protocol/order_page.h), one for each buffer whose page was asked for, and their
 * participants. All functions want the registry's lock held. README.md describes slots and marks.
 */
#include "order_page.h"
#include "context/registry.h"

/* A session that publishes or consumes a buffer. */
struct participant {
	struct session *session;
	struct order *order;
	uint32_t roles;					 /* enum order_role */
	uint32_t slot;					 /* a consumer's, from 1 on; 0: none */
	uint64_t record_slot;				 /* see persist/save.h */
	struct participant *prev, *next;		 /* of the order */
	struct participant *session_prev, *session_next; /* of the session */
};

struct order {
	UT_hash_handle hh;
	uint64_t generation;
	struct fdref
	    *fdref; /* the page's descriptor; NULL: the page is lost, or still to be brought */
	struct order_page *page; /* NULL: the same, or it is a successor's by now */
	struct participant *participants;
	bool left;  /* the publisher has left, and nobody else publishes */
	bool gone;  /* the page says that nothing more will be published */
	bool ended; /* the registry knows the buffer no more; the page is only kept for its marks */
	uint64_t rated;	       /* the latest publication that subscribers were told of */
	int64_t under_way_ns;  /* until then another publisher waits for the last one's GPU */
	int64_t mark_until_ns; /* 0: not in the list of orders whose marks are repeated */
	int64_t again_ns;      /* when they are, next */
	int64_t
	    awaited_ns; /* until then participants that only the page knows may resume; 0: none */
	struct order *prev, *next; /* of the orders whose marks are repeated */
	uint32_t looked;	   /* whose process is looked at next, modulo the slots used */
	struct {
		bool taken;	 /* by a participant */
		int64_t free_ns; /* not used again before; INT64_MAX: its process may live */
	} slot[ORDER_SLOTS];
};

/* NULL: none, or the buffer has gone. */
struct order *order_find(const struct registry *registry, uint64_t generation);
/* Whether the session shares the buffer or has it attached. */
bool order_may(const struct entry *entry, const struct session *session);
/* The order of that buffer, made if there is none; with `make` also its page. OK, E_NO_MEMORY, E_LIMIT;
 * E_TIMED_OUT: the page was lost, and a participant has still to bring it. */
int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order);
/* A participant brings the page. True: the reference is the order's; order_check() has to follow. */
bool order_give_back(struct registry *registry, struct order *order, struct fdref *fdref);
void order_free(struct registry *registry, struct order *order);

/* The buffer, its owner or its attachments changed: end participants that may not be any more. */
void order_check(struct registry *registry, uint64_t generation);
/* The buffer has a new owner, who may publish. */
void order_adopt(struct registry *registry, uint64_t generation);
/* The buffer goes. */
void order_end(struct registry *registry, uint64_t generation);
/* Ends all that the session participates in. */
void order_end_session(struct registry *registry, struct session *session);

/* Repeats the marks of the order for LIMIT_ORDER_SETTLE_MS. */
void order_mark_again(struct registry *registry, struct order *order);
/* The lowest slot that nobody has and no GPU still writes to, from 1 on; 0: none. */
uint32_t order_free_slot(const struct order *order, int64_t now_ns);
/* Repeats marks, and looks which processes have ended, for PIECE_NS at most. Returns when to be called next;
 * INT64_MAX: no mark is to be repeated. */
int64_t order_tick(struct registry *registry, int64_t now_ns);

/* Fills in what only the page knows. */
void order_describe(const struct registry *registry, const struct entry *entry, record *out_info);
/* The records have been read: take the pages from the fd store, end the orders of unknown buffers. */
void order_restore(struct registry *registry);
/* A successor has the pages: change them no more. */
void order_let_go(struct registry *registry);

/* participant.c. NULL: the session is none of this order. */
struct participant *participant_find(const struct order *order, const struct session *session);
/* Adds roles. `slot`: the one to resume, 0: a new one. OK, E_NO_MEMORY, E_LIMIT: no slot is free. */
int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first);
/* Takes roles away (UINT32_MAX: all), and with the last one the participant. */
void participant_part(struct registry *registry, struct participant *participant, uint32_t roles);
/* A publisher, of another process than the session's (NULL: of any); NULL: none. */
const struct participant *participant_rival(const struct order *order,
					    const struct session *session);
/* Whether another process has to wait until the last publisher's GPU has finished. */
bool participant_is_under_way(const struct registry *registry, const struct order *order,
			      const struct session *session);
/* From the records. NULL: out of memory, or the record makes no sense. */
struct participant *participant_load(struct registry *registry, struct session *session,
				     uint64_t generation, uint32_t roles, uint32_t slot);
/* Writes the number of the participant's process into the page. */
void participant_sign(const struct participant *participant);
/* The session's process is seen otherwise than before, e.g. in another pid namespace. */
void participant_see(struct session *session, const struct process *peer);
void participant_move_all(struct session *from, struct session *to);
/* The number of a process in pages: which process of this host that is. */
uint64_t participant_number(const struct process *peer);
/* Whether a session of that process is here. */
bool participant_is_here(const struct registry *registry, uint64_t number);
/* Whether the registry can see that process, and it has ended, or its program has by exec(). */
bool participant_has_ended(uint64_t number, uint64_t stack);
/* Whether that process lives. If the registry can't see it: whether it has a session here. 0: false. */
bool participant_lives(const struct registry *registry, uint64_t number, uint64_t stack);
/* Whether the process of a slot that is not final may still write to it. */
bool participant_may_release(const struct registry *registry, const struct order_slot *slot);

#endif
