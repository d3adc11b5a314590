/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SUCCESSOR_H
#define GPUSHARE_TESTS_SUCCESSOR_H
/*
 * peer.h's registry, with a directory: killed without a word and followed by another one, and peers
 * that are processes, as only what belongs to a living one comes back.
 */
#include <sys/types.h>

#include "peer.h"

extern char successor_folder[64];

int successor_set_up(void **state);
int successor_tear_down(void **state);
/* The registry is no more, whatever it was at; another one starts. No session outlives that. */
void successor_start(void);

/* A connection of that process, whose hello is answered in peer_answer. */
struct session *successor_connect(pid_t pid);
/* The same; `key` of before in the hello. */
struct session *successor_resume(pid_t pid, const uint8_t key[GPUSHARE_SESSION_KEY_SIZE]);
/* A process that does nothing, and its end. */
pid_t successor_process(void);
void successor_end(pid_t pid);

/* A request to share with KEEP or what `flags` say, with a fresh descriptor. */
request successor_share(const char *name, uint32_t flags);
const record *successor_seen(struct session *session, const char *name);
/* Add to a request for resync. */
void successor_tell(request *what, const char *name, uint64_t generation, uint32_t count);

#endif
