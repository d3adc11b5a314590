/* SPDX-License-Identifier: MIT */
#include "server/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/closer.h"
#include "os/log.h"
#include "os/socket_access.h"
#include "server/ask.h"

#define QUEUE_MOST 64	 /* messages of a closed connection that are looked at */
#define DEAF_MS 100	 /* until the next look for a descriptor that a connection could have */
#define RUN_MOST 64	 /* messages and connections until the main loop looks around again */
#define NVIDIA_MAJOR 195 /* /dev/nvidiactl: exported device memory and memory of a NUMA node */

/* A message in hand. `fds` came with it and are refused if nobody takes them. */
struct message {
	const struct fds_connection *from;
	struct fds_header header;
	size_t size; /* of server->body */
	int fds[FDS_KERNEL_MAX];
	size_t count;
};

/* Another thread closes what that user sent, or one of its connections with what may be in its queue. */
static void refuse(struct user *user, const int *fds, size_t count)
{
	while (count-- > 0)
		closer_add(user ? closer_at(&user->closer) : NULL, fds[count]);
}

/*
 * Whether it is of a kind that holds memory: a device file of NVIDIA's, an anonymous inode (a dma-buf), a
 * memfd. Another process may serve its file system, which must not be asked: hence the cached type, and
 * seals, which only files in memory have. Closing these kinds waits for no process.
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

/* What has no body, and an answer without one. `fd` goes with it. */
static int plain(const struct fds_server *server, const struct message *message, int *fd)
{
	const struct registry *registry = server->registry;
	uint32_t uid = message->from->user->uid;

	if (message->count || message->size)
		return GPUSHARE_E_PROTOCOL;
	switch (message->header.verb) {
	case FDS_REPLACE:
		return uid == geteuid() || !uid ? GPUSHARE_OK : GPUSHARE_E_DENIED;
	case FDS_CHANGES: /* the shared pages are made once and stay: no lock */
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

/* false: the connection is to be closed. */
static bool answer_plain(struct fds_server *server, const struct message *message, int status)
{
	struct fds_header header = {.version = FDS_VERSION, .verb = message->header.verb};
	struct user *user = message->from->user;
	int fd = -1;
	bool stays;

	header.status = status ? status : plain(server, message, &fd);
	/* What this registry doesn't support is no refusal of a peer. */
	if (header.status && header.status != GPUSHARE_E_NOT_SUPPORTED) {
		registry_lock(server->registry);
		user_refused(user, header.status);
		registry_unlock(server->registry);
		server_refused(server->registry, user->uid, message->from->pid, "descriptors",
			       header.status);
	}
	stays = !fds_send(message->from->fd, &header, NULL, 0, fd) &&
		header.status != GPUSHARE_E_PROTOCOL;
	/* A daemon that asked us to leave and has gone meanwhile doesn't take over. */
	if (stays && !header.status && header.verb == FDS_REPLACE) {
		log_line("pid %d takes over", message->from->pid);
		server->replaced = true;
	}
	return stays;
}

/* Under the lock, as all below: whose request it is, by its connection to registry.sock; NULL: nobody's. */
static struct session *session_of(const struct registry *registry, const struct message *message)
{
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE];
	const struct fds_header *header = &message->header;
	struct session *session = session_find(&registry->state.sessions, header->connection);

	if (registry->leaving || !session || !session->greeted ||
	    memcmp(session->key, header->session, sizeof(session->key)) ||
	    !memcmp(session->key, none, sizeof(none)) || session->peer.pid != message->from->pid ||
	    session->peer.uid != message->from->user->uid)
		return NULL;
	return session;
}

/* Hold the descriptor that came, for the handler to take. */
static int take_in(struct registry *registry, struct session *session, struct message *message,
		   bool welcome, struct fdref **out_came)
{
	reply *answer = &registry->reply;
	int status;

	answer->which_body = 0;
	if (!message->count)
		return GPUSHARE_OK;
	if (!welcome)
		return explain(answer, GPUSHARE_E_INVALID,
			       "the registry takes memory (a memfd, a dma-buf, memory of NVIDIA's "
			       "driver), not a socket or a directory or another file");
	status = check_descriptor(registry, session->user, answer);
	if (status)
		return status;
	*out_came = fdref_new(&registry->state.users, session->user, message->fds[0]);
	if (!*out_came)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	message->count = 0;
	return GPUSHARE_OK;
}

/* The answer is in registry->reply; passing->goes is sent with it. */
static void handle(struct registry *registry, struct message *message, bool welcome,
		   struct ask *ask, struct passing *passing)
{
	struct session *session = ask->session;
	int status =
	    ask->fault ? GPUSHARE_OK : take_in(registry, session, message, welcome, &passing->came);

	if (status) {
		registry->reply.status = status;
		handle_answered(registry, session, &ask->request, &registry->reply);
		return;
	}
	registry->passing = passing;
	status = ask_serve(registry, ask);
	registry->passing = NULL;
	if (passing->came)
		fdref_release(&registry->state.users, passing->came);
	if (status && passing->goes) {
		fdref_release(&registry->state.users, passing->goes);
		passing->goes = NULL;
	}
}

/* Only verbs with which a descriptor can go; none waits here. */
static void check_verb(struct ask *ask)
{
	request *what = &ask->request;

	if (ask->fault)
		return;
	if (what->which_verb == gpushare_Request_attach_tag)
		what->verb.attach.wait_ms = 0;
	else if (what->which_verb != gpushare_Request_share_tag &&
		 what->which_verb != gpushare_Request_order_tag)
		ask->fault = GPUSHARE_E_PROTOCOL;
}

/* false: the session isn't known (any more), or its process doesn't read; its client connects anew. */
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
		fdref_release(&registry->state.users, passing.goes);
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
		return true; /* nothing there after all */
	if (status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_IO)
		return false; /* nothing came */
	if (!status && message.header.verb == FDS_ASK && message.count <= 1)
		stays = answer_ask(server, &message);
	else
		stays = answer_plain(server, &message, status);
	refuse(connection->user, message.fds, message.count);
	return stays;
}

/* Whether a message with descriptors is in the queue, which takes no more messages. Those before it are taken out:
 * there is room for their credentials, which each has, and the end has not. */
static bool has_descriptors(int fd)
{
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return true;
	for (int i = 0; i < QUEUE_MOST; i++) {
		_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(struct ucred))] = "";
		struct iovec byte = {(char[1]){0}, 1};
		struct msghdr message = {.msg_iov = &byte,
					 .msg_iovlen = 1,
					 .msg_control = room,
					 .msg_controllen = sizeof(room)};
		ssize_t got = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
		const struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
		bool theirs = header && header->cmsg_type == SCM_CREDENTIALS;

		/* an emulator doesn't tell of what it left out */
		if (got >= 0 && (message.msg_flags & MSG_CTRUNC || (got > 0 && !theirs)))
			return true;
		if (!theirs)
			return false;
		recv(fd, NULL, 0, MSG_DONTWAIT);
	}
	return true;
}

/* The peer learns of it at once; closing descriptors that are still in the queue may take long. */
static void close_socket(struct user *user, int fd)
{
	shutdown(fd, SHUT_RDWR);
	if (has_descriptors(fd))
		refuse(user, &fd, 1);
	else
		close(fd);
}

static void connection_close(struct fds_server *server, struct fds_connection *connection)
{
	DL_DELETE(server->connections, connection);
	/* A keeper that is being started may hold it open a little longer, and so would epoll. */
	epoll_ctl(server->events, EPOLL_CTL_DEL, connection->fd, NULL);
	close_socket(connection->user, connection->fd);
	registry_lock(server->registry);
	user_closes(connection->user);
	registry_unlock(server->registry);
	free(connection);
}

/* It becomes the one that was silent for the shortest time. */
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
	DL_DELETE(server->connections, connection);
	connection_stays(server, connection);
}

/* The listener's data.ptr is the server, other ones are connections. */
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
		/* EMFILE, ENFILE, ENOBUFS, ENOMEM: the next call would say the same at once. */
		server->deaf_until_ns = clock_ns() + DEAF_MS * NS_PER_MS;
		watch_fd(server, EPOLL_CTL_MOD, server->listener, server, 0);
	}
}

/* One event a turn: what it is about can't have gone meanwhile. */
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
		connection_close(server, server->connections);
		registry_lock(registry);
		registry->state.users.total.drops[DROP_silent]++;
		registry_unlock(registry);
	}
	if (server->deaf_until_ns && server->deaf_until_ns <= now) {
		server->deaf_until_ns = 0;
		watch_fd(server, EPOLL_CTL_MOD, server->listener, server, EPOLLIN);
	}
	if (server->connections)
		next = server->connections->deadline_ns;
	return server->deaf_until_ns ? clock_sooner(next, server->deaf_until_ns) : next;
}

bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path)
{
	*server = (struct fds_server){
	    .registry = registry,
	    .listener = socket_access_listen(path, SOCK_SEQPACKET),
	    .events = epoll_create1(EPOLL_CLOEXEC),
	};
	if (server->listener >= 0 && server->events >= 0 &&
	    watch_fd(server, EPOLL_CTL_ADD, server->listener, server, EPOLLIN))
		return true;
	log_error("can't listen on %s: %s", path, strerror(errno));
	return false;
}
