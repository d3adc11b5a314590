/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SESSION_H
#define GPUSHARE_REGISTRY_SESSION_H
/* A connection, and all that goes when it goes. */
#include "os/hash.h"
#include "os/identity.h"
#include "os/process.h"
#include "protocol.h"
#include "state/tree.h"
#include "state/users.h"

struct connection;
struct entry;
struct owner;
struct watcher;

struct attachment {
	struct tree_node node; /* of the session, by generation */
	uint64_t generation;   /* of the buffer, not 0 */
	unsigned int count;
	bool own;	     /* by the owner's process: held, but not counted among the attachers */
	bool quiet;	     /* of what is staged: nobody hears of it */
	unsigned int synced; /* see session.round */
	uint64_t record_slot; /* see persist/save.h */
	char name[];
};

struct session {
	uint32_t id;	 /* of its connection; a disconnected session's is above them all */
	uint64_t serial; /* of all sessions: a later one is a later connection */
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE]; /* what its client may resume it by; 0: nothing */
	struct process peer;			/* session_identify() */
	struct owner *owner;			/* the same, shared with its entries */
	struct user *user;
	struct identity who; /* without groups but where connection.c has read them */
	int watch;	     /* see os/process.h */
	uint32_t attempt;    /* of its hello; 0: it said nothing of that */
	bool greeted;
	bool given_up;	   /* its client goes on by another one: see handle_hello() */
	bool disconnected; /* of before the registry's restart: it has no connection */
	bool ending;	   /* it has no connection either, and goes piece by piece: state_leave() */
	bool resyncing;	   /* its client names what it has; what it doesn't name goes */
	unsigned int round; /* of its latest resync; what that named has it in `synced` */
	/* What the end of the resync has not looked at: the first entry, attachments above a generation. */
	struct entry *unheard;
	uint64_t heard;
	uint64_t record_slot;	       /* see persist/save.h */
	struct connection *connection; /* server/connection.h; NULL: it has none */
	struct watcher *watcher;       /* events.h; NULL: it does not watch */
	struct entry *entries;	       /* also those without a name */
	struct tree attachments;
	struct participant *participants; /* what it is to orders: order/order.h */
	struct session *prev, *next;	  /* of those that are ending */
	struct {
		unsigned int names, kept, attachments;
	} ended; /* so much of it has */
	UT_hash_handle hh;
};

struct sessions {
	struct session *by_id;
	uint64_t ever;
	uint32_t disconnected, disconnected_ever; /* that many of them */
};

/* NULL: out of memory. */
struct session *session_new(struct sessions *sessions, uint32_t id, const struct process *peer,
			    struct user *user);
/* Its peer is seen as that process from now on. */
void session_identify(struct session *session, const struct process *peer);
/* It has no connection: it is of before the restart. */
void session_disconnect(struct sessions *sessions, struct session *session);
/* It shares nothing, has nothing attached and nothing that is to be freed. */
bool session_has_nothing(const struct session *session);
/* NULL: it isn't there, or is ending. */
struct session *session_find(const struct sessions *sessions, uint32_t id);
struct session *session_find_key(const struct sessions *sessions,
				 const uint8_t key[GPUSHARE_SESSION_KEY_SIZE]);
/* Its entries and attachments must be gone. Returns NULL. */
struct session *session_free(struct sessions *sessions, struct session *session);

/* That many, at least one, however many there were. NULL: out of memory, or that generation is
 * attached by another name. */
struct attachment *session_set(struct session *session, const char *name, uint64_t generation,
			       unsigned int count);
struct attachment *session_find_attachment(const struct session *session, const char *name,
					   uint64_t generation);
/* Whatever its name; NULL: that one is not attached. */
struct attachment *session_find_generation(const struct session *session, uint64_t generation);
/* The first attachment above that generation; NULL: none. */
struct attachment *session_next(const struct session *session, uint64_t generation);
/* `count` fewer; with none left the session has it no more, and the caller frees it. */
void session_detach(struct session *session, struct attachment *attachment, unsigned int count);

#endif
