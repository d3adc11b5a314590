/* SPDX-License-Identifier: MIT */
/*
 * gpushare node: accepts connections, and passes bytes between each and its worker process. A
 * worker is started after the connection's first bytes, when the TLS handshake is complete.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "etcd.h"
#include "message.h"
#include "node.h"
#include "stream.h"

#define CONNECTIONS_MAX 128
#define REFUSED_MAX 16		/* connections beyond CONNECTIONS_MAX that get an answer */
#define PART (1 << 20)		/* bytes that are passed on at a time to the puller */
#define ASKS ((size_t)16 << 10) /* to the worker: of larger ones the kernel times each part */
#define WORKER_TAKES_S 12	/* for a worker that reads nothing; then the connection ends */
#define WORKER_END_MS 2000	/* for a worker to exit; then it is killed */
#define RETRY_US 100000

struct connection {
	struct server *server;
	struct stream *stream;
	int worker; /* socket to the worker process */
	pid_t pid;
	bool spoke; /* its first bytes have come: it has ended the handshake */
	bool closed;
	bool refused; /* there are too many: it only gets an answer */
	struct connection *prev, *next;
};

struct server {
	const char *directory; /* of the registry; "": the default */
	const char *interface; /* of all peers, for tcp://; NULL: TLS is used */
	const char *trusted;   /* interface for UCX; NULL: none */
	pthread_mutex_t lock;
	struct connection *connections; /* the oldest first */
	int count;
};

/* End both directions. */
static void end(struct connection *connection)
{
	shutdown(connection->worker, SHUT_RDWR);
	stream_close(connection->stream);
}

static bool start_worker(struct connection *connection)
{
	char *words[] = {(char *)NODE_WORKER, (char *)connection->server->directory, NULL, NULL};
	const char *trusted = connection->server->trusted;
	const struct timeval takes = {.tv_sec = WORKER_TAKES_S};
	const int room = PART;
	posix_spawn_file_actions_t actions;
	char peer[ADDRESS_MAX];
	int ends[2], error;

	if (trusted && stream_is_by(connection->stream, trusted, peer))
		words[2] = (char *)trusted;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return false;
	setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &takes, sizeof(takes));
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	error = posix_spawn_file_actions_init(&actions);
	if (!error) {
		error = posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
		if (!error) /* close all: nng may have sockets that aren't close-on-exec yet */
			error =
			    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
		if (!error)
			error = posix_spawn(&connection->pid, "/proc/self/exe", &actions, NULL,
					    words, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	if (error) {
		tool_error("a worker process can't be started: %s", strerror(error));
		close(ends[0]);
		return false;
	}
	connection->worker = ends[0];
	return true;
}

/* The worker exits when its socket is closed. If a call of the driver hangs, kill it. */
static void end_worker(struct connection *connection)
{
	int process = pidfd_open(connection->pid, 0);
	struct pollfd ended = {.fd = process, .events = POLLIN};

	if (process < 0 || poll(&ended, 1, WORKER_END_MS) != 1)
		kill(connection->pid, SIGKILL);
	while (waitpid(connection->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (process >= 0)
		close(process);
	close(connection->worker);
}

/* From the worker to the puller. */
static void *pass_answers(void *user)
{
	struct connection *connection = user;
	_cleanup_free_ char *part = malloc(PART);
	ssize_t got;

	while (part && (got = read(connection->worker, part, PART)) > 0)
		if (stream_send(connection->stream, part, (size_t)got))
			break;
	end(connection);
	return NULL;
}

/* From the puller to the worker. */
static void pass_asks(struct connection *connection, char *part)
{
	size_t got;

	while (!stream_receive_some(connection->stream, part, ASKS, &got) &&
	       message_send(connection->worker, part, got))
		;
	end(connection);
}

static void refuse(struct connection *connection)
{
	uint8_t message[NODE_HEADER_SIZE + NODE_MESSAGE_MAX];
	node_answer answer = {.status = GPUSHARE_E_LIMIT};

	snprintf(answer.message, sizeof(answer.message), "it serves %d connections already",
		 CONNECTIONS_MAX);
	stream_send(connection->stream, message, message_write_answer(&answer, message));
}

static void leave(struct connection *connection)
{
	struct server *server = connection->server;

	pthread_mutex_lock(&server->lock);
	DL_DELETE(server->connections, connection);
	server->count--;
	pthread_mutex_unlock(&server->lock);
	stream_free(connection->stream);
	free(connection);
}

static void *serve(void *user)
{
	struct connection *connection = user;
	_cleanup_free_ char *part = malloc(ASKS);
	pthread_t answers;
	size_t got;
	bool spoke = part && !stream_receive_some(connection->stream, part, ASKS, &got);

	pthread_mutex_lock(&connection->server->lock);
	spoke = spoke && !connection->closed;
	connection->spoke = spoke;
	pthread_mutex_unlock(&connection->server->lock);
	if (spoke && connection->refused)
		refuse(connection);
	else if (spoke && start_worker(connection)) {
		if (message_send(connection->worker, part, got) &&
		    !pthread_create(&answers, NULL, pass_answers, connection)) {
			pass_asks(connection, part);
			pthread_join(answers, NULL);
		}
		end(connection);
		end_worker(connection);
	}
	leave(connection);
	return NULL;
}

/* If there are too many, close the oldest connection that has sent nothing. False: none. */
static bool make_room(struct server *server)
{
	struct connection *oldest = server->connections;

	if (server->count < CONNECTIONS_MAX)
		return true;
	while (oldest && (oldest->spoke || oldest->closed || oldest->refused))
		oldest = oldest->next;
	if (!oldest)
		return false;
	oldest->closed = true;
	stream_close(oldest->stream);
	return true;
}

/* Takes ownership of `stream`. */
static void begin(struct server *server, struct stream *stream)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	pthread_attr_t detached;
	pthread_t thread;
	bool room;

	if (!connection) {
		stream_free(stream);
		return;
	}
	*connection = (struct connection){.server = server, .stream = stream, .worker = -1};
	pthread_mutex_lock(&server->lock);
	connection->refused = !make_room(server);
	room = !connection->refused || server->count < CONNECTIONS_MAX + REFUSED_MAX;
	DL_APPEND(server->connections, connection);
	server->count++;
	pthread_mutex_unlock(&server->lock);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (!room || pthread_create(&thread, &detached, serve, connection))
		leave(connection);
	pthread_attr_destroy(&detached);
}

static bool may_listen(const struct node_listen *listen, const struct address *address)
{
	if (address->tls)
		return true;
	if (!listen->interface)
		tool_error("%s is without TLS: whoever reaches it may read all that you may read; "
			   "--trusted-network IFACE allows that on the network of IFACE",
			   address->text);
	else if (!address_is_of(address, listen->interface))
		tool_error("%s is not an address of the interface '%s'", address->text,
			   listen->interface);
	else
		return true;
	return false;
}

/* Check the peer, too: other interfaces of this host also accept packets for this address. */
static bool is_near(const struct server *server, const struct stream *stream)
{
	char peer[ADDRESS_MAX] = "a peer";

	if (stream_is_by(stream, server->interface, peer))
		return true;
	tool_error("refused %s, which is not on the network of '%s'", peer, server->interface);
	return false;
}

/* Register the node, if the list of nodes is an etcd. `at`: where it listens. */
static bool join_nodes(const struct node_listen *listen, const struct address *at)
{
	bool all = !strcmp(at->host, "0.0.0.0") || !strcmp(at->host, "::");
	char host[HOST_NAME_MAX + 1] = "", reached[ADDRESS_MAX], why[NODES_WHY_MAX];
	const char *nodes = getenv("GPUSHARE_NODES");

	if (!etcd_is(nodes)) {
		if (!listen->announce && !listen->as)
			return true;
		tool_error("--announce and --as are for an etcd, and GPUSHARE_NODES names none");
		return false;
	}
	gethostname(host, sizeof(host) - 1);
	snprintf(reached, sizeof(reached), "tls://%s%s", host, strrchr(at->text, ':'));
	host[strcspn(host, ".")] = '\0';
	if (etcd_join(nodes, listen->as ? listen->as : host,
		      listen->announce ? listen->announce
		      : all && at->tls ? reached
				       : at->text,
		      why))
		return true;
	tool_error("%s", why);
	return false;
}

int node_serve(const struct node_listen *listen)
{
	struct server server = {.directory = listen->registry ? listen->registry : "",
				.trusted = listen->interface,
				.lock = PTHREAD_MUTEX_INITIALIZER};
	const char *text = listen->address ? listen->address : NODE_LISTEN;
	char folder[PATH_MAX] = "", at[ADDRESS_MAX + 8], why[NODES_WHY_MAX];
	struct listener *listener;
	struct address address;

	if (!address_parse(text, &address))
		return tool_usage("--listen wants tls://HOST:PORT or tcp://HOST:PORT, not '%s'",
				  text);
	if (!may_listen(listen, &address))
		return TOOL_FAILED;
	if (!address.tls)
		server.interface = listen->interface;
	if (!listen->folder)
		nodes_folder(folder);
	if (!listener_open(&address, listen->folder ? listen->folder : folder, &listener, why)) {
		tool_error("%s", why);
		return TOOL_FAILED;
	}
	snprintf(at, sizeof(at), "%.*s:%d", (int)(strrchr(address.text, ':') - address.text),
		 address.text, listener_port(listener));
	tool_error("listening on %s", at);
	if (!address_parse(at, &address) || !join_nodes(listen, &address))
		return TOOL_FAILED;
	for (;;) {
		struct stream *stream;

		if (!listener_accept(listener, &stream, why))
			usleep(RETRY_US); /* out of descriptors or memory; that may pass */
		else if (!server.interface || is_near(&server, stream))
			begin(&server, stream);
		else
			stream_free(stream);
	}
}
