/* SPDX-License-Identifier: MIT */
#include "sockets.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "log.h"
#include "protocol.h"

#define SOCKETS_FDS 262144 /* those above are not looked after */
#define STRIPES 64
#define HEAD_SIZE 9 /* of a message on ipc://: 1, and how many bytes follow, the highest first */
#define WATCHERS_TIMES 6

enum stage { STAGE_NONE, STAGE_GREETING, STAGE_HELLO, STAGE_SERVED };

struct connection {
	uint8_t kind;
	bool counted; /* among its user's */
	uint8_t head[HEAD_SIZE];
	uint8_t fill;	  /* of greeting or head */
	uint64_t left;	  /* of the message's bytes, where its head is whole */
	int64_t begun_ns; /* the connection, up to its first message; then that message; 0: none */
	int64_t deaf_ns;  /* since when it does not take what it is sent; 0: it does */
	uint32_t uid;
};

/* How many each user has; nobody is counted whom there is no memory for. */
struct crowd {
	uint32_t uid;
	uint64_t count;
	struct crowd *next;
};

static struct connection connections[SOCKETS_FDS];
static _Atomic uint8_t stages[SOCKETS_FDS]; /* of each; looked at without its lock, too */
static pthread_mutex_t stripes[STRIPES];
static pthread_mutex_t crowd_lock = PTHREAD_MUTEX_INITIALIZER;
static struct crowd *crowds;
static _Atomic int highest = -1;
static _Atomic uint64_t turned_away;
static int64_t patience_ns;
static uint64_t most_of_user;

void sockets_init(int64_t silent_ns, uint64_t of_user)
{
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&stripes[i], NULL);
	patience_ns = silent_ns;
	most_of_user = of_user;
}

/* With its lock held; NULL, without: it is none of ours. */
static struct connection *hold(int fd)
{
	if (fd < 0 || fd >= SOCKETS_FDS || atomic_load(&stages[fd]) == STAGE_NONE)
		return NULL;
	pthread_mutex_lock(&stripes[fd % STRIPES]);
	if (atomic_load(&stages[fd]) != STAGE_NONE)
		return &connections[fd];
	pthread_mutex_unlock(&stripes[fd % STRIPES]);
	return NULL;
}

static void let_go(int fd)
{
	pthread_mutex_unlock(&stripes[fd % STRIPES]);
}

static struct crowd *crowd_of(uint32_t uid)
{
	struct crowd *crowd = crowds;

	while (crowd && crowd->uid != uid)
		crowd = crowd->next;
	if (crowd)
		return crowd;
	crowd = calloc(1, sizeof(*crowd));
	if (!crowd)
		return NULL;
	crowd->uid = uid;
	crowd->next = crowds;
	return crowds = crowd;
}

/* -1: too many; else whether it is counted. */
static int join(uint32_t uid)
{
	struct crowd *crowd;
	int joined;

	pthread_mutex_lock(&crowd_lock);
	crowd = crowd_of(uid);
	joined = !crowd ? 0 : crowd->count >= most_of_user ? -1 : 1;
	if (joined > 0)
		crowd->count++;
	pthread_mutex_unlock(&crowd_lock);
	return joined;
}

static void part(uint32_t uid)
{
	pthread_mutex_lock(&crowd_lock);
	crowd_of(uid)->count--;
	pthread_mutex_unlock(&crowd_lock);
}

bool sockets_enter(int fd, enum socket_kind kind, uint32_t uid)
{
	int joined;

	if (fd < 0 || fd >= SOCKETS_FDS || !most_of_user)
		return true;
	joined = join(uid);
	if (joined < 0) {
		atomic_fetch_add(&turned_away, 1);
		return false;
	}
	pthread_mutex_lock(&stripes[fd % STRIPES]);
	connections[fd] = (struct connection){
	    .kind = (uint8_t)kind,
	    .counted = joined,
	    .begun_ns = clock_ns(),
	    .uid = uid,
	};
	atomic_store(&stages[fd], STAGE_GREETING);
	let_go(fd);
	for (int before = atomic_load(&highest);
	     before < fd && !atomic_compare_exchange_weak(&highest, &before, fd);)
		;
	return true;
}

void sockets_leave(int fd)
{
	struct connection *connection = hold(fd);

	if (!connection)
		return;
	if (connection->counted)
		part(connection->uid);
	atomic_store(&stages[fd], STAGE_NONE);
	let_go(fd);
}

/* Up to `most` bytes of greeting or head. true: that is whole. */
static bool fill(struct connection *connection, const uint8_t **bytes, size_t *size, uint8_t most)
{
	while (*size && connection->fill < most) {
		connection->head[connection->fill++] = *(*bytes)++;
		--*size;
	}
	if (connection->fill < most)
		return false;
	connection->fill = 0;
	return true;
}

static void message_ends(struct connection *connection)
{
	connection->begun_ns = 0;
	atomic_store(&stages[connection - connections], STAGE_SERVED);
}

static void hear(struct connection *connection, const uint8_t *bytes, size_t size)
{
	while (size) {
		size_t part = size < connection->left ? size : (size_t)connection->left;

		if (!connection->begun_ns)
			connection->begun_ns = clock_ns();
		connection->left -= part;
		bytes += part;
		size -= part;
		if (part && !connection->left)
			message_ends(connection);
		if (part || !fill(connection, &bytes, &size, HEAD_SIZE))
			continue;
		for (int i = 1; i < HEAD_SIZE; i++)
			connection->left = connection->left << 8 | connection->head[i];
		if (!connection->left)
			message_ends(connection);
	}
}

bool sockets_heard(int fd, const void *bytes, size_t size)
{
	struct connection *connection = hold(fd);
	const uint8_t *at = bytes;
	bool welcome = true;

	if (!connection)
		return true;
	if (atomic_load(&stages[fd]) == STAGE_GREETING &&
	    fill(connection, &at, &size, SP_GREETING_SIZE))
		atomic_store(&stages[fd],
			     connection->kind == SOCKET_WATCHES ? STAGE_SERVED : STAGE_HELLO);
	if (atomic_load(&stages[fd]) != STAGE_GREETING && connection->kind == SOCKET_WATCHES) {
		connection->begun_ns = 0;
		welcome = !size;
	} else {
		hear(connection, at, size);
	}
	let_go(fd);
	return welcome;
}

void sockets_told(int fd, bool all)
{
	struct connection *connection = hold(fd);

	if (!connection)
		return;
	if (all)
		connection->deaf_ns = 0;
	else if (!connection->deaf_ns)
		connection->deaf_ns = clock_ns();
	let_go(fd);
}

/* DROP_KINDS: it is not. */
static enum drop is_due(const struct connection *connection, uint8_t stage, int64_t now_ns)
{
	int64_t read_ns =
	    connection->kind == SOCKET_WATCHES ? WATCHERS_TIMES * patience_ns : patience_ns;

	if (connection->begun_ns && now_ns - connection->begun_ns > patience_ns)
		return stage == STAGE_SERVED ? DROP_half : DROP_silent;
	if (connection->deaf_ns && now_ns - connection->deaf_ns > read_ns)
		return DROP_deaf;
	return DROP_KINDS;
}

static enum drop end_one(int fd, int64_t now_ns)
{
	struct connection *connection = hold(fd);
	enum drop why =
	    connection ? is_due(connection, atomic_load(&stages[fd]), now_ns) : DROP_KINDS;

	if (why != DROP_KINDS) {
		log_line("dropped: uid %u, %s", connection->uid,
			 why == DROP_silent ? "it said nothing"
			 : why == DROP_half ? "it did not end its message"
					    : "it did not read");
		/* Closing it is for nng, who is told of its end by that. */
		shutdown(fd, SHUT_RDWR);
		connection->begun_ns = connection->deaf_ns = 0;
	}
	if (connection)
		let_go(fd);
	return why;
}

void sockets_end(int64_t now_ns, uint64_t drops[DROP_KINDS])
{
	int last = atomic_load(&highest);

	drops[DROP_crowd] += atomic_exchange(&turned_away, 0);
	for (int fd = 0; fd <= last; fd++) {
		enum drop why = end_one(fd, now_ns);

		if (why != DROP_KINDS)
			drops[why]++;
	}
}
