/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SESSION_H
#define GPUSHARE_REGISTRY_SESSION_H
/* A session: a connection, and everything that ends with it. */
#include "os/hash.h"
#include "os/process.h"
#include "protocol.h"
#include "state/tree.h"
#include "state/users.h"

struct ask;
struct connection;
struct entry;
struct list_rest;

struct attachment {
	struct tree_node node; /* in session.attachments, by generation */
	uint64_t generation;   /* of the buffer, not 0 */
	unsigned int count;
	bool own;	      /* of the owner's own memory: not counted among the attachers */
	bool quiet;	      /* of a staged buffer: no notices */
	unsigned int synced;  /* see session.round */
	uint64_t record_slot; /* see persist/persist.h */
	char name[];
};

struct session {
	/* The id of its connection: later ones have higher ids, until ids wrap after 2^31
	 * connections. Sessions restored from records have the highest. */
	uint32_t id;
	/* The secret by which its client may resume the session; all zero: the client can't. */
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	struct process peer; /* also the owner of the session's entries, which point to it */
	struct user *user;
	struct identity who;	     /* has groups only if connection.c has read them */
	int watch;		     /* see os/process.h */
	struct list_rest *list_rest; /* of a List that was interrupted: handle_list.c; NULL: none */
	bool greeted;
	bool given_up;	   /* its client has resumed on another connection: handle_hello() */
	bool disconnected; /* it has no connection: restored after a restart, or ending */
	/* its connection has ended; what it has is removed in pieces: state_leave() */
	bool ending;
	/* a resync is under way; its end removes what the client did not mention */
	bool resyncing;
	/* Number of its latest resync. Entries and attachments that the resync mentioned have it in
	 * `synced`; such entries are last in the list. */
	unsigned int round;
	/* Progress of the end of a resync: attachments up to this generation have been checked. */
	uint64_t heard;
	uint64_t record_slot;	       /* see persist/persist.h */
	struct connection *connection; /* server/connection.h; NULL: none */
	/* observe/events.h: whether it is subscribed, the last notice that it has passed, and how
	 * many of these it was not allowed to see */
	bool watches;
	uint64_t passed, hidden;
	struct ask *subscribe; /* its parked Subscribe: server/ask.c; NULL: none */
	struct entry *entries; /* also those without a name */
	struct tree attachments;
	struct participant *participants; /* its roles in stream-sync pages: order/order.h */
	struct session *prev, *next;	  /* list of ending sessions */
	struct {
		unsigned int names, kept, attachments;
	} ended; /* what has been removed so far, for the log */
	UT_hash_handle hh;
};

struct sessions {
	struct session *by_id;
	uint64_t ever;
	uint32_t disconnected, disconnected_ever; /* sessions: disconnected now, restored so far */
};

/* NULL: out of memory. */
struct session *session_new(struct sessions *sessions, uint32_t id, const struct process *peer,
			    struct user *user);
/* Mark the session as one without a connection. The session no longer counts as a connection of its
 * user. */
void session_disconnect(struct sessions *sessions, struct session *session);
/* Whether nothing is shared, attached or deferred, and the session has no role in a stream-sync
 * page. */
bool session_has_nothing(const struct session *session);
/* NULL: there is no such session, or it is ending. */
struct session *session_find(const struct sessions *sessions, uint32_t id);
struct session *session_find_key(const struct sessions *sessions,
				 const uint8_t key[GPUSHARE_SESSION_KEY_SIZE]);
/* The session must be disconnected, and its entries and attachments gone. */
void session_free(struct sessions *sessions, struct session *session);

/* Set the number of attachments, whatever it was. With 0, the session no longer has the attachment,
 * and the caller frees it. NULL: out of memory. */
struct attachment *session_set(struct session *session, const char *name, uint64_t generation,
			       unsigned int count);
/* NULL: none. */
struct attachment *session_find_attachment(const struct session *session, uint64_t generation);
/* The first attachment above that generation; NULL: none. */
struct attachment *session_next(const struct session *session, uint64_t generation);

/*
 * A peer's rights to a buffer. As with a file, the mode's bits for the owner, the group or all
 * others apply, whichever fits the peer first. A buffer that the peer may neither read nor write
 * does not exist for it.
 */
#define ACCESS_MODE 0666u /* all valid bits */
#define ACCESS_MODE_DEFAULT 0600u

enum access_right {
	ACCESS_SEE = 1,
	ACCESS_READ = 2,  /* attach it for reading, look at it */
	ACCESS_WRITE = 4, /* with READ: attach it, publish it */
	ACCESS_OWN = 8,	  /* withdraw or unlink it, tag it */
};

/* The rights (bits of enum access_right) of `who` to a buffer with that owner, group and mode. */
unsigned int access_grants(uint32_t owner_uid, uint32_t owner_gid, unsigned int mode,
			   const struct identity *who);
/* The same for a buffer, by its owner, group and mode alone. */
unsigned int access_rights(const struct entry *entry, const struct identity *who);
/*
 * The rights of the session's peer. The owner's process has all rights. Other processes have none
 * to a staged buffer. Nobody has rights to a buffer that is being removed with its ending session.
 */
unsigned int access_of(const struct session *session, const struct entry *entry);
bool access_sees(const struct session *session, const struct entry *entry);

#endif
