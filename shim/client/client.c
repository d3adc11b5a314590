/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "client_fds.h"
#include "client_internal.h"
#include "base/fork_check.h"
#include "base/monotonic.h"

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
	client->fd = client->probe.fd = client->goes = client->came = -1;
	client->wire = malloc(GPUSHARE_MESSAGE_MAX);
	client->timeout_ms =
	    options->timeout_ms ? options->timeout_ms : client_default_timeout_ms();
	client->autostart = options->autostart && !(autostart && !strcmp(autostart, "0"));
	snprintf(client->who, sizeof(client->who), "%s " GPUSHARE_VERSION, options->who);
	client->process = fork_check_number();
	/* A path that can't be used is told when it is: client_connect() finds it empty. */
	if (directory_find(options->directory, client->directory) != GPUSHARE_OK)
		client->directory[0] = '\0';
	return client->wire ? client : client_free(client);
}

static bool fd_is_ours(const struct client *client)
{
	const struct client_socket socket = {
	    .fd = client->fd, .device = client->fd_device, .inode = client->fd_inode};

	return client_socket_is_ours(&socket);
}

bool client_fd_has_ended(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

bool client_has_ended(const struct client *client)
{
	return client_fd_has_ended(client->fd);
}

bool client_stands(const struct client *client)
{
	return fd_is_ours(client) && !client_has_ended(client);
}

void client_hang_up(struct client *client)
{
	if (fd_is_ours(client))
		close(client->fd);
	client->fd = -1;
}

void client_disconnect(struct client *client)
{
	client_hang_up(client);
	client_drop_given_up(client);
	client_drop_probe(client);
}

int client_take_fd(struct client *client)
{
	int came = client->came;

	client->came = -1;
	return came;
}

static void drop_fd(struct client *client)
{
	int unwanted = client_take_fd(client);

	if (unwanted >= 0)
		close(unwanted);
}

struct client *client_free(struct client *client)
{
	if (!client)
		return NULL;
	if (!client_stands(client))
		client_owe(client);
	client_disconnect(client);
	drop_fd(client);
	free(client->wire);
	free(client);
	return NULL;
}

static int say_hello(struct client *client, int64_t deadline)
{
	static _Atomic uint32_t
	    attempts; /* the process's: a session_key may be another client's next */
	gpushare_Hello *hello = &client->greeting.verb.hello;
	const gpushare_HelloReply *answer = &client->reply.body.hello;
	int status;

	memset(&client->greeting, 0, sizeof(client->greeting));
	client->greeting.which_verb = gpushare_Request_hello_tag;
	hello->protocol = GPUSHARE_PROTOCOL;
	memcpy(hello->client, client->who, strnlen(client->who, sizeof(hello->client) - 1));
	hello->has_self = true;
	client_self(&hello->self);
	memcpy(hello->resume, client->session_key, sizeof(client->session_key));
	hello->attempt = atomic_fetch_add(&attempts, 1) + 1;
	status = client_exchange(client, &client->greeting, &client->reply, deadline);
	if (status != GPUSHARE_OK)
		return status;
	memset(client->session_key, 0, sizeof(client->session_key));
	if (client->reply.which_body == gpushare_Reply_hello_tag) {
		memcpy(client->session_key, answer->session, sizeof(client->session_key));
		client->connection = answer->connection;
	}
	client->fresh = client->connections++ > 0;
	client_drop_given_up(client);
	return GPUSHARE_OK;
}

static int greet(struct client *client, int64_t deadline)
{
	uint8_t mine[SP_GREETING_SIZE], theirs[SP_GREETING_SIZE];
	int status;

	sp_greeting(mine, SP_REQ);
	status = client_transfer(client, true, mine, sizeof(mine), deadline);
	if (status == GPUSHARE_OK)
		status = client_transfer(client, false, theirs, sizeof(theirs), deadline);
	if (status != GPUSHARE_OK) {
		client_hang_up(
		    client); /* without a hello it takes no session_key: it need not stay */
		return client_fail_transfer(client, status, "greeting");
	}
	if (!sp_greeting_is(theirs, SP_REP))
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "what listens in %s is no gpushare registry", client->directory);
	return say_hello(client, deadline);
}

/* One connection, greeted by `patience`. *out_reached: somebody was there. */
static int connect_once(struct client *client, int64_t deadline, int64_t patience,
			bool *out_reached)
{
	struct stat is;
	int status = client_reach(client, deadline);

	*out_reached = status == GPUSHARE_OK;
	if (status != GPUSHARE_OK)
		return status;
	if (fstat(client->fd, &is)) { /* else nobody would ever close it */
		status = client_fail(client, GPUSHARE_E_NO_REGISTRY,
				     "the connection to the registry in %s can't be looked at: %s",
				     client->directory, strerror(errno));
		close(client->fd);
		client->fd = -1;
		return status;
	}
	client->fd_device = is.st_dev;
	client->fd_inode = is.st_ino;
	client->posted = 0;
	status = client_check_peer(client, client->fd);
	if (status == GPUSHARE_OK)
		status = greet(client, patience < deadline ? patience : deadline);
	if (status != GPUSHARE_OK)
		client_hang_up(client);
	return status;
}

/*
 * A listener of nng 1.5.2 can go deaf, and the registry then opens another: a connection of meanwhile
 * is never answered, the next one is. And a registry can end with our greeting in its hands: there is,
 * or we start, another. One that closes each connection does not want us.
 */
static int connect_again(struct client *client, int64_t deadline)
{
	int64_t patience_ms = CLIENT_PATIENCE_MS;
	struct client_endings endings = {0};
	bool reached;
	int status;

	do {
		status = connect_once(client, deadline, monotonic_ms() + patience_ms, &reached);
		if (!reached || (status != GPUSHARE_E_TIMED_OUT &&
				 (status != GPUSHARE_E_NO_REGISTRY ||
				  !client_outlives(client->server, &endings, deadline))))
			return status;
		patience_ms *= 2;
	} while (monotonic_ms() < deadline);
	return status;
}

int client_connect_by(struct client *client, int64_t deadline)
{
	int status;

	if (client->process != fork_check_number()) {
		client_disconnect(client);
		return client_fail(
		    client, GPUSHARE_E_FORKED,
		    "this session was opened before fork(); the child must open its own");
	}
	if (client_stands(client))
		return GPUSHARE_OK;
	client_hang_up(client);
	client_drop_ended(client);
	if (client->directory[0]) {
		status = directory_check_trust(client->directory, &client->trust, client->why,
					       sizeof(client->why));
		if (status != GPUSHARE_OK && status != GPUSHARE_E_NOT_FOUND)
			return status;
	}
	status = connect_again(client, deadline);
	if (status == GPUSHARE_OK)
		client_settle(client, deadline);
	return status;
}

int client_connect(struct client *client)
{
	return client_connect_by(client, monotonic_ms() + client->timeout_ms);
}

void client_resync_by(struct client *client, client_resync *resync, void *owner)
{
	client->resync = resync;
	client->owner = owner;
}

bool client_has_session(const struct client *client)
{
	static const uint8_t none[sizeof(client->session_key)];

	return memcmp(client->session_key, none, sizeof(none)) != 0;
}

void client_tell_rest(const struct client *client, gpushare_Resync *part)
{
	const gpushare_Withdraw *withdraw = &client->request.verb.withdraw;
	gpushare_Hold *hold;

	memcpy(part->unanswered, client->unanswered, sizeof(part->unanswered));
	part->unanswered_after = client->unanswered_after;
	if (client->request.which_verb != gpushare_Request_withdraw_tag || !withdraw->deferred)
		return;
	hold = &part->shared[part->shared_count++];
	memcpy(hold->name, withdraw->name, sizeof(hold->name));
	hold->generation = withdraw->generation;
	hold->count = 1;
}

void client_begin_resyncing(struct client *client)
{
	client->told_anew = true;
	client->anew = false;
}

/* One without leases has no word for more. */
void client_end_resyncing(struct client *client)
{
	client->fresh = client->anew && client_has_session(client);
}

void client_tell_anew(struct client *client)
{
	client->fresh = client->anew = true;
}

int client_ask_aside(struct client *client, int64_t deadline_ms)
{
	int status = client_exchange(client, &client->aside, &client->reply, deadline_ms);

	client->told |= status == GPUSHARE_OK;
	if (status == GPUSHARE_OK && client->aside.which_verb == gpushare_Request_resync_tag &&
	    client->aside.verb.resync.last)
		client->unanswered[0] = '\0';
	return status;
}

/* What is to be detached was told of without that: asked for besides, it would end another attachment. Where
 * it was told of before, in a part of an earlier call's, all is told once more. */
static bool is_told(struct client *client)
{
	if (!client->told || client->request.which_verb != gpushare_Request_detach_tag)
		return false;
	if (!client->told_anew)
		client_tell_anew(client);
	return true;
}

/* A descriptor goes with the request, or comes with its answer; of what is attached that is taken to be as with the
 * one before. */
static bool is_for_fds(const struct client *client)
{
	const request *question = &client->request;

	if (question->which_verb == gpushare_Request_attach_tag)
		return client->attached_by_fds && !question->verb.attach.wait_ms;
	return client->goes >= 0 ||
	       (question->which_verb == gpushare_Request_share_tag && question->verb.share.adopt) ||
	       (question->which_verb == gpushare_Request_order_tag && !question->verb.order.again &&
		!question->verb.order.leave);
}

/* A group's name is not looked up where descriptors are: the other socket tells its number. */
static int find_group(struct client *client, int64_t deadline)
{
	gpushare_Share *share = &client->request.verb.share;
	const gpushare_ShareReply *answer = &client->reply.body.share;
	int status = client_exchange(client, &client->request, &client->reply, deadline);

	if (status != GPUSHARE_OK)
		return status;
	if (client->reply.which_body != gpushare_Reply_share_tag || !answer->at_fds)
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "the registry in %s does not say which group '%s' is",
				   client->directory, share->group);
	snprintf(share->group, sizeof(share->group), "%" PRIu32, answer->owner_gid);
	return GPUSHARE_OK;
}

static bool names_group(const request *question)
{
	const char *group = question->verb.share.group;

	return question->which_verb == gpushare_Request_share_tag && *group &&
	       !name_is_number(group);
}

/* How what is attached travels the registry knows. */
static int exchange(struct client *client, int64_t deadline)
{
	int status = GPUSHARE_OK;
	bool for_fds = is_for_fds(client);

	if (for_fds && names_group(&client->request)) {
		status = find_group(client, deadline);
	} else if (!for_fds) {
		status = client_exchange(client, &client->request, &client->reply, deadline);
		for_fds = status == GPUSHARE_OK &&
			  client->reply.which_body == gpushare_Reply_attach_tag &&
			  client->reply.body.attach.at_fds;
	}
	if (for_fds && status == GPUSHARE_OK)
		status = client_exchange_fds(client, &client->request, &client->reply, deadline);
	if (status == GPUSHARE_OK && client->request.which_verb == gpushare_Request_attach_tag)
		client->attached_by_fds = client->came >= 0;
	return status;
}

/* Over the connection there is. */
static int ask(struct client *client, int64_t deadline)
{
	int status = GPUSHARE_OK;

	client->told = client->told_anew = false;
	if (client->fresh && client->resync)
		status = client->resync(client, client->owner, deadline);
	if (status != GPUSHARE_OK || is_told(client))
		return status;
	client->asked = true;
	return exchange(client, deadline);
}

/* What is adopted stays kept, and what is brought back stood before. */
static void note_unanswered(struct client *client)
{
	const gpushare_Share *share = &client->request.verb.share;

	if (!client->asked || client->fd >= 0 || share->adopt || share->again)
		return;
	memcpy(client->unanswered, share->buffer.name, sizeof(client->unanswered));
	client->unanswered_after = client->latest;
}

/* Under that name stands what the owner knows of. */
static void note_shared(struct client *client)
{
	const gpushare_ShareReply *answer = &client->reply.body.share;

	if (client->reply.which_body == gpushare_Reply_share_tag &&
	    answer->generation > client->latest)
		client->latest = answer->generation;
	if (!strcmp(client->request.verb.share.buffer.name, client->unanswered))
		client->unanswered[0] = '\0';
}

static void note(struct client *client, int status)
{
	if (client->request.which_verb != gpushare_Request_share_tag)
		return;
	if (status == GPUSHARE_OK)
		note_shared(client);
	else
		note_unanswered(client);
}

int client_call(struct client *client, unsigned int extra_ms)
{
	int64_t deadline = monotonic_ms() + client->timeout_ms + extra_ms;
	struct client_endings endings = {0};
	int status;

	client->asked = false;
	drop_fd(client);
	status = client_connect(client);
	/* A connection that died under the request was a registry's that ended: ask its successor,
	 * which first hears how things stand, and that one's, while there is time; but not one that
	 * closes each connection. fd -1 tells a failure of the transport from the registry's own
	 * word. */
	while (status == GPUSHARE_OK) {
		status = ask(client, deadline);
		note(client, status);
		if (status != GPUSHARE_E_NO_REGISTRY || client->fd >= 0 || client->heard)
			break;
		if (!client_outlives(client->server, &endings, deadline))
			break;
		status = client_connect_by(client, deadline);
	}
	client->goes = -1;
	/* Done, perhaps, for a descriptor that had no room here: it is told of without that, at once. */
	if (status == GPUSHARE_E_LIMIT && client->fd >= 0 && client->fresh && client->resync)
		(void)client->resync(client, client->owner, deadline);
	return status;
}
