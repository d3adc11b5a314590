/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cleanup.h"
#include "client_internal.h"
#include "monotonic.h"

unsigned int client_default_timeout_ms(void)
{
	const char *text = secure_getenv("GPUSHARE_TIMEOUT_MS");
	char *end;
	unsigned long value;

	if (!text || text[0] < '0' || text[0] > '9')
		return GPUSHARE_TIMEOUT_MS;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (*end || errno || value == 0 || value > 3600000)
		return GPUSHARE_TIMEOUT_MS;
	return (unsigned int)value;
}

struct client *client_new(const struct client_options *options)
{
	struct client *client = calloc(1, sizeof(*client));
	const char *autostart = secure_getenv("GPUSHARE_AUTOSTART");

	if (!client)
		return NULL;
	client->fd = -1;
	client->wire = malloc(GPUSHARE_MESSAGE_MAX);
	client->timeout_ms =
	    options->timeout_ms ? options->timeout_ms : client_default_timeout_ms();
	client->autostart = options->autostart && !(autostart && !strcmp(autostart, "0"));
	snprintf(client->who, sizeof(client->who), "%s " GPUSHARE_VERSION, options->who);
	client->pid = getpid();
	/* A path that can't be used is told when it is: client_connect() finds it empty. */
	if (directory_find(options->directory, client->directory) != GPUSHARE_OK)
		client->directory[0] = '\0';
	return client->wire ? client : client_free(client);
}

struct client *client_free(struct client *client)
{
	if (!client)
		return NULL;
	client_disconnect(client);
	free(client->wire);
	free(client);
	return NULL;
}

/* A program may close every fd, or put one of its own where ours was: look before each use. */
static bool fd_is_ours(const struct client *client)
{
	struct stat is;

	return client->fd >= 0 && !fstat(client->fd, &is) && is.st_dev == client->fd_device &&
	       is.st_ino == client->fd_inode;
}

void client_disconnect(struct client *client)
{
	if (fd_is_ours(client))
		close(client->fd);
	client->fd = -1;
}

static int greet(struct client *client, int64_t deadline)
{
	uint8_t mine[SP_GREETING_SIZE], theirs[SP_GREETING_SIZE];
	request hello = {.which_verb = gpushare_Request_hello_tag};
	int status;

	sp_greeting(mine, SP_REQ);
	status = transfer(client->fd, true, mine, sizeof(mine), deadline);
	if (status == GPUSHARE_OK)
		status = transfer(client->fd, false, theirs, sizeof(theirs), deadline);
	if (status != GPUSHARE_OK)
		return fail_transfer(client, status, "greeting");
	if (!sp_greeting_is(theirs, SP_REP))
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "what listens in %s is no gpushare registry", client->directory);
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	snprintf(hello.verb.hello.client, sizeof(hello.verb.hello.client), "%s", client->who);
	return exchange_messages(client, &hello, &client->reply, deadline);
}

static int connect_by(struct client *client, int64_t deadline)
{
	struct stat is;
	int status;

	if (client->pid != getpid()) {
		client_disconnect(client);
		return client_fail(
		    client, GPUSHARE_E_FORKED,
		    "this session was opened before fork(); the child must open its own");
	}
	if (fd_is_ours(client))
		return GPUSHARE_OK;
	client->fd = -1;
	if (client->directory[0]) {
		status = directory_check(client->directory, client->why, sizeof(client->why));
		if (status != GPUSHARE_OK && status != GPUSHARE_E_NOT_FOUND)
			return status;
	}
	status = reach(client, deadline);
	if (status != GPUSHARE_OK)
		return status;
	if (fstat(client->fd, &is) == 0) {
		client->fd_device = is.st_dev;
		client->fd_inode = is.st_ino;
	}
	status = client_check_peer(client, client->fd);
	if (status == GPUSHARE_OK)
		status = greet(client, deadline);
	if (status != GPUSHARE_OK)
		client_disconnect(client);
	return status;
}

int client_connect(struct client *client)
{
	return connect_by(client, monotonic_ms() + client->timeout_ms);
}

int client_call(struct client *client, unsigned int extra_ms)
{
	int64_t deadline = monotonic_ms() + client->timeout_ms + extra_ms;
	bool fresh = !fd_is_ours(client);
	int status = connect_by(client, monotonic_ms() + client->timeout_ms);

	if (status != GPUSHARE_OK)
		return status;
	status = exchange_messages(client, &client->request, &client->reply, deadline);
	/* A registry that was restarted since our last call knows nothing of a request it didn't
	 * answer: ask the new one. fd -1 tells a transport failure from the registry's own word. */
	if (status != GPUSHARE_E_NO_REGISTRY || client->fd >= 0 || fresh)
		return status;
	status = connect_by(client, deadline);
	if (status != GPUSHARE_OK)
		return status;
	return exchange_messages(client, &client->request, &client->reply, deadline);
}
