/* SPDX-License-Identifier: MIT */
#include "state/fdref.h"

#include <stdlib.h>

#include "os/closer.h"
#include "state/users.h"

struct fdref *fdref_new(struct users *users, struct user *user, int fd)
{
	struct fdref *fdref = malloc(sizeof(*fdref));

	if (!fdref)
		return NULL;
	*fdref = (struct fdref){.fd = fd, .references = 1, .user = user};
	users->fds++;
	if (user)
		user_add(user, LIMIT_descriptors, 1);
	return fdref;
}

void fdref_release(struct users *users, struct fdref *fdref)
{
	if (--fdref->references)
		return;
	users->fds--;
	if (fdref->user)
		user_take(fdref->user, LIMIT_descriptors, 1);
	closer_add(closer_at(&users->closer), fdref->fd);
	free(fdref);
}
