/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINK_H
#define GPUSHARE_SHIM_LINK_H
/*
 * What the shim asks the registry: over one connection (shim_line.h), made when a rule first
 * matches, shared by the program's threads, given up in a forked child. No call here outlasts the
 * deadline, not even one that waits behind another thread's.
 */
#include "protocol.h"

/* All return a status; the sentence for a failure is in `why`. *out_reading is resync_readings() of when
 * the registry said yes. */

/* What a record says of memory that is to get a name, without a record's kilobyte on the stack. */
struct memory {
	const char *name;
	uint64_t address, size, base_offset, base_size;
	uint32_t backing, flags, ttl_s, mode;
	uint8_t device_uuid[GPUSHARE_UUID_SIZE];
};

/* By `handle` or by `fd`, as backing_is_fd() says of what->backing. */
struct link_share {
	const struct memory *what;
	const char *group;     /* "": for none */
	const uint8_t *handle; /* where fd is -1 */
	int fd;		       /* stays the caller's */
	uint64_t again;	       /* the generation that it had; 0: a new one */
	bool orphan;	       /* from one who has it attached */
};
/* E_NOT_READY: it was sent, and not answered; it may stand under its name, until the registry is told anew
 * without it. */
int link_share(const struct link_share *what, uint64_t *out_generation, unsigned int *out_reading,
	       char *why, size_t why_size);
/* For a registry that knows its memory no more, in shim_resync.c. */
int link_share_again(const struct link_share *what, int64_t until_ms, uint64_t *out_generation,
		     char *why, size_t why_size);
/* Ask anything, of that name: what was not answered then has its number, or no name. */
void link_settle(const char *name);
/* Become the owner of a kept buffer like `what`; E_NOT_FOUND: there is none. *out_fd is closed by
 * the caller, close-on-exec. */
int link_adopt(const struct memory *what, const char *group, record *out_record, int *out_fd,
	       unsigned int *out_reading, char *why, size_t why_size);
/* *out_fd is -1, or a descriptor that the caller closes, close-on-exec. */
/* *read_only: whether reading is all that is asked for; then, whether it is all that is given. */
int link_attach(const char *name, unsigned int wait_ms, bool *read_only, record *out_record,
		uint8_t out_handle[GPUSHARE_HANDLE_SIZE], int *out_fd, bool *out_own,
		unsigned int *out_reading, char *why, size_t why_size);
/* The whole name of what has that generation, among the names that `glob` fits. */
int link_find(const char *glob, uint64_t generation, char out_name[GPUSHARE_NAME_MAX + 1],
	      char *why, size_t why_size);
/* `deferred`: NULL, or whether it is to be held for others: they have it attached, or may have, as the registry
 * has not answered. */
int link_withdraw(const char *name, uint64_t generation, bool *deferred, char *why,
		  size_t why_size);
/* Of what is held so: the generations that nobody has attached any more, in their place. E_NOT_READY: see
 * client_await_next(); or the registry failed a moment ago, and is asked again soon. */
int link_deferred(uint64_t *generations, size_t *count, char *why, size_t why_size);
/* The same without a wait for the registry, as far as its page of changes tells. Only another registry that
 * has come, and runs, is connected to and asked, within a tenth of a second. E_TIMED_OUT: it can't be told. */
int link_deferred_left(uint64_t *generations, size_t *count, char *why, size_t why_size);
/* The next two without a wait, but for another registry that has come and runs. False: not now. */
void link_withdraw_later(const char *name, uint64_t generation);
bool link_detach_later(const char *name, uint64_t generation, unsigned int reading);
/* `reading`: resync_readings() when it was taken off all lists. */
int link_detach(const char *name, uint64_t generation, unsigned int reading, char *why,
		size_t why_size);

#endif
