/* SPDX-License-Identifier: MIT */
/* Clients that ended while no registry ran. If the previous registry left a state file, the next
 * one would take their buffers to be in use as long as this process lives. The process's next
 * connection to that directory reports that they ended. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fork_check.h"
#include "base/monotonic.h"
#include "client_internal.h"

static _Atomic(struct client *) ended; /* pushed to, and taken as a whole */

static void push(struct client *client)
{
	client->next_ended = atomic_load(&ended);
	while (!atomic_compare_exchange_weak(&ended, &client->next_ended, client))
		;
}

bool client_is_remembered(const struct client *client)
{
	char path[GPUSHARE_PATH_MAX + sizeof(GPUSHARE_STATE)];

	snprintf(path, sizeof(path), "%s/" GPUSHARE_STATE, client->directory);
	return client->connections && !access(path, F_OK);
}

int client_await_next(const struct client *client, int status)
{
	return status == GPUSHARE_E_NO_REGISTRY && client_is_remembered(client)
		   ? GPUSHARE_E_NOT_READY
		   : status;
}

static int has_nothing(struct client *client, void *owner, int64_t deadline_ms)
{
	(void)owner;
	client->aside = (request){.which_verb = gpushare_Request_resync_tag};
	client->aside.verb.resync.last = true;
	client->fresh = false;
	return client_ask_aside(client, deadline_ms);
}

bool client_keep_ended(struct client *client)
{
	if (!client->resync || client->process != fork_check_number() || client_stands(client) ||
	    !client_is_remembered(client))
		return false;
	client_disconnect(client);
	client->autostart = false;
	client_resync_by(client, has_nothing, NULL);
	client->request = (request){.which_verb = gpushare_Request_stat_tag};
	push(client);
	return true;
}

void client_end_others(const struct client *client, int64_t deadline_ms)
{
	struct client *list = atomic_load_explicit(&ended, memory_order_relaxed)
				  ? atomic_exchange(&ended, NULL)
				  : NULL;

	while (list) {
		struct client *one = list;
		int64_t left_ms = (deadline_ms - monotonic_ms()) / 2;

		list = one->next_ended;
		if (left_ms <= 0 || strcmp(one->directory, client->directory) != 0) {
			push(one);
			continue;
		}
		one->timeout_ms = (unsigned int)left_ms;
		(void)client_call(one, 0);
		client_free(one); /* which keeps it again if the call failed */
	}
}
