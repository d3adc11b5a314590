/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_AUDIT_H
#define GPUSHARE_REGISTRY_AUDIT_H
/*
 * A line for each share, attach, refusal and removal: who, what, and what came of it; never a handle,
 * a session's key or a descriptor. It is put down under the registry's lock and written by a thread of its own,
 * so that nobody waits for a disk. Without an audit nothing of this costs anything.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "audit_target.h"
#include "os/process.h"
#include "protocol.h"
#include "state/tombstone.h"

#define AUDIT_WAITING 1024 /* lines that wait for the thread */
#define AUDIT_LINE_MAX 4096

struct entry;
struct session;
struct registry;

struct audit_line {
	uint64_t unix_ns;
	const char *verb, *outcome; /* both of ours, for good */
	uint32_t uid;
	int32_t pid;
	char command[GPUSHARE_COMMAND_MAX + 1];
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation, size;
	uint64_t left_out; /* so many lines are not here; then it is about that alone */
	char why[128];	   /* the beginning of the sentence that a refusal came with */
};

struct audit {
	struct registry *registry;
	struct audit_target target;
	uint64_t rate;
	pthread_t thread;
	int wake;
	atomic_bool ending, reopening;
	uint64_t lost; /* the thread's: lines since the last that could be written */

	/* Under the registry's lock: */
	struct audit_line *waiting;
	unsigned int first, count; /* of those */
	bool owing;		   /* some user's lines were left out, and no line says so */
};

/* `word` is the setting; off: nothing is opened, and registry->audit stays NULL. Before there are other
 * threads. false: it was said why. */
bool audit_open(struct registry *registry, const char *word, uint64_t rate, const char *directory);
/* What waits is written first. */
void audit_close(struct registry *registry);
/* The file was moved away: SIGHUP. */
void audit_reopen(struct registry *registry);

/* All below want the lock held. */
/* What became of a request; `ask` is NULL where it could not be understood. */
void audit_request(struct registry *registry, const struct session *session, const request *ask,
		   const reply *answer);
/* One begins to wait, or its name has come: true where something has that name that it may not see. Then it
 * will hear no more than that its time is up. */
bool audit_wait(struct registry *registry, const struct session *session, const request *ask);
/* What was refused to one who has no connection for requests: "descriptors", "connect". */
void audit_refused(struct registry *registry, const struct process *who, const char *verb,
		   int status);
/* A name goes: it is about to leave the store. `by`: NULL for its owner, or nobody. */
void audit_removal(struct registry *registry, const struct entry *entry, const struct process *by,
		   const char *outcome);
void audit_departure(struct registry *registry, const struct entry *entry, enum departure how);
/* One who was not let in. */
void audit_stranger(struct registry *registry, uint32_t uid, int32_t pid);

/* audit_text.c: one line, without a line feed; what others chose is escaped. Its length. */
size_t audit_text(const struct audit_line *line, bool dated, char out[AUDIT_LINE_MAX]);
/* The same for journald's socket, with fields to search for. */
size_t audit_journal_text(const struct audit_line *line, char out[2 * AUDIT_LINE_MAX]);

#endif
