/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RESTORE_H
#define GPUSHARE_REGISTRY_RESTORE_H
/*
 * From one registry to the next: what the records tell of, the descriptors that were put away,
 * and connections that come back. Until its process is heard of again, a session of before has no
 * connection: a disconnected, which ends with its process. All but restore_leave() want the lock held, or
 * nobody else there.
 */
#include "context/registry.h"

/* Take over what was left in the directory, and write down from now on. false: logged. */
bool restore_open(struct registry *registry, const char *directory);
/* Have the disconnected sessions' ends told by `watches`; see os/process.h. */
void restore_watch(struct registry *registry, int watches);
/* Whether restore_next_dead() is to be asked again and again. */
bool restore_looks(const struct registry *registry);
/* A disconnected session that has nothing any more, or whose process has ended and could not be watched; 0: none. */
uint32_t restore_next_dead(const struct registry *registry);
/* No request is answered from here on. What is shared stays for a successor. */
void restore_leave(struct registry *registry);

#endif
