/* SPDX-License-Identifier: MIT */
/* One message of fds.sock, and its answer. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/closer.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "server/ask.h"
#include "server/fds.h"

#define NVIDIA_MAJOR 195 /* /dev/nvidiactl: exported device memory and memory of a NUMA node */

/* A message in hand, and what came with it: `fds` go where nobody takes them. */
struct message {
	const struct fds_connection *from;
	struct fds_header header;
	size_t size; /* of server->body */
	int fds[FDS_KERNEL_MAX];
	size_t count;
};

/* NULL: out of memory, then the caller closes itself. */
static struct closer *closer_of(struct registry *registry, uint32_t uid)
{
	struct closer *closer = NULL;
	struct user *user;

	registry_lock(registry);
	user = user_of(&registry->users, uid);
	if (user && !user->closer)
		user->closer = closer_open();
	if (user)
		closer = user->closer;
	registry_unlock(registry);
	return closer;
}

void fds_refuse(struct registry *registry, uint32_t uid, const int *fds, size_t count)
{
	struct closer *closer = count ? closer_of(registry, uid) : NULL;

	while (count-- > 0)
		closer_add(closer, fds[count]);
}

/*
 * Whether it is of a kind that holds memory: a device file of NVIDIA's, an anonymous inode (a dma-buf), a
 * memfd. Another process may serve its file system, which must not be asked: hence the cached type, and
 * seals, which only files in memory have. Closing these kinds waits for no process.
 */
static bool is_welcome(int fd)
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

/* Refused: counted as a request's refusal is. Who has gone, and what there is none of, was not. */
static void count_refusal(struct registry *registry, const struct fds_connection *from,
			  const struct fds_header *header, int status)
{
	struct process peer;
	struct user *user;

	process_read(from->pid, from->uid, &peer);
	log_line("%s: uid %u pid %d (%s), request %u: %s", GPUSHARE_FDS_SOCKET, peer.uid, peer.pid,
		 peer.command, header->verb, status_text(status));
	if (status == GPUSHARE_E_NOT_SUPPORTED)
		return;
	registry_lock(registry);
	user = user_of(&registry->users, peer.uid);
	if (user)
		counts_refused(&user->counts, status);
	counts_refused(&registry->counts, status);
	audit_refused(&registry->audit, &peer, "descriptors", status);
	registry_unlock(registry);
}

/* An answer without a body. false: the connection is to be closed. */
static bool answer_plain(const struct fds_server *server, const struct message *message, int status,
			 int fd)
{
	struct fds_header header = {
	    .version = FDS_VERSION, .verb = message->header.verb, .status = status};

	if (status)
		count_refusal(server->registry, message->from, &message->header, status);
	/* Who sends nonsense or takes no answer has no business here. */
	return !fds_send(message->from->fd, &header, NULL, 0, fd) && status != GPUSHARE_E_PROTOCOL;
}

/* They are made once and stay: nobody needs the lock for them. */
static bool answer_page(const struct fds_server *server, const struct message *message)
{
	const struct registry *registry = server->registry;
	int fd = message->header.verb == FDS_INDEX ? registry->index.fd : registry->changes.fd;

	return answer_plain(server, message, fd >= 0 ? GPUSHARE_OK : GPUSHARE_E_NOT_SUPPORTED, fd);
}

/* Who asked us to leave and has gone meanwhile does not come in our place. */
static bool answer_replace(struct fds_server *server, const struct message *message)
{
	uint32_t uid = message->from->uid;
	int status = uid == geteuid() || !uid ? GPUSHARE_OK : GPUSHARE_E_DENIED;
	bool stays = answer_plain(server, message, status, -1);

	if (stays && !status) {
		log_line("pid %d takes over", message->from->pid);
		server->replaced = true;
	}
	return stays;
}

/* Under the lock, as all below. Who asks, by the connection that it has to registry.sock; NULL: it has none. */
static struct session *session_of(const struct registry *registry, const struct message *message)
{
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE];
	const struct fds_header *header = &message->header;
	struct session *session = session_find(&registry->sessions, header->connection);

	if (!session || !session->greeted ||
	    memcmp(session->key, header->session, sizeof(session->key)) ||
	    !memcmp(session->key, none, sizeof(none)) || session->peer.pid != message->from->pid ||
	    session->peer.uid != message->from->uid)
		return NULL;
	return session;
}

/* What came with it is held from here on, for whoever takes it. */
static int take_in(struct registry *registry, struct session *session, struct message *message,
		   bool welcome, struct held **out_came)
{
	reply *answer = &registry->reply;
	int status;

	*answer = (reply){0};
	if (!message->count)
		return GPUSHARE_OK;
	if (!welcome)
		return explain(answer, GPUSHARE_E_INVALID,
			       "the registry takes memory (a memfd, a dma-buf, memory of NVIDIA's "
			       "driver), not a socket or a directory or another file");
	status = check_descriptor(registry, session->user, answer);
	if (status)
		return status;
	*out_came = fdtable_keep(&registry->fdtable, session->user, message->fds[0]);
	if (!*out_came)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	message->count = 0;
	return GPUSHARE_OK;
}

/* The verbs with which a descriptor can go one way or the other; none waits for a name here. */
static void check_verb(struct question *question)
{
	request *ask = &question->request;

	if (question->fault)
		return;
	if (ask->which_verb == gpushare_Request_attach_tag)
		ask->verb.attach.wait_ms = 0;
	else if (ask->which_verb != gpushare_Request_share_tag &&
		 ask->which_verb != gpushare_Request_order_tag)
		question->fault = GPUSHARE_E_PROTOCOL;
}

/* Into registry->reply; what goes beside it is there if this is OK. */
static int handle(struct registry *registry, struct session *session, struct message *message,
		  bool welcome, const struct question *question, struct passing *passing)
{
	const request *ask = &question->request;
	int status = question_refuse(registry, session, question);

	if (status)
		return status;
	status = take_in(registry, session, message, welcome, &passing->came);
	if (status) {
		registry->reply.status = status;
		handle_answered(registry, session, ask, &registry->reply);
		return status;
	}
	registry->group = question->group;
	registry->passing = passing;
	status = handle_request(registry, session, ask, &registry->reply);
	registry->passing = NULL;
	if (passing->came)
		fdtable_release(&registry->fdtable, passing->came);
	if (status && passing->goes) {
		fdtable_release(&registry->fdtable, passing->goes);
		passing->goes = NULL;
	}
	return status;
}

static bool send_answer(const struct fds_server *server, const struct message *message, size_t size,
			struct held *goes)
{
	static const struct fds_header header = {.version = FDS_VERSION, .verb = FDS_ASK};
	struct registry *registry = server->registry;
	bool sent = !fds_send(message->from->fd, &header, server->body, size, goes ? goes->fd : -1);

	if (goes) {
		registry_lock(registry);
		fdtable_release(&registry->fdtable, goes);
		registry_unlock(registry);
	}
	return sent;
}

/* Of whom we don't know, or know no more, the connection is closed: its client connects anew. */
static bool answer_question(struct fds_server *server, struct message *message)
{
	struct registry *registry = server->registry;
	bool welcome = message->count && is_welcome(message->fds[0]), good;
	struct connection *todo = NULL;
	struct passing passing = {.came = NULL};
	struct question question;
	struct session *session;
	size_t size = 0;
	int status;

	question_read(&question, server->body, message->size, message->from->uid, false);
	check_verb(&question);
	registry_lock(registry);
	session = registry->leaving ? NULL : session_of(registry, message);
	if (session) {
		status = handle(registry, session, message, welcome, &question, &passing);
		size = question_encode(registry, server->body, sizeof(server->body));
		question_shown(registry, &question, status, &todo);
	}
	registry_unlock(registry);
	good = session && send_answer(server, message, size, passing.goes);
	connections_run(todo);
	return good;
}

/* Its process has more connections than its part. */
static bool is_crowded(const struct fds_server *server, const struct fds_connection *one)
{
	const struct fds_connection *other;
	unsigned int count = 0;

	DL_FOREACH(server->connections, other)
	{
		count += other->uid == one->uid && other->pid == one->pid;
	}
	return count > LIMIT_FDS_CONNECTIONS_PER_PROCESS;
}

/* Whether it is a message that this peer may send, with what belongs beside it. */
static int check(const struct fds_server *server, const struct message *message)
{
	enum fds_verb verb = message->header.verb;

	if (is_crowded(server, message->from))
		return GPUSHARE_E_LIMIT;
	if (verb == FDS_ASK)
		return message->count <= 1 ? GPUSHARE_OK : GPUSHARE_E_PROTOCOL;
	if (verb != FDS_REPLACE && verb != FDS_CHANGES && verb != FDS_INDEX)
		return GPUSHARE_E_PROTOCOL;
	return message->count || message->size ? GPUSHARE_E_PROTOCOL : GPUSHARE_OK;
}

bool fds_answer(struct fds_server *server, const struct fds_connection *connection)
{
	struct registry *registry = server->registry;
	struct message message = {.from = connection};
	bool stays;
	int status;

	if (closer_count(closer_of(registry, connection->uid)) >= LIMIT_FDS_REFUSED)
		return false;
	status = fds_receive_open(connection->fd, &message.header, server->body,
				  sizeof(server->body), &message.size, message.fds, &message.count);
	if (status == GPUSHARE_E_TIMED_OUT)
		return true; /* nothing there after all */
	if (status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_IO)
		return false; /* nothing came */
	if (!status)
		status = check(server, &message);
	if (status)
		stays = answer_plain(server, &message, status, -1);
	else if (message.header.verb == FDS_ASK)
		stays = answer_question(server, &message);
	else if (message.header.verb == FDS_REPLACE)
		stays = answer_replace(server, &message);
	else
		stays = answer_page(server, &message);
	fds_refuse(registry, connection->uid, message.fds, message.count);
	return stays;
}
