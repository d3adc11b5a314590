/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDTABLE_H
#define GPUSHARE_REGISTRY_FDTABLE_H
/*
 * File descriptors that the registry holds: for records, order pages, and a request in hand. It opens none
 * and looks into none. The last reference gone, another thread closes it, as a driver may take its time.
 * Everything under the registry's lock.
 */
#include <stdint.h>

#include "protocol.h"

struct closer;
struct registry;
struct user;

struct held {
	int fd;
	struct user *user; /* whose it counts as; NULL: nobody's */
	unsigned int references;
};

struct fdtable {
	uint64_t count; /* descriptors that are held */
	struct closer *closer;
};

/* What came beside the request in hand, and what goes beside its answer: NULL, or a reference. */
struct passing {
	struct held *came, *goes;
};

/* No record may refer to anything of it any more. */
void fdtable_finish(struct fdtable *fdtable);
/* There are as many connections and descriptors as the process may open. */
bool fdtable_is_full(const struct registry *registry);
/* The reference is the caller's, and so is `fd` where this answers NULL, out of memory. */
struct held *fdtable_keep(struct fdtable *fdtable, struct user *user, int fd);
void fdtable_release(struct fdtable *fdtable, struct held *held);

#endif
