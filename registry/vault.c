/* SPDX-License-Identifier: MIT */
#include "vault.h"

#include <stdlib.h>

#include "os/closer.h"
#include "explain.h"
#include "registry.h"
#include "quota.h"

int vault_check(struct registry *registry, struct user *user, reply *answer)
{
	if (registry->users.held[LIMIT_connections] + registry->vault.count >=
	    registry->limits.together)
		return explain(answer, GPUSHARE_E_LIMIT,
			       "this registry has as many connections and file descriptors as the "
			       "kernel lets it have; free some buffers, or raise its 'ulimit -n'");
	return limit_check(registry, user, LIMIT_descriptors, 1, answer);
}

struct held *vault_keep(struct vault *vault, struct user *user, int fd)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held)
		return NULL;
	held->fd = fd;
	held->references = 1;
	held->user = user;
	vault->count++;
	if (user)
		user_add(user, LIMIT_descriptors, 1);
	return held;
}

void vault_release(struct vault *vault, struct held *held)
{
	if (--held->references)
		return;
	vault->count--;
	if (held->user)
		user_take(held->user, LIMIT_descriptors, 1);
	if (!vault->closer)
		vault->closer = closer_open();
	closer_add(vault->closer, held->fd);
	free(held);
}

void vault_finish(struct vault *vault)
{
	closer_wait(vault->closer);
	closer_end(vault->closer);
	vault->closer = NULL;
}
