/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDREF_H
#define GPUSHARE_REGISTRY_FDREF_H
/*
 * A reference-counted file descriptor that the registry holds for a buffer, a stream-sync page or
 * the current request. The registry never accesses a buffer through it. After the last reference is
 * released, another thread closes the descriptor, because a driver's close() may take long.
 */
struct user;
struct users;

struct fdref {
	int fd;
	unsigned int references;
	struct user *user; /* the user it is charged to; NULL: none */
};

/* Descriptors of the current request: `came` with the request, `goes` with the answer. Each is
 * NULL or holds a reference. */
struct passing {
	struct fdref *came, *goes;
};

/* The caller owns the reference. NULL: out of memory, and the caller still owns `fd`. */
struct fdref *fdref_new(struct users *users, struct user *user, int fd);
void fdref_release(struct users *users, struct fdref *fdref);

#endif
