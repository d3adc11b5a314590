/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LEASE_H
#define GPUSHARE_REGISTRY_LEASE_H
/* A connection, and all that goes when it goes. */
#include "os/hash.h"
#include "os/identity.h"
#include "os/process.h"
#include "protocol.h"
#include "users.h"

struct connection;
struct watcher;
struct entry;

struct attachment {
	UT_hash_handle hh;
	uint64_t holder;     /* see struct lease; found by it and by... */
	uint64_t generation; /* ...which buffer it is of: generations are never used twice */
	struct attachment *prev, *next; /* of the holder */
	unsigned int count;
	bool own;	    /* by the owner's process: held, but not counted among the attachers */
	unsigned int told;  /* see lease.round */
	bool quiet;	    /* of what is staged: nobody hears of it */
	unsigned int noted; /* see note.h */
	char name[];
};

struct lease {
	uint32_t id;	 /* of its connection; a ghost's is above them all */
	uint64_t serial; /* of all leases: a later one is a later connection */
	uint64_t
	    holder; /* what its attachments know it by: they keep it where another lease takes them over */
	struct leases *all;
	uint8_t key[GPUSHARE_LEASE_SIZE]; /* what its client may resume it by */
	struct process peer;
	struct user *user;
	struct identity who; /* without groups but where connection.c has read them */
	int watch;	     /* see watch.h */
	uint64_t
	    number; /* a ghost's, as a predecessor that saw it otherwise numbered it; 0: none */
	uint32_t attempt; /* of its hello: restore_resume(); 0: it said nothing of that */
	bool greeted;
	bool given_up;	/* its client goes on by another one: see restore_resume() */
	bool ghost;	/* of before the registry's restart: it has no connection */
	bool ending;	/* it has no connection either, and goes piece by piece: registry_leave() */
	bool retelling; /* its client is saying what it has; what is not told of goes */
	unsigned int round; /* number of its latest retelling; what that told of has it as `told` */
	struct {
		struct entry *entry;
		struct attachment *attachment;
	} unheard;	    /* the first ones that the end of the retelling has not looked at */
	unsigned int noted; /* see note.h */
	struct connection *connection; /* server/connection.h; NULL: it has none */
	struct watcher *watcher;       /* events.h; NULL: it does not watch */
	struct entry *entries;
	struct entry *limbo; /* what it has freed; not among its entries */
	struct attachment *attachments;
	struct player *players;	   /* what it is to orders: order_page.h */
	struct lease *prev, *next; /* of those that are ending */
	struct {
		unsigned int names, kept, attachments;
	} ended; /* so much of it has */
	UT_hash_handle hh;
};

struct leases {
	struct lease *by_id;
	struct attachment *attached[HASH_PARTS]; /* by holder and generation */
	uint64_t count, ever;
	uint32_t ghosts, ghosts_ever; /* that many of them */
	uint64_t attachments;	      /* of all leases, each counted as often as it was attached */
};

/* Those that have a connection. */
static inline uint64_t leases_connected(const struct leases *leases)
{
	return leases->count - leases->ghosts;
}

/* NULL: out of memory. */
struct lease *lease_new(struct leases *leases, uint32_t id, const struct process *peer,
			struct user *user);
/* It has no connection: it is of before the restart. */
void lease_haunt(struct leases *leases, struct lease *lease);
/* NULL: it isn't there, or is ending. */
struct lease *lease_find(const struct leases *leases, uint32_t id);
struct lease *lease_find_key(const struct leases *leases, const uint8_t key[GPUSHARE_LEASE_SIZE]);
/* Its entries and attachments must be gone. Returns NULL. */
struct lease *lease_free(struct leases *leases, struct lease *lease);

/* That many, at least one, however many there were. NULL: out of memory, or that generation is
 * attached by another name. */
struct attachment *lease_set(struct leases *leases, struct lease *lease, const char *name,
			     uint64_t generation, unsigned int count);
struct attachment *lease_find_attachment(const struct lease *lease, const char *name,
					 uint64_t generation);
/* Whatever its name; NULL: that one is not attached. */
struct attachment *lease_find_generation(const struct lease *lease, uint64_t generation);
/* `count` fewer; the attachment is freed when none is left. */
void lease_detach(struct leases *leases, struct lease *lease, struct attachment *attachment,
		  unsigned int count);

#endif
