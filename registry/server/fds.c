/* SPDX-License-Identifier: MIT */
#include "server/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/closer.h"
#include "os/log.h"
#include "os/instance.h"
#include "server/ask.h"

#define PAUSE_MS 100	 /* pause after accept4() failed, e.g. for lack of descriptors */
#define RUN_MOST 64	 /* messages and new connections before the main loop does other work */
#define NVIDIA_MAJOR 195 /* /dev/nvidiactl: a descriptor of exported GPU or NUMA memory */

/* The message being handled. `fds` came with it; those that no handler takes are closed. */
struct message {
	const struct fds_connection *from;
	struct fds_header header;
	size_t size; /* of server->body */
	int fds[FDS_KERNEL_MAX];
	size_t count;
};

/* Close descriptors that the user sent, or a connection that may have some in its queue. Closing
 * may wait for another process, so the user's closer thread does it. Without a user, close them
 * here. */
static void refuse(struct user *user, const int *fds, size_t count)
{
	while (user && count-- > 0)
		closer_add(&user->closer, fds[count]);
	if (!user)
		fds_close(fds, count);
}

/*
 * Whether the descriptor is of a kind that holds memory: a device file of NVIDIA's, an anonymous
 * inode (such as a dma-buf), or a memfd. Another process may serve the descriptor's file system, so
 * this must not ask the file system: it takes the cached type, and tries seals, which only files in
 * memory have. Closing these kinds waits for no process.
 */
static bool is_memory(int fd)
{
	struct statx is;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &is))
		return false;
	switch (is.stx_mode & S_IFMT) {
	case 0:
		return true;
	case S_IFCHR:
		return is.stx_rdev_major == NVIDIA_MAJOR;
	case S_IFREG:
		return fcntl(fd, F_GET_SEALS) >= 0;
	}
	return false;
}

/* Carry out a message without a body, whose answer has no body either. Returns the answer's status.
 * *fd: the descriptor to send with the answer. */
static int plain(const struct fds_server *server, const struct message *message, int *fd)
{
	const struct registry *registry = server->registry;
	uint32_t uid = message->from->user->uid;

	if (message->count || message->size)
		return GPUSHARE_E_PROTOCOL;
	switch (message->header.verb) {
	case FDS_REPLACE:
		return uid == geteuid() || !uid ? GPUSHARE_OK : GPUSHARE_E_DENIED;
	case FDS_CHANGES: /* no lock needed: the shared pages are made once and stay */
		*fd = registry->changes.fd;
		break;
	case FDS_INDEX:
		*fd = registry->index.fd;
		break;
	default:
		return GPUSHARE_E_PROTOCOL;
	}
	return *fd >= 0 ? GPUSHARE_OK : GPUSHARE_E_NOT_SUPPORTED;
}

/* false: close the connection. */
static bool answer_plain(struct fds_server *server, const struct message *message, int status)
{
	struct fds_header header = {.version = FDS_VERSION, .verb = message->header.verb};
	struct user *user = message->from->user;
	int fd = -1;
	bool stays;

	header.status = status ? status : plain(server, message, &fd);
	/* If this registry has no such page, the peer did nothing wrong: don't log a refusal. */
	if (header.status && header.status != GPUSHARE_E_NOT_SUPPORTED) {
		registry_lock(server->registry);
		user_count(user, statuses[-header.status]);
		registry_unlock(server->registry);
		server_refused(server->registry, user->uid, message->from->pid, "descriptors",
			       header.status);
	}
	stays = !fds_send(message->from->fd, &header, NULL, 0, fd) &&
		header.status != GPUSHARE_E_PROTOCOL;
	/* If the answer can't be sent, the daemon that asked us to leave is gone: stay. */
	if (stays && !header.status && header.verb == FDS_REPLACE) {
		log_line("pid %d takes over", message->from->pid);
		server->replaced = true;
	}
	return stays;
}

/* Has the sender closed its connection? It may then resync, and after a resync no older request may
 * be handled. */
static bool has_left(const struct message *message)
{
	struct pollfd one = {.fd = message->from->fd};

	return poll(&one, 1, 0) > 0 && one.revents & POLLHUP;
}

/* The session that the message's header names, if the sender is the session's process and has not
 * closed its connection. NULL: none. The caller of this, take_in() and handle() holds the
 * registry's lock. */
static struct session *session_of(const struct registry *registry, const struct message *message)
{
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE];
	const struct fds_header *header = &message->header;
	struct session *session = session_find(&registry->state.sessions, header->connection);

	if (registry->leaving || !session || !session->greeted ||
	    memcmp(session->key, header->session, sizeof(session->key)) ||
	    !memcmp(session->key, none, sizeof(none)) || session->peer.pid != message->from->pid ||
	    session->peer.uid != message->from->user->uid || has_left(message))
		return NULL;
	return session;
}

/* Put the received descriptor into *out_came, for the handler to take. `welcome`: it is memory. */
static int take_in(struct registry *registry, struct session *session, struct message *message,
		   bool welcome, struct fdref **out_came)
{
	reply *answer = &registry->reply;
	int status;

	answer->which_body = 0;
	if (!message->count)
		return GPUSHARE_OK;
	if (!welcome)
		return explain(
		    answer, GPUSHARE_E_INVALID,
		    "the descriptor must be one of memory (a memfd, a dma-buf, or one of "
		    "NVIDIA's driver), not of a socket, a directory or another file");
	status = check_descriptor(registry, session->user);
	if (status)
		return status;
	*out_came = fdref_new(&registry->state.users, session->user, message->fds[0]);
	if (!*out_came)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	message->count = 0;
	return GPUSHARE_OK;
}

/* Put the answer into registry->reply. The caller sends passing->goes with it. */
static void handle(struct registry *registry, struct message *message, bool welcome,
		   struct ask *ask, struct passing *passing)
{
	struct session *session = ask->session;
	int status =
	    ask->fault ? GPUSHARE_OK : take_in(registry, session, message, welcome, &passing->came);

	if (status) {
		registry->reply.status = status;
		handle_answered(registry, ask);
		return;
	}
	registry->passing = passing;
	status = ask_serve(registry, ask);
	registry->passing = NULL;
	if (passing->came)
		registry_release(registry, passing->came);
	if (status && passing->goes) {
		registry_release(registry, passing->goes);
		passing->goes = NULL;
	}
}

/* Refuse verbs that may wait, and those that need neither a descriptor nor a fast answer. */
static void check_verb(struct ask *ask)
{
	switch (ask->request.which_verb) {
	case gpushare_Request_attach_tag:
	case gpushare_Request_detach_tag:
	case gpushare_Request_share_tag:
	case gpushare_Request_withdraw_tag:
	case gpushare_Request_order_tag:
		break;
	default:
		ask->fault = ask->fault ? ask->fault : GPUSHARE_E_PROTOCOL;
	}
}

/* false: close the connection, because its session is unknown, or the peer doesn't read or has
 * left. The client then connects again. */
static bool answer_ask(struct fds_server *server, struct message *message)
{
	static const struct fds_header header = {.version = FDS_VERSION, .verb = FDS_ASK};
	struct registry *registry = server->registry;
	bool welcome = message->count && is_memory(message->fds[0]), sent;
	struct passing passing = {.came = NULL};
	struct ask ask = {.connection = NULL};
	size_t size = 0;

	ask_read(&ask, server->body, message->size);
	check_verb(&ask);
	registry_lock(registry);
	ask.session = session_of(registry, message);
	if (ask.session) {
		handle(registry, message, welcome, &ask, &passing);
		size = ask_encode(registry, server->body, sizeof(server->body));
	}
	registry_unlock(registry);
	if (!ask.session)
		return false;
	sent = !fds_send(message->from->fd, &header, server->body, size,
			 passing.goes ? passing.goes->fd : -1);
	if (passing.goes) {
		registry_lock(registry);
		registry_release(registry, passing.goes);
		registry_unlock(registry);
	}
	return sent;
}

bool fds_answer(struct fds_server *server, const struct fds_connection *connection)
{
	struct message message = {.from = connection};
	bool stays;
	int status;

	if (closer_count(connection->user->closer) >= LIMIT_FDS_REFUSED)
		return false;
	status = fds_receive_open(connection->fd, &message.header, server->body,
				  sizeof(server->body), &message.size, message.fds, &message.count);
	if (status == GPUSHARE_E_TIMED_OUT)
		return true; /* no message after all */
	if (status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_IO)
		return false; /* the peer has closed, or reading failed */
	if (!status && message.header.verb == FDS_ASK && message.count <= 1)
		stays = answer_ask(server, &message);
	else
		stays = answer_plain(server, &message, status);
	refuse(connection->user, message.fds, message.count);
	return stays;
}

/* Is a message, which may have descriptors, in the queue of a socket that is shut down? Every
 * message has credentials; the end of the queue has none. */
static bool has_message(int fd)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(struct ucred))];
	struct msghdr message = {.msg_control = room, .msg_controllen = sizeof(room)};
	int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	       (recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) >= 0 && message.msg_controllen);
}

/* shutdown() tells the peer at once. If a message is in the queue, close() may take long, so
 * another thread does it. */
static void close_socket(struct user *user, int fd)
{
	shutdown(fd, SHUT_RDWR);
	if (has_message(fd))
		refuse(user, &fd, 1);
	else
		close(fd);
}

static void connection_close(struct fds_server *server, struct fds_connection *connection)
{
	DL_DELETE(server->connections, connection);
	/* A keeper that is being started may have a copy of the descriptor open for a moment.
	 * Without this call, epoll would still report it. */
	epoll_ctl(server->events, EPOLL_CTL_DEL, connection->fd, NULL);
	close_socket(connection->user, connection->fd);
	registry_lock(server->registry);
	user_closes(connection->user);
	registry_unlock(server->registry);
	free(connection);
}

/* Close a connection that its peer may be about to use. First answer the requests in its queue. The
 * peer can't send more: it gets EPIPE, and connects again. */
static void connection_dismiss(struct fds_server *server, struct fds_connection *connection)
{
	shutdown(connection->fd, SHUT_RD);
	for (int i = 0; i < RUN_MOST && fds_answer(server, connection); i++)
		;
	connection_close(server, connection);
}

/* If the user has many kept connections, close the one that was unused for longest, so that they
 * take no room from sessions. */
static void make_room(struct fds_server *server, const struct user *user)
{
	struct fds_connection *one;
	bool crowded;

	registry_lock(server->registry);
	crowded = user_is_crowded(user);
	registry_unlock(server->registry);
	if (!crowded)
		return;
	DL_FOREACH (server->connections, one) {
		if (one->user == user && one->asked) {
			connection_dismiss(server, one);
			return;
		}
	}
}

/* Set a new deadline and append the connection, so that the list is sorted by deadlines. */
static void connection_stays(struct fds_server *server, struct fds_connection *connection)
{
	connection->deadline_ns = clock_ns() + LIMIT_FDS_SILENT_MS * NS_PER_MS;
	DL_APPEND(server->connections, connection);
}

static void connection_read(struct fds_server *server, struct fds_connection *connection)
{
	if (!fds_answer(server, connection)) {
		connection_close(server, connection);
		return;
	}
	connection->asked = true;
	DL_DELETE(server->connections, connection);
	connection_stays(server, connection);
}

/* `data`: the server if `fd` is its listener, else the connection. */
static bool watch_fd(struct fds_server *server, int how, int fd, void *data, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = data};

	return !epoll_ctl(server->events, how, fd, &event);
}

static void connection_new(struct fds_server *server, int fd)
{
	struct fds_connection *connection = calloc(1, sizeof(*connection));
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);
	struct user *user = NULL;

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	if (!connection || !server_admit(server->registry, peer.uid, peer.pid, &user)) {
		close_socket(user, fd);
		free(connection);
		return;
	}
	make_room(server, user);
	*connection = (struct fds_connection){.fd = fd, .pid = peer.pid, .user = user};
	connection_stays(server, connection);
	if (!watch_fd(server, EPOLL_CTL_ADD, fd, connection, EPOLLIN))
		connection_close(server, connection);
}

static void accept_one(struct fds_server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		connection_new(server, fd);
	} else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		/* EMFILE, ENFILE, ENOBUFS, ENOMEM: the next call would fail at once, too. Pause the
		 * listener. */
		server->paused_until_ns = clock_ns() + PAUSE_MS * NS_PER_MS;
		watch_fd(server, EPOLL_CTL_MOD, server->listener, server, 0);
	}
}

/* Take one event at a time: handling it may free connections that further events refer to. */
void fds_server_run(struct fds_server *server)
{
	struct epoll_event event;

	for (int i = 0; i < RUN_MOST && epoll_wait(server->events, &event, 1, 0) == 1; i++) {
		if (event.data.ptr == server)
			accept_one(server);
		else
			connection_read(server, event.data.ptr);
	}
}

int64_t fds_server_tick(struct fds_server *server)
{
	struct registry *registry = server->registry;
	int64_t now = clock_ns(), next = INT64_MAX;

	while (server->connections && server->connections->deadline_ns <= now) {
		bool silent = !server->connections->asked;

		connection_dismiss(server, server->connections);
		registry_lock(registry);
		registry->state.users.total.drops[DROP_silent] += silent;
		registry_unlock(registry);
	}
	if (server->paused_until_ns && server->paused_until_ns <= now) {
		server->paused_until_ns = 0;
		watch_fd(server, EPOLL_CTL_MOD, server->listener, server, EPOLLIN);
	}
	if (server->connections)
		next = server->connections->deadline_ns;
	return server->paused_until_ns ? clock_sooner(next, server->paused_until_ns) : next;
}

bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path)
{
	*server = (struct fds_server){
	    .registry = registry,
	    .listener = socket_listen(path),
	    .events = epoll_create1(EPOLL_CLOEXEC),
	};
	if (server->listener >= 0 && socket_access_open(path) && server->events >= 0 &&
	    watch_fd(server, EPOLL_CTL_ADD, server->listener, server, EPOLLIN))
		return true;
	log_error("can't listen on %s: %s", path, strerror(errno));
	return false;
}
