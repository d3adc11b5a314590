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
	bool *due;     /* set when there are lines, so that the main loop writes them */
	uint64_t rate; /* lines a second for each user; 0: no audit */

	/* Protected by the registry's lock: */
	/* a memory stream: lines for audit_take(), each with a final NUL; NULL: none */
	FILE *lines;
	char *text; /* the bytes behind `lines` */
	size_t size;
	bool owing; /* lines of a user were left out, and no line reports that so far */

	/* Used by the main loop only: */
	int fd;
	char path[PATH_MAX]; /* "": journald */
	bool torn;	     /* the file ends with a part of a line */
};

/* Why `word` is no valid value of the setting `audit`; NULL: it is valid. */
const char *audit_fault(const char *word);
/* `word` is the setting `audit`. A file's name without a slash is that of a file in `directory`.
 * false: it failed, which is logged. */
bool audit_open(struct audit *audit, const char *word, uint64_t rate, const char *directory);
/* Call on SIGHUP, in the main loop: log rotation has renamed the file, so make a new one. */
void audit_reopen(struct audit *audit);

/* Take the lines so far, to pass them to audit_write(). NULL: there are none. Under the lock, in
 * the main loop. */
char *audit_take(struct audit *audit, size_t *out_size);
/* Write and free these lines. Without the lock, in the main loop. */
void audit_write(struct audit *audit, char *lines, size_t size);

/* All functions below need the registry's lock held. */

/* A request was answered. If it could not be decoded, its which_verb is 0. */
void audit_request(struct audit *audit, const struct session *session, const request *ask,
		   const reply *answer);
/* A request is parked until its name appears. true: the name exists but is hidden from the peer,
 * and a line reports that. */
bool audit_wait(struct audit *audit, const struct session *session, const request *ask);
/* A connection (`verb` "connect") or a message to fds.sock ("descriptors") was refused. */
void audit_refused(struct audit *audit, const struct process *who, const char *verb, int status);
/* A name is about to be removed. `by`: the process that caused it. */
void audit_removal(struct audit *audit, const struct entry *entry, const struct process *by,
		   const char *outcome);

#endif
