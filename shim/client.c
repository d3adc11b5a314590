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

int client_fail(struct client *client, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(client->why, sizeof(client->why), format, arguments);
	va_end(arguments);
	return status;
}

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

int client_wait(int fd, short events, int64_t deadline_ms)
{
	struct pollfd one = {.fd = fd, .events = events};

	for (;;) {
		int64_t left = deadline_ms - monotonic_ms();
		int ready;

		if (left <= 0)
			left = 0;
		ready = poll(&one, 1, left > INT32_MAX ? INT32_MAX : (int)left);
		if (ready > 0)
			return GPUSHARE_OK;
		if (ready == 0)
			return GPUSHARE_E_TIMED_OUT;
		if (errno != EINTR)
			return GPUSHARE_E_IO;
	}
}

/* Move all `size` bytes one way. E_NO_REGISTRY: the other side closed. */
static int transfer(int fd, bool out, uint8_t *data, size_t size, int64_t deadline)
{
	while (size > 0) {
		ssize_t moved = out ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT)
				    : recv(fd, data, size, MSG_DONTWAIT);

		if (moved > 0) {
			data += moved;
			size -= (size_t)moved;
			continue;
		}
		if (moved == 0 && !out)
			return GPUSHARE_E_NO_REGISTRY;
		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0 && errno != EAGAIN)
			return GPUSHARE_E_NO_REGISTRY;
		int status = client_wait(fd, out ? POLLOUT : POLLIN, deadline);
		if (status != GPUSHARE_OK)
			return status;
	}
	return GPUSHARE_OK;
}

static int fail_transfer(struct client *client, int status, const char *doing)
{
	client_disconnect(client);
	if (status == GPUSHARE_E_TIMED_OUT)
		return client_fail(
		    client, status,
		    "the registry in %s did not answer in time (%u ms) while %s; is it stopped or "
		    "overloaded? GPUSHARE_TIMEOUT_MS sets the limit",
		    client->directory, client->timeout_ms, doing);
	return client_fail(
	    client, GPUSHARE_E_NO_REGISTRY,
	    "the registry in %s closed the connection while %s; it may have been ended: try again",
	    client->directory, doing);
}

/* One message of `size` bytes, already at wire + header, there and back. */
static int exchange(struct client *client, size_t size, size_t *out_size, int64_t deadline)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	uint32_t id = ++client->next_id | 0x80000000u;
	int status;
	long body;

	sp_header(client->wire, id, size);
	status = transfer(client->fd, true, client->wire, header + size, deadline);
	if (status != GPUSHARE_OK)
		return fail_transfer(client, status, "taking a request");
	status = transfer(client->fd, false, client->wire, header, deadline);
	if (status != GPUSHARE_OK)
		return fail_transfer(client, status, "answering");
	body = sp_header_body_size(client->wire);
	if (body < 0 || (size_t)body > GPUSHARE_MESSAGE_MAX - header ||
	    sp_id(client->wire + SP_HEADER_SIZE) != id) {
		client_disconnect(client);
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "what answers in %s does not speak the registry's protocol",
				   client->directory);
	}
	status = transfer(client->fd, false, client->wire + header, (size_t)body, deadline);
	if (status != GPUSHARE_OK)
		return fail_transfer(client, status, "answering");
	*out_size = (size_t)body;
	return GPUSHARE_OK;
}

static int exchange_messages(struct client *client, const request *question, reply *answer,
			     int64_t deadline)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	size_t size = 0;
	int status = codec_encode_request(question, client->wire + header,
					  GPUSHARE_MESSAGE_MAX - header, &size);

	if (status != GPUSHARE_OK)
		return client_fail(client, status, "a request breaks the protocol's bounds");
	status = exchange(client, size, &size, deadline);
	if (status != GPUSHARE_OK)
		return status;
	status = codec_decode_reply(client->wire + header, size, answer);
	if (status != GPUSHARE_OK) {
		client_disconnect(client);
		return client_fail(client, GPUSHARE_E_PROTOCOL,
				   "the registry in %s sent an answer that can't be decoded",
				   client->directory);
	}
	if (answer->status != GPUSHARE_OK)
		return client_fail(client, answer->status, "%s",
				   answer->message[0] ? answer->message
						      : status_text(answer->status));
	return GPUSHARE_OK;
}

/* Never 0, 1 or 2: a program that has closed one of those may write there all the same. */
static int dial_socket(int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), moved, error;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;
	close(fd);
	errno = error;
	return moved;
}

int client_dial(const char *path, int type)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = dial_socket(type);
	int taken;

	if (fd < 0)
		return -errno;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	taken = fd;
	fd = -1;
	return taken;
}

/* Dial until the deadline; where nobody listens, start a registry once. */
static int reach(struct client *client, int64_t deadline)
{
	char path[GPUSHARE_PATH_MAX];
	bool started = false;

	if (!client->directory[0] || directory_socket(client->directory, path) != GPUSHARE_OK)
		return client_fail(client, GPUSHARE_E_NO_REGISTRY,
				   "the registry's directory has too long a path; set GPUSHARE_DIR "
				   "to a shorter one");
	for (;;) {
		int status, fd = client_dial(path, SOCK_STREAM);

		if (fd >= 0) {
			client->fd = fd;
			return GPUSHARE_OK;
		}
		if (fd != -ENOENT && fd != -ECONNREFUSED && fd != -EAGAIN)
			return client_fail(
			    client, fd == -EACCES ? GPUSHARE_E_DENIED : GPUSHARE_E_NO_REGISTRY,
			    "the registry's socket %s can't be connected to: %s", path,
			    strerror(-fd));
		if (!client->autostart && fd != -EAGAIN)
			return client_fail(client, GPUSHARE_E_NO_REGISTRY,
					   "no registry listens on %s and autostart is off; start "
					   "gpushare-registry --dir %s",
					   path, client->directory);
		if (!started && fd != -EAGAIN) {
			status =
			    directory_prepare(client->directory, client->why, sizeof(client->why));
			if (status == GPUSHARE_OK)
				status = autostart_registry(client->directory, client->why,
							    sizeof(client->why));
			if (status != GPUSHARE_OK)
				return status;
			started = true;
		}
		if (monotonic_ms() + CLIENT_RETRY_MS >= deadline)
			return client_fail(
			    client, GPUSHARE_E_NO_REGISTRY,
			    started
				? "a registry was started for %s but did not listen within %u ms"
				: "the registry in %s took no connection within %u ms",
			    client->directory, client->timeout_ms);
		poll(NULL, 0, CLIENT_RETRY_MS);
	}
}

int client_check_peer(struct client *client, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    (peer.uid != geteuid() && peer.uid != 0))
		return client_fail(client, GPUSHARE_E_DENIED,
				   "the registry in %s runs as another user; set GPUSHARE_DIR to a "
				   "directory of yours",
				   client->directory);
	return GPUSHARE_OK;
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
	hello.verb.hello.has_self = true;
	client_self(&hello.verb.hello.self);
	return exchange_messages(client, &hello, &client->reply, deadline);
}

/* One connection, greeted by `patience`. */
static int connect_once(struct client *client, int64_t deadline, int64_t patience)
{
	struct stat is;
	int status = reach(client, deadline);

	if (status != GPUSHARE_OK)
		return status;
	if (fstat(client->fd, &is) == 0) {
		client->fd_device = is.st_dev;
		client->fd_inode = is.st_ino;
	}
	status = client_check_peer(client, client->fd);
	if (status == GPUSHARE_OK)
		status = greet(client, patience < deadline ? patience : deadline);
	if (status != GPUSHARE_OK)
		client_disconnect(client);
	return status;
}

static int connect_by(struct client *client, int64_t deadline)
{
	int64_t patience_ms = CLIENT_PATIENCE_MS;
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
	/* A listener of nng 1.5.2 can go deaf, and the registry then opens another: a connection of
	 * meanwhile is never answered, the next one is. */
	do {
		status = connect_once(client, deadline, monotonic_ms() + patience_ms);
		patience_ms *= 2;
	} while (status == GPUSHARE_E_TIMED_OUT && monotonic_ms() < deadline);
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
