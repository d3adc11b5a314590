/* SPDX-License-Identifier: MIT */
#include "persist/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "close_from.h"
#include "os/closer.h"
#include "persist/fdnames.h"
#include "os/hash.h"
#include "os/log.h"
#include "persist/recall.h"

#define PEERS_MAX 16
#define LOOK_MS 400	    /* between two looks whether the socket has its name still */
#define MESSAGES_A_TURN 100 /* of one peer */
#define TURNS_MAX 100	    /* more is no registry's queue: who asks is answered all the same */
#define EXIT_USAGE 2

/* A process whose end is that of some descriptors. */
struct owner {
	int process; /* pidfd */
	struct owner *prev, *next;
};

struct kept {
	UT_hash_handle hh;
	uint64_t generation;
	uint64_t serial; /* those that came later have a higher one */
	int fd;
	struct owner *owner; /* NULL: only a registry knows when it goes */
};

struct peer {
	int fd;
	bool asks;	 /* to be given what is kept */
	uint64_t serial; /* up to here it has been */
};

static struct keeper {
	char path[GPUSHARE_PATH_MAX];
	struct stat socket; /* what has that name, if it is ours */
	struct kept *kept;
	uint64_t last_serial;
	struct peer peers[PEERS_MAX];
	int peer_count;
	struct owner *owners;
	size_t owner_count;
	struct pollfd *events; /* room for the listener, all peers and the owners */
	struct closer *closer;
	struct recall recall;
} keeper;

static bool has_name(void)
{
	struct stat is;

	if (lstat(keeper.path, &is))
		return errno != ENOENT && errno != ENOTDIR;
	return is.st_ino == keeper.socket.st_ino && is.st_dev == keeper.socket.st_dev;
}

/* Also in a signal handler. The kernel closes what is left. */
static void leave(int number)
{
	(void)number;
	if (has_name())
		unlink(keeper.path);
	_exit(0);
}

static void kept_drop(struct kept *kept)
{
	HASH_DEL(keeper.kept, kept);
	closer_add(keeper.closer, kept->fd);
	free(kept);
}

static void drop(uint64_t generation)
{
	struct kept *kept;

	HASH_FIND(hh, keeper.kept, &generation, sizeof(generation), kept);
	if (kept)
		kept_drop(kept);
}

static void keep(uint64_t generation, int fd)
{
	struct kept *kept = calloc(1, sizeof(*kept));

	drop(generation);
	if (kept) {
		kept->generation = generation;
		kept->fd = fd;
		kept->serial = ++keeper.last_serial;
		HASH_ADD(hh, keeper.kept, generation, sizeof(generation), kept);
	}
	if (kept && kept->hh.tbl)
		return;
	free(kept);
	closer_add(keeper.closer, fd);
}

static void owner_close(struct owner *owner)
{
	DL_DELETE(keeper.owners, owner);
	keeper.owner_count--;
	close(owner->process);
	free(owner);
}

static struct owner *owner_new(int process)
{
	size_t room = 1 + PEERS_MAX + keeper.owner_count + 1;
	struct pollfd *events = realloc(keeper.events, room * sizeof(*events));
	struct owner *owner = events ? calloc(1, sizeof(*owner)) : NULL;

	if (events)
		keeper.events = events;
	if (!owner)
		return NULL;
	owner->process = process;
	keeper.owner_count++;
	DL_APPEND(keeper.owners, owner);
	return owner;
}

static void tie(int process, const uint64_t *generations, int count)
{
	struct owner *owner = owner_new(process);

	if (!owner)
		close(process);
	for (int i = 0; owner && i < count; i++) {
		struct kept *kept;

		HASH_FIND(hh, keeper.kept, &generations[i], sizeof(*generations), kept);
		if (kept)
			kept->owner = owner;
	}
}

/* A registry is here, which sees itself how its owners end. */
static void untie_all(void)
{
	struct owner *owner, *after;

	for (struct kept *kept = keeper.kept; kept; kept = kept->hh.next)
		kept->owner = NULL;
	DL_FOREACH_SAFE(keeper.owners, owner, after)
	{
		owner_close(owner);
	}
}

static void owner_bury(struct owner *owner)
{
	struct kept *kept, *after;

	HASH_ITER (hh, keeper.kept, kept, after) {
		if (kept->owner == owner)
			kept_drop(kept);
	}
	owner_close(owner);
}

static void peer_close(struct peer *peer)
{
	const struct peer *end = keeper.peers + keeper.peer_count--;

	close(peer->fd);
	memmove(peer, peer + 1, (size_t)(end - (peer + 1)) * sizeof(*peer));
}

/* What one message says, with `count` descriptors. false: that is none. */
static bool obey(struct peer *peer, const char *message, const int *fds, size_t count)
{
	uint64_t generations[FDS_MAX];
	int named = fdnames_read(message, generations);

	if (fdnames_says(message, FDNAMES_STOPPING))
		leave(0);
	if (named < 0)
		return false;
	if (fdnames_says(message, FDNAMES_STORE) && count && (size_t)named == count) {
		for (size_t i = 0; i < count; i++)
			keep(generations[i], fds[i]);
		return true;
	}
	if (fdnames_says(message, FDNAMES_OWNER) && count == 1) {
		tie(fds[0], generations, named);
		return true;
	}
	if (count)
		return false;
	if (fdnames_says(message, FDNAMES_REMOVE)) {
		for (int i = 0; i < named; i++)
			drop(generations[i]);
		return true;
	}
	peer->asks = fdnames_says(message, FDNAMES_TAKE);
	if (peer->asks)
		untie_all();
	return peer->asks;
}

/* Read what it has sent. false: the connection is to be closed. */
static bool hear(struct peer *peer, bool *out_more)
{
	char message[FDNAMES_MESSAGE + 1];
	int fds[FDS_MAX];

	for (int i = 0; i < MESSAGES_A_TURN; i++) {
		size_t size, count;
		int status =
		    fds_receive_bytes(peer->fd, message, sizeof(message) - 1, &size, fds, &count);

		if (status == GPUSHARE_E_TIMED_OUT)
			return true;
		if (status)
			return false;
		message[size] = '\0';
		if (!obey(peer, message, fds, count)) {
			for (size_t at = 0; at < count; at++)
				closer_add(keeper.closer, fds[at]);
			return false;
		}
	}
	*out_more = true;
	return true;
}

/* The next ones after those that it has; nothing in the message: it has all. */
static bool give(struct peer *peer)
{
	char message[FDNAMES_MESSAGE];
	uint64_t generations[FDS_MAX], serial = peer->serial;
	struct kept *kept, *after;
	int fds[FDS_MAX];
	size_t size, count = 0;

	HASH_ITER (hh, keeper.kept, kept, after) { /* in the order in which they came */
		if (kept->serial <= serial)
			continue;
		if (count == FDS_MAX)
			break;
		peer->serial = kept->serial;
		generations[count] = kept->generation;
		fds[count++] = kept->fd;
	}
	peer->asks = false;
	size = fdnames_write(message, FDNAMES_STORE, generations, count);
	return !fds_send_bytes(peer->fd, message, size, fds, count);
}

/* What one who was killed had sent comes before the answer to the next one. */
static void serve_peers(void)
{
	bool more = true;

	for (int turn = 0; more && turn < TURNS_MAX; turn++) {
		more = false;
		for (int i = keeper.peer_count - 1; i >= 0; i--) {
			if (!hear(&keeper.peers[i], &more))
				peer_close(&keeper.peers[i]);
		}
	}
	for (int i = keeper.peer_count - 1; i >= 0; i--) {
		if (keeper.peers[i].asks && !give(&keeper.peers[i]))
			peer_close(&keeper.peers[i]);
	}
}

/* The newest is the one that matters: where there are too many, the oldest goes. */
static void admit(int fd)
{
	struct ucred ucred;
	socklen_t size = sizeof(ucred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) || ucred.uid != geteuid()) {
		close(fd);
		return;
	}
	if (keeper.peer_count == PEERS_MAX)
		peer_close(&keeper.peers[0]);
	keeper.peers[keeper.peer_count++] = (struct peer){.fd = fd};
}

/* Whether somebody connects. */
static bool await_events(void)
{
	struct pollfd *event = keeper.events;
	struct owner *owner, *after;

	*event++ = (struct pollfd){.fd = KEEPER_LISTENER_FD, .events = POLLIN};
	for (int i = 0; i < keeper.peer_count; i++)
		*event++ = (struct pollfd){.fd = keeper.peers[i].fd, .events = POLLIN};
	DL_FOREACH(keeper.owners, owner)
	{
		*event++ = (struct pollfd){.fd = owner->process, .events = POLLIN};
	}
	if (poll(keeper.events, (nfds_t)(event - keeper.events), LOOK_MS) < 1)
		return false;
	event = keeper.events + 1 + keeper.peer_count;
	DL_FOREACH_SAFE(keeper.owners, owner, after)
	{
		if (event++->revents)
			owner_bury(owner);
	}
	return keeper.events->revents;
}

static void serve(void)
{
	while (has_name() && (keeper.peer_count || keeper.kept)) {
		bool comes = await_events();
		int fd;

		serve_peers();
		recall_tick(&keeper.recall, keeper.peer_count > 0);
		if (comes && (fd = accept4(KEEPER_LISTENER_FD, NULL, NULL, SOCK_CLOEXEC)) >= 0)
			admit(fd);
	}
}

static bool is_socket(int fd)
{
	struct stat is;

	return !fstat(fd, &is) && S_ISSOCK(is.st_mode);
}

/* Nobody's child, of no session, nothing open but what it was given. */
static void stand_alone(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fork() != 0)
		_exit(0); /* who waits for it, waits no longer */
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	close_from(KEEPER_LISTENER_FD + 1);
	if (chdir("/"))
		_exit(1);
	prctl(PR_SET_NAME, KEEPER_NAME);
}

int keeper_run(const char *directory)
{
	if (!directory || !is_socket(KEEPER_FIRST_FD) || !is_socket(KEEPER_LISTENER_FD)) {
		log_error("--keeper is for a registry that starts its keeper, not for people");
		return EXIT_USAGE;
	}
	snprintf(keeper.path, sizeof(keeper.path), "%s/" KEEPER_SOCKET, directory);
	if (lstat(keeper.path, &keeper.socket))
		return 0; /* nobody would find us */
	stand_alone();
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, leave);
	signal(SIGTERM, leave);
	listen(KEEPER_LISTENER_FD,
	       KEEPER_BACKLOG); /* again: who connects sees this process's pid */
	keeper.closer = closer_open();
	keeper.events = calloc(1 + PEERS_MAX, sizeof(*keeper.events));
	recall_init(&keeper.recall, directory);
	admit(KEEPER_FIRST_FD);
	if (keeper.events)
		serve();
	leave(0);
	return 0;
}
