/* SPDX-License-Identifier: MIT */
/* Waits for a name. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

#define NAP_MS 20	/* pause before another try if the wait ended at once */
#define FULL_NAP_MS 100 /* the same if the registry has no room for another waiting request */

/* Called in place of a resync, after the registry was replaced. The request must not be repeated,
 * because it asks for the whole wait. The caller tries again with the time that is left. */
static int give_up(struct client *client, void *owner, int64_t deadline_ms)
{
	(void)client;
	(void)owner;
	(void)deadline_ms;
	return GPUSHARE_E_NO_REGISTRY;
}

int client_await_name(const struct client_options *options, const char *name, unsigned int wait_ms,
		      char *why, size_t why_size)
{
	struct client *client = client_new(options);
	int status;

	if (!client) {
		snprintf(why, why_size, "no memory to wait for '%s'", name);
		return GPUSHARE_E_NO_MEMORY;
	}
	client->request = (request){.which_verb = gpushare_Request_lookup_tag};
	strcpy(client->request.verb.lookup.name, name);
	client->request.verb.lookup.wait_ms = wait_ms;
	client_resync_by(client, give_up, NULL);
	status = client_call(client, wait_ms);
	if (status)
		snprintf(why, why_size, "%s", *client->why ? client->why : status_text(status));
	if (status == GPUSHARE_E_LIMIT)
		poll(NULL, 0, FULL_NAP_MS);
	else if (status ? status == GPUSHARE_E_NO_REGISTRY
			: client->reply.body.lookup.buffer.missing)
		poll(NULL, 0, NAP_MS);
	client_free(client);
	return status;
}
