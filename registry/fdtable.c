/* SPDX-License-Identifier: MIT */
#include "fdtable.h"

#include <stdlib.h>

#include "os/closer.h"
#include "registry.h"

bool fdtable_is_full(const struct registry *registry)
{
	return registry->state.users.held[LIMIT_connections] + registry->fdtable.count >=
	       registry->limits.together;
}

struct held *fdtable_keep(struct fdtable *fdtable, struct user *user, int fd)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held)
		return NULL;
	held->fd = fd;
	held->references = 1;
	held->user = user;
	fdtable->count++;
	if (user)
		user_add(user, LIMIT_descriptors, 1);
	return held;
}

void fdtable_release(struct fdtable *fdtable, struct held *held)
{
	if (--held->references)
		return;
	fdtable->count--;
	if (held->user)
		user_take(held->user, LIMIT_descriptors, 1);
	if (!fdtable->closer)
		fdtable->closer = closer_open();
	closer_add(fdtable->closer, held->fd);
	free(held);
}

void fdtable_finish(struct fdtable *fdtable)
{
	closer_wait(fdtable->closer);
	closer_end(fdtable->closer);
	fdtable->closer = NULL;
}
