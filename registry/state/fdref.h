/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDREF_H
#define GPUSHARE_REGISTRY_FDREF_H
/*
 * A file descriptor that the registry holds for a record, a stream-sync page or a request in hand, with its
 * references. The registry looks into none. When the last reference is released, another thread closes it,
 * because a driver's close may take long.
 */
struct user;
struct users;

struct fdref {
	int fd;
	unsigned int references;
	struct user *user; /* whose it counts as; NULL: nobody's */
};

/* What came beside the request in hand, and what goes beside its answer: NULL, or a reference. */
struct passing {
	struct fdref *came, *goes;
};

/* The reference is the caller's. NULL: out of memory; `fd` is still the caller's. */
struct fdref *fdref_new(struct users *users, struct user *user, int fd);
void fdref_release(struct users *users, struct fdref *fdref);

#endif
