/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_AUDIT_H
#define GPUSHARE_REGISTRY_AUDIT_H
/*
 * The audit: one line for each share, attach, refusal and removal; registry.conf(5) describes them.
 * Lines are collected under the registry's lock. The main loop writes them without the lock,
 * because a write may wait for a disk. Never pass a handle, a session's key or a descriptor.
 */
#include <limits.h>
#include <stdio.h>

#include "state/session.h"
#include "state/entry.h"
#include "state/users.h"

struct audit {
	struct users *users;
	const struct store *store;
	bool *due;     /* to be set if there are lines: the main loop writes them */
	uint64_t rate; /* lines a second for each user; 0: no audit */

	/* Under the registry's lock. */
	/* a memory stream: lines not taken so far, each with a final NUL; NULL: none */
	FILE *lines;
	char *text; /* the bytes behind `lines` */
	size_t size;
	bool owing; /* some user has left-out lines that are not reported yet */

	/* Used by the main loop only. */
	int fd;
	char path[PATH_MAX]; /* "": journald */
	bool torn;	     /* the file ends with a part of a line */
};

/* Why `word` is no value of the setting `audit`; NULL: it is one. */
const char *audit_fault(const char *word);
/* `word` is the setting; a name without a slash is in `directory`. false: failed, which is
 * logged. */
bool audit_open(struct audit *audit, const char *word, uint64_t rate, const char *directory);
/* Call on SIGHUP, in the main loop: the file was renamed. */
void audit_reopen(struct audit *audit);

/* Under the lock, in the main loop: take the lines so far, for audit_write(), which frees them.
 * NULL: there are none. */
char *audit_take(struct audit *audit, size_t *out_size);
/* Without the lock, in the main loop. */
void audit_write(struct audit *audit, char *lines, size_t size);

/* All functions below need the registry's lock held. */

/* A request was answered. If it could not be decoded, its which_verb is 0. */
void audit_request(struct audit *audit, const struct session *session, const request *ask,
		   const reply *answer);
/* A request waits for its name. true: the name exists and is hidden from the peer, which a line
 * reports. */
bool audit_wait(struct audit *audit, const struct session *session, const request *ask);
/* Something other than a connection's request was refused; `verb` is "descriptors" or "connect". */
void audit_refused(struct audit *audit, const struct process *who, const char *verb, int status);
/* A name is about to be removed. */
void audit_removal(struct audit *audit, const struct entry *entry, const struct process *by,
		   const char *outcome);

#endif
