/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_USERS_H
#define GPUSHARE_TESTS_UNIT_USERS_H
/* A registry for several users, without a socket, and what they ask. */
#include "state/access.h"
#include "peer.h"

#define OWNER 41001 /* the uids of no real user: that of the process may read all sums */
#define MEMBER 41002
#define OTHER 41003
#define TEAM 500 /* a group of OWNER's and MEMBER's */

extern struct session *owner, *member, *other, *root;

/* For cmocka, with peer_tear_down(). */
int users_set_up(void **state);
/* A connection; `group`: NULL, or one besides its own, whose number is the uid. */
struct session *user(uint32_t uid, const uint32_t *group);
request share_of(const char *name, uint32_t mode, const char *group);
/* The generation. Fails the test where it is refused. */
uint64_t share(struct session *session, const char *name, uint32_t mode, const char *group);
/* As memory that travels as a descriptor, which only fdtable.c would have to know of. */
void as_vmm(const char *name);
/* These return the status; the rest is in peer_answer. */
int attach(struct session *session, const char *name, bool read_only);
int tag(struct session *session, const char *name);
int holders(struct session *session, const char *name, uint64_t generation);
int lookup_of(struct session *session, const char *name, uint64_t generation);
int order(struct session *session, const char *name, uint64_t generation, uint32_t roles);
unsigned int listed(struct session *session);
gpushare_StatReply stat_of(struct session *session);

#endif
