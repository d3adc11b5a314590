/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_VAULT_H
#define GPUSHARE_REGISTRY_VAULT_H
/*
 * File descriptors that clients deposited, and the tickets for them: whose, for what, how long. It
 * opens none, looks into none and closes none: closing may wait for whoever made the file, so what
 * nobody needs is handed to a thread that may wait. Everything under the registry's lock.
 */
#include "hash.h"
#include "process.h"
#include "protocol.h"

struct registry;
struct user;

/* One descriptor; a record and any number of tickets may refer to it. */
struct held {
	int fd;
	struct user *user; /* whose it counts as, until it is closed; NULL: nobody's */
	unsigned int references;
	struct held *next; /* of those to close */
};

/* A process that is connected to fds.sock or has tickets. */
struct guest {
	UT_hash_handle hh;
	struct process peer;
	uint32_t id; /* see watch.h */
	int watch;
	unsigned int connections;
	unsigned int tickets;
	bool ended; /* the process: what it sent before and is read now gets no ticket */
};

enum ticket_use {
	TICKET_SHARE, /* its deposit becomes a record */
	TICKET_FETCH, /* a record's descriptor is taken away */
};

struct ticket {
	UT_hash_handle hh;
	uint8_t key[GPUSHARE_TICKET_SIZE];
	enum ticket_use use;
	struct guest *guest;
	uint32_t lease; /* TICKET_FETCH: goes with it */
	struct held *held;
	int64_t deadline_ns;
	struct ticket *prev, *next; /* the oldest is the first to end */
};

struct vault {
	struct registry *registry; /* whose users and limits it goes by */
	struct guest *guests;
	struct ticket *by_key, *by_age;
	struct held *unneeded;
	uint64_t count;		  /* descriptors that are held */
	unsigned int guest_limit; /* tickets of one process */
	int64_t ticket_ns;	  /* how long one serves */
	uint32_t last_id;
	int wake; /* eventfd: there is something to close, or a deadline more; -1: nobody asks */
};

void vault_init(struct vault *vault, struct registry *registry);
/* Closes everything; no record may refer to it any more. */
void vault_finish(struct vault *vault);

/* A connection of that process came, or went. NULL: out of memory. */
struct guest *vault_enter(struct vault *vault, const struct process *peer);
void vault_leave(struct vault *vault, struct guest *guest);
/* The process ended, or the lease: so do its tickets. */
void vault_bury(struct vault *vault, uint32_t guest_id);
void vault_end_lease(struct vault *vault, uint32_t lease);

/* Take `count` descriptors in, all or none. OK, E_LIMIT, E_NO_MEMORY, E_OWNER_GONE. */
int vault_deposit(struct vault *vault, struct guest *guest, const int *fds, size_t count,
		  int64_t now_ns, uint8_t (*out_tickets)[GPUSHARE_TICKET_SIZE]);
/* What `peer` deposited for that ticket, which is used up; NULL: no such ticket of that process.
 * The reference is the caller's. */
struct held *vault_claim(struct vault *vault, const struct process *peer,
			 const uint8_t ticket[GPUSHARE_TICKET_SIZE]);
/* A ticket with which `peer` may take a duplicate. OK, E_LIMIT, E_NO_MEMORY. */
int vault_offer(struct vault *vault, const struct process *peer, uint32_t lease, struct held *held,
		int64_t now_ns, uint8_t out_ticket[GPUSHARE_TICKET_SIZE]);
/* What `count` tickets stand for, all or none; they are used up, the references are the caller's. */
bool vault_redeem(struct vault *vault, const struct guest *guest,
		  uint8_t (*tickets)[GPUSHARE_TICKET_SIZE], size_t count, struct held **out_held);
/* What a predecessor held, or what is of our making: the reference is the caller's, and so is `fd` where
 * this answers NULL, out of memory. It counts as `user`'s. */
struct held *vault_keep(struct vault *vault, struct user *user, int fd);
void vault_release(struct vault *vault, struct held *held);

/* End what is due; when the next ticket will be. INT64_MAX: none. */
int64_t vault_expire(struct vault *vault, int64_t now_ns);
/* What nobody needs any more, for held_close(). */
struct held *vault_take_unneeded(struct vault *vault);
/* Without the lock: may block. */
void held_close(struct held *list);

#endif
