/* SPDX-License-Identifier: MIT */
/* What was given back while no registry ran, where the one before left behind what it knew. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "client_internal.h"
#include "base/fork_check.h"
#include "base/monotonic.h"

/* The session_key of a client that has gone. */
struct owed {
	struct owed *next;
	uint8_t session_key[GPUSHARE_SESSION_KEY_SIZE];
	char directory[GPUSHARE_PATH_MAX];
};

static _Atomic(struct owed *) table; /* pushed to, and taken as a whole */

static void push(struct owed *owed)
{
	owed->next = atomic_load(&table);
	while (!atomic_compare_exchange_weak(&table, &owed->next, owed))
		;
}

bool client_is_remembered(const struct client *client)
{
	char path[GPUSHARE_PATH_MAX + sizeof(GPUSHARE_STATE)];

	snprintf(path, sizeof(path), "%s/" GPUSHARE_STATE, client->directory);
	return client->connections && client_has_session(client) && !access(path, F_OK);
}

int client_await_next(const struct client *client, int status)
{
	return status == GPUSHARE_E_NO_REGISTRY && client_is_remembered(client)
		   ? GPUSHARE_E_NOT_READY
		   : status;
}

void client_owe(const struct client *client)
{
	struct owed *made;

	if (client->process != fork_check_number() || !client_is_remembered(client))
		return;
	made = calloc(1, sizeof(*made));
	if (!made)
		return;
	memcpy(made->session_key, client->session_key, sizeof(made->session_key));
	memcpy(made->directory, client->directory, sizeof(made->directory));
	push(made);
}

/* As the client that had it: with nothing to tell of. Where that fails it is owed again. */
static void pay(const struct owed *owed, unsigned int timeout_ms)
{
	const struct client_options options = {
	    .directory = owed->directory,
	    .who = "owed",
	    .timeout_ms = timeout_ms,
	};
	struct client *client = client_new(&options);

	if (!client)
		return;
	memcpy(client->session_key, owed->session_key, sizeof(client->session_key));
	client->connections = 1; /* that was the other one's */
	client->request.which_verb = gpushare_Request_resync_tag;
	client->request.verb.resync.last = true;
	(void)client_call(client, 0);
	client_free(client);
}

void client_pay(const struct client *client, int64_t deadline_ms)
{
	struct owed *list = atomic_load_explicit(&table, memory_order_relaxed)
				? atomic_exchange(&table, NULL)
				: NULL;

	while (list) {
		struct owed *owed = list;
		int64_t left_ms = (deadline_ms - monotonic_ms()) / 2;

		list = owed->next;
		if (left_ms <= 0 || strcmp(owed->directory, client->directory) != 0) {
			push(owed);
			continue;
		}
		pay(owed, (unsigned int)left_ms);
		free(owed);
	}
}
