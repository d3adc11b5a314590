/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
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
	client->socket.fd = client->fds.fd = client->events = client->goes = client->came = -1;
	/* Each is smaller than malloc's mmap threshold. A mapping of its own could fill a hole
	 * between libraries, and libraries that are loaded later would get other addresses. */
	client->out = malloc(GPUSHARE_MESSAGE_MAX);
	client->in = malloc(GPUSHARE_MESSAGE_MAX);
	client->timeout_ms =
	    options->timeout_ms ? options->timeout_ms : client_default_timeout_ms();
	client->autostart = options->autostart && !(autostart && !strcmp(autostart, "0"));
	client->shares_late = options->shares_late;
	snprintf(client->who, sizeof(client->who), "%s " GPUSHARE_VERSION, options->who);
	client->process = fork_check_number();
	/* If the path is unusable, the directory is "", and client_connect() reports that. */
	if (directory_find(options->directory, client->directory) != GPUSHARE_OK)
		client->directory[0] = '\0';
	return client->out && client->in ? client : client_free(client);
}

bool client_socket_of(int fd, struct client_socket *out_socket)
{
	struct stat is;

	if (fstat(fd, &is))
		return false;
	*out_socket = (struct client_socket){.fd = fd, .device = is.st_dev, .inode = is.st_ino};
	return true;
}

bool client_socket_is_ours(const struct client_socket *socket)
{
	struct client_socket is;

	return socket->fd >= 0 && client_socket_of(socket->fd, &is) &&
	       is.device == socket->device && is.inode == socket->inode;
}

bool client_has_ended(const struct client *client)
{
	char byte;
	ssize_t got = recv(client->socket.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

bool client_stands(const struct client *client)
{
	return client->ready && client_socket_is_ours(&client->socket) && !client_has_ended(client);
}

bool client_is_silent(const struct client *client)
{
	return client->socket.fd < 0 || !client->ready || client_is_late(client);
}

/* While a forked child holds the fd, close() ends neither the connection nor its epoll entry: end
 * both explicitly. */
void client_close_socket(const struct client *client, struct client_socket *socket)
{
	if (client_socket_is_ours(socket)) {
		if (client->process == fork_check_number()) {
			if (client->events >= 0)
				epoll_ctl(client->events, EPOLL_CTL_DEL, socket->fd, NULL);
			shutdown(socket->fd, SHUT_RDWR);
		}
		close(socket->fd);
	}
	socket->fd = -1;
}

void client_disconnect(struct client *client)
{
	client_close_socket(client, &client->socket);
	client_close_socket(client, &client->fds);
	client->greeted = client->ready = false;
	client->hello = 0;
	client->out_size = client->in_size = 0;
	client->unanswered = client->ahead = 0;
	client_drop_pages(client);
	client->late.verb = 0;
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
	client_disconnect(client);
	drop_fd(client);
	free(client->out);
	free(client->in);
	free(client);
	return NULL;
}

static int queue_hello(struct client *client)
{
	gpushare_Hello *hello = &client->own.verb.hello;

	memset(&client->own, 0, sizeof(client->own));
	client->own.which_verb = gpushare_Request_hello_tag;
	hello->protocol = GPUSHARE_PROTOCOL;
	memcpy(hello->client, client->who, strnlen(client->who, sizeof(hello->client) - 1));
	hello->has_self = true;
	client_self(&hello->self);
	memcpy(hello->resume, client->session_key, sizeof(client->session_key));
	return client_queue(client, &client->own, &client->hello);
}

static void take_hello(struct client *client)
{
	const gpushare_HelloReply *answer = &client->reply.body.hello;

	memset(client->session_key, 0, sizeof(client->session_key));
	if (client->reply.which_body == gpushare_Reply_hello_tag) {
		memcpy(client->session_key, answer->session, sizeof(client->session_key));
		client->connection = answer->connection;
	}
	client->fresh = client->connections++ > 0;
	client->ready = true;
}

static int greet(struct client *client, int64_t deadline)
{
	int status = client->greeted ? GPUSHARE_OK : client_greet(client, deadline);

	return status == GPUSHARE_OK && !client->hello ? queue_hello(client) : status;
}

/* Say hello. If the deadline passes, keep the connection; the next call continues on it. Once the
 * registry has read the hello, the session belongs to this connection and would end with it. */
static int open_up(struct client *client, int64_t deadline)
{
	int status = greet(client, deadline);
	bool answered = true;

	if (status == GPUSHARE_OK)
		status = client_await(client, client->hello, &answered, deadline);
	if (status == GPUSHARE_OK)
		take_hello(client);
	else if (answered && client->greeted)
		client_disconnect(client); /* the registry refused the hello */
	return status;
}

static bool join_events(struct client *client)
{
	struct epoll_event event = {.events = EPOLLIN};

	return client->events < 0 ||
	       !epoll_ctl(client->events, EPOLL_CTL_ADD, client->socket.fd, &event);
}

/* `fd` is connected; its peer is not verified yet. */
static int begin(struct client *client, int fd)
{
	int status;

	if (!client_socket_of(fd, &client->socket) || !join_events(client)) {
		status = client_fail(client, GPUSHARE_E_NO_REGISTRY,
				     "the connection to the registry in %s can't be set up: %s",
				     client->directory, strerror(errno));
		close(fd);
		client->socket.fd = -1;
		return status;
	}
	sp_greeting(client->out, SP_REQ);
	client->out_size = SP_GREETING_SIZE;
	status = client_check_peer(client, fd);
	if (status != GPUSHARE_OK)
		client_disconnect(client);
	return status;
}

static int check_trust(struct client *client)
{
	int status = client->directory[0] ? directory_check(client->directory, &client->trust,
							    client->why, sizeof(client->why))
					  : GPUSHARE_OK;

	return status == GPUSHARE_E_NOT_FOUND ? GPUSHARE_OK : status;
}

static int dial(struct client *client, int64_t deadline)
{
	int fd, status = client_reach(client, deadline, &fd);

	return status == GPUSHARE_OK ? begin(client, fd) : status;
}

/* Drop a connection without a greeting after `patience_ms`, unless the deadline has passed; the
 * caller connects again. When registries are killed, a listener sometimes accepts a connection
 * without greeting it, and greets the next one. No request was sent before the greeting. */
static int open_in_time(struct client *client, int64_t deadline, int64_t patience_ms)
{
	int64_t until = monotonic_ms() + patience_ms;
	int status = greet(client, until < deadline ? until : deadline);

	if (status == GPUSHARE_E_TIMED_OUT && until < deadline)
		client_disconnect(client);
	return status == GPUSHARE_OK ? open_up(client, deadline) : status;
}

/* If the registry ends before it greets us or answers the hello, connect to the next registry,
 * which may have to be started. Give up on a registry that closes each connection. */
static int connect_again(struct client *client, int64_t deadline)
{
	int64_t patience_ms = CLIENT_PATIENCE_MS;
	struct client_endings endings = {0};
	int status;

	do {
		status = client->socket.fd < 0 ? dial(client, deadline) : GPUSHARE_OK;
		if (status != GPUSHARE_OK)
			return status;
		status = open_in_time(client, deadline, patience_ms);
		patience_ms *= 2;
	} while (client->socket.fd < 0 &&
		 (status == GPUSHARE_E_TIMED_OUT || (status == GPUSHARE_E_NO_REGISTRY &&
						     client_outlives(client, &endings, deadline))));
	return status;
}

/* Keeps a connection whose hello is not answered yet. */
bool client_drop_ended(struct client *client)
{
	if (!client_socket_is_ours(&client->socket) || client_has_ended(client))
		client_disconnect(client);
	return client->socket.fd >= 0;
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
	client_drop_ended(client);
	status = client->socket.fd < 0 ? check_trust(client) : GPUSHARE_OK;
	return status == GPUSHARE_OK ? connect_again(client, deadline) : status;
}

int client_probe(struct client *client)
{
	bool autostart = client->autostart;

	client->autostart = false;
	client->dial_error = 0;
	client_connect_by(client, 0);
	client->autostart = autostart;
	if (client->greeted)
		return GPUSHARE_OK;
	return client->socket.fd >= 0 || client->dial_error == EAGAIN
		   ? GPUSHARE_E_TIMED_OUT
		   : client_await_next(client, GPUSHARE_E_NO_REGISTRY);
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

void client_tell_rest(const struct client *client, gpushare_Resync *part)
{
	const gpushare_Withdraw *withdraw = &client->request.verb.withdraw;
	gpushare_Hold *hold;

	if (client->request.which_verb != gpushare_Request_withdraw_tag || !withdraw->deferred)
		return;
	hold = &part->shared[part->shared_count++];
	memcpy(hold->name, withdraw->name, sizeof(hold->name));
	hold->generation = withdraw->generation;
	hold->count = 1;
}

void client_begin_resyncing(struct client *client)
{
	client->told_anew = client->begins = true;
	client->anew = false;
}

void client_end_resyncing(struct client *client)
{
	client->fresh = client->anew;
}

void client_tell_anew(struct client *client)
{
	client->fresh = client->anew = true;
}

int client_ask_aside(struct client *client, int64_t deadline_ms)
{
	int status;

	client->aside.verb.resync.first |= client->begins;
	client->begins = false;
	status = client_exchange(client, &client->aside, deadline_ms);
	client->told |= status == GPUSHARE_OK;
	return status;
}

/* True: the request is a Detach that must not be sent. A part of a resync was answered during this
 * call. The resync did not report the attachment, so the registry has ended it. The Detach would
 * end another attachment of the buffer. If the resync began in an earlier call, a part sent then
 * may have reported the attachment: ask for another whole resync. */
static bool is_told(struct client *client)
{
	if (!client->told || client->request.which_verb != gpushare_Request_detach_tag)
		return false;
	if (!client->told_anew)
		client_tell_anew(client);
	return true;
}

/* Can a descriptor go with the request, or come with its answer? Before an attach we don't know
 * what kind of memory the buffer has. */
static bool needs_fds(const struct client *client, const request *question)
{
	return client->goes >= 0 || question->which_verb == gpushare_Request_attach_tag ||
	       (question->which_verb == gpushare_Request_share_tag && question->verb.share.adopt) ||
	       (question->which_verb == gpushare_Request_order_tag && !question->verb.order.again &&
		!question->verb.order.leave);
}

/* Of requests without a descriptor: does fds.sock take this one, too? The answer comes sooner
 * there, because one thread fewer has to wake. */
static bool suits_fds(const request *question)
{
	return question->which_verb == gpushare_Request_share_tag ||
	       question->which_verb == gpushare_Request_withdraw_tag ||
	       question->which_verb == gpushare_Request_detach_tag;
}

/* fds.sock doesn't look up names of groups: get the group's number from the main socket. */
static int find_group(struct client *client, int64_t deadline)
{
	gpushare_Share *share = &client->request.verb.share;
	const gpushare_ShareReply *answer = &client->reply.body.share;
	int status = client_exchange(client, &client->request, deadline);

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

/* Try fds.sock first. If the request was not sent there (fds.sock is gone, refuses this process, or
 * an earlier answer came too late), or an older registry doesn't take this verb there, send it over
 * the main connection. After the deadline, that leaves a request whose answer comes late. */
static int exchange_quickly(struct client *client, int64_t deadline)
{
	const request *question = &client->request;
	bool asked = client->asked;
	int status = GPUSHARE_E_NO_REGISTRY;

	client->asked = false;
	if (client->outlived != client->connections && client_reach_fds(client, deadline))
		status = client_exchange_fds(client, question, ENDING_MS, deadline);
	if (status && (!client->asked || status == GPUSHARE_E_PROTOCOL) && client->socket.fd >= 0)
		status = client_exchange(client, question, deadline);
	client->asked |= asked;
	return status;
}

static int exchange(struct client *client, int64_t deadline)
{
	const request *question = &client->request;
	int status = GPUSHARE_OK;

	if (!needs_fds(client, question))
		return suits_fds(question) && !names_group(question)
			   ? exchange_quickly(client, deadline)
			   : client_exchange(client, question, deadline);
	if (names_group(question))
		status = find_group(client, deadline);
	return status ? status : client_exchange_fds(client, question, ENDING_ASKED_MS, deadline);
}

/* Only fds.sock has ended, and the request can go over the main connection. */
static bool can_do_without_fds(const struct client *client)
{
	return client->socket.fd >= 0 && client->outlived == client->connections &&
	       !needs_fds(client, &client->request);
}

/* Ask over the current connection, after any resync that is due. */
static int ask(struct client *client, int64_t deadline)
{
	int status = GPUSHARE_OK;

	client->told = client->told_anew = false;
	if (client->fresh && client->resync)
		status = client->resync(client, client->owner, deadline);
	if (status != GPUSHARE_OK || is_told(client))
		return status;
	return exchange(client, deadline);
}

/* True: the request gives a buffer back, and no registry has received that request. */
static bool is_untold(const struct client *client, int status)
{
	pb_size_t verb = client->request.which_verb;

	return client->connections && !client->asked &&
	       (status == GPUSHARE_E_TIMED_OUT || client_is_silent(client)) &&
	       (verb == gpushare_Request_withdraw_tag || verb == gpushare_Request_detach_tag);
}

int client_call(struct client *client, unsigned int extra_ms)
{
	int64_t deadline = monotonic_ms() + client->timeout_ms + extra_ms;
	struct client_endings endings = {0};
	bool without = false;
	int status;

	client->asked = false;
	drop_fd(client);
	status = client_connect(client);
	/* If the connection ends during the request, the registry has ended. Ask the next registry,
	 * after a resync, and so on until the deadline. Give up on a registry that closes each
	 * connection. */
	while (status == GPUSHARE_OK) {
		status = ask(client, deadline);
		if (status == GPUSHARE_E_NO_REGISTRY && !without && can_do_without_fds(client)) {
			without = true;
			status = GPUSHARE_OK;
			continue;
		}
		if (status != GPUSHARE_E_NO_REGISTRY || client->socket.fd >= 0)
			break;
		if (!client_outlives(client, &endings, deadline))
			break;
		status = client_connect_by(client, deadline);
	}
	if (is_untold(client, status))
		client_tell_anew(client);
	client->goes = -1;
	/* E_LIMIT: the registry may have done the request, but this process had no room for the
	 * answer's descriptor. A resync at once, without that buffer, undoes the request. */
	if (status == GPUSHARE_E_LIMIT && client->socket.fd >= 0 && client->fresh && client->resync)
		(void)client->resync(client, client->owner, deadline);
	return status;
}
