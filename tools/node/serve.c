/* SPDX-License-Identifier: MIT */
/*
 * gpushare node: accepts connections, and starts a worker process for each. The worker has the
 * connection. The node only counts bytes, and kills workers whose connections are silent.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "node.h"
#include "stream.h"

#define CONNECTIONS_MAX 128
#define REFUSED_MAX 16 /* connections beyond CONNECTIONS_MAX that get a refusal as answer */
#define REFUSAL "it serves 128 connections already"
/* without a byte: longer than a puller waits, so that the puller reports a timeout */
#define SILENCE_MS (NODE_SILENCE_MS + 2000)
#define LOOK_MS 1000 /* between two checks for silence */
#define RETRY_US 100000

struct connection {
	int fd; /* the socket; the worker has it too */
	pid_t pid;
	bool refused; /* too many connections: the worker only sends REFUSAL */
	bool killed;
	uint64_t moved;	   /* bytes that were received, or sent and acknowledged */
	uint64_t moved_ms; /* when `moved` last changed */
};

struct server {
	const char *directory; /* of the registry; "": the default */
	const char *trusted; /* trusted interface: for UCX, and for peers without TLS; NULL: none */
	const char *folder;  /* of the TLS files; "": no TLS */
	int listener;
	struct connection connections[CONNECTIONS_MAX + REFUSED_MAX]; /* the oldest first */
	int count;
};

/* `near`: the peer is on the trusted network */
static bool start_worker(const struct server *server, struct connection *connection, bool near)
{
	const char *const words[] = {NODE_WORKER,
				     server->directory,
				     near ? server->trusted : "",
				     server->folder,
				     connection->refused ? REFUSAL : "",
				     NULL};
	posix_spawn_file_actions_t actions;
	int error = posix_spawn_file_actions_init(&actions);

	if (!error) {
		error = posix_spawn_file_actions_adddup2(&actions, connection->fd, STDIN_FILENO);
		if (!error) /* libcurl's sockets may not be close-on-exec */
			error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
		if (!error)
			error = posix_spawn(&connection->pid, "/proc/self/exe", &actions, NULL,
					    (char *const *)words, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	if (error)
		tool_error("a worker process can't be started: %s", strerror(error));
	return !error;
}

static void end(struct connection *connection)
{
	connection->killed = true;
	kill(connection->pid, SIGKILL);
}

/* Release the connections whose workers have ended. */
static void reap(struct server *server)
{
	int kept = 0;

	for (int i = 0; i < server->count; i++) {
		const struct connection *one = &server->connections[i];

		if (waitpid(one->pid, NULL, WNOHANG))
			close(one->fd);
		else
			server->connections[kept++] = *one;
	}
	server->count = kept;
}

/* Kill the worker of a silent connection: the peer may be stopped or cut off, or the worker may
 * hang in a call of the driver. */
static void watch(struct connection *connection)
{
	struct tcp_info info = {.tcpi_state = 0};
	socklen_t size = sizeof(info);
	uint64_t moved, now_ms = tool_now_ms();

	getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size);
	moved = info.tcpi_bytes_acked + info.tcpi_bytes_received;
	if (moved != connection->moved)
		connection->moved_ms = now_ms;
	connection->moved = moved;
	if (now_ms - connection->moved_ms > SILENCE_MS && !connection->killed)
		end(connection);
}

/* Whether the peer has completed the handshake: the worker then sets this option of the socket. */
static bool has_spoken(const struct connection *connection)
{
	int spoke = 0;
	socklen_t size = sizeof(spoke);

	getsockopt(connection->fd, SOL_SOCKET, NODE_SPOKE, &spoke, &size);
	return spoke;
}

/* If there are CONNECTIONS_MAX connections, end the oldest one without a completed handshake.
 * False: there is none. */
static bool make_room(struct server *server)
{
	for (int i = 0; i < server->count && server->count >= CONNECTIONS_MAX; i++) {
		struct connection *one = &server->connections[i];

		if (!one->killed && !one->refused && !has_spoken(one)) {
			end(one);
			return true;
		}
	}
	return server->count < CONNECTIONS_MAX;
}

static void accept_one(struct server *server)
{
	_cleanup_close_ int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
	struct connection *new = &server->connections[server->count];
	char peer[ADDRESS_MAX] = "a peer";
	bool near;

	if (fd < 0) {
		usleep(RETRY_US); /* out of descriptors or memory; that may pass */
		return;
	}
	near = server->trusted && stream_is_by(fd, server->trusted, peer);
	if (!near && !*server->folder) {
		/* other interfaces of this host also accept packets for this address */
		tool_error("refused %s, which is not on the network of '%s'", peer,
			   server->trusted);
		return;
	}
	*new =
	    (struct connection){.fd = fd, .refused = !make_room(server), .moved_ms = tool_now_ms()};
	if (!start_worker(server, new, near))
		return;
	server->count++;
	fd = -1;
}

/* `children`: a signalfd for SIGCHLD */
static void serve(struct server *server, int children)
{
	struct pollfd events[] = {{.fd = server->listener}, {.fd = children, .events = POLLIN}};
	struct signalfd_siginfo child;

	for (;;) {
		events[0].events = server->count < CONNECTIONS_MAX + REFUSED_MAX ? POLLIN : 0;
		if (poll(events, 2, server->count ? LOOK_MS : -1) < 0)
			continue;
		if (events[1].revents)
			(void)!read(children, &child, sizeof(child));
		reap(server);
		for (int i = 0; i < server->count; i++)
			watch(&server->connections[i]);
		if (events[0].revents)
			accept_one(server);
	}
}

static bool may_listen(const struct node_listen *listen, const struct address *address)
{
	if (address->tls)
		return true;
	if (!listen->interface)
		tool_error("%s is without TLS: whoever reaches it may read all that you may read; "
			   "--trusted-network IFACE allows that on the network of IFACE",
			   address->text);
	else if (!address_is_of(address->host, listen->interface))
		tool_error("%s is not an address of the interface '%s'", address->text,
			   listen->interface);
	else
		return true;
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
				.folder = ""};
	const char *text = listen->address ? listen->address : NODE_LISTEN;
	char folder[PATH_MAX] = "", at[ADDRESS_MAX + 8], why[NODES_WHY_MAX];
	struct address address;
	sigset_t child;
	int port, children;

	if (!address_parse(text, &address))
		return tool_usage("--listen wants tls://HOST:PORT or tcp://HOST:PORT, not '%s'",
				  text);
	if (!may_listen(listen, &address))
		return TOOL_FAILED;
	if (address.tls) {
		nodes_folder(folder);
		server.folder = listen->folder ? listen->folder : folder;
	}
	if ((address.tls && !stream_check(server.folder, why)) || !address_look_up(&address, why) ||
	    (server.listener = stream_listen(&address, &port, why)) < 0) {
		tool_error("%s", why);
		return TOOL_FAILED;
	}
	snprintf(at, sizeof(at), "%.*s:%d", (int)(strrchr(address.text, ':') - address.text),
		 address.text, port);
	tool_error("listening on %s", at);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	/* If the node inherited an ignored SIGCHLD, the signal would not come. */
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &child, NULL); /* before join_nodes() starts a thread */
	children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (children < 0)
		tool_error("no descriptor for ends of workers: %s", strerror(errno));
	if (children < 0 || !address_parse(at, &address) || !join_nodes(listen, &address))
		return TOOL_FAILED;
	serve(&server, children);
	return TOOL_FAILED;
}
