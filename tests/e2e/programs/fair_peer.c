// SPDX-License-Identifier: MIT
/*
 * Clients of a registry that serves several users.
 *
 *   fair_peer look NAME COUNT DIRECTORY IDLE_DIRECTORY
 *       look NAME up at both registries alternately, and ask for a descriptor; print
 *       `flooded P50_US P90_US idle P50_US P90_US failed COUNT connections COUNT`
 *   fair_peer WAY UID DIRECTORY
 *       become that user and flood the registry by WAY until killed; print `begun` once it floods:
 *       half      10,000 connections that send nothing
 *       failing   look-ups of missing names, many at a time, with 10,000 names of its own
 *       grouping  shares that name groups which don't exist, many at a time
 *       listing   lists of all names
 *       lingering file descriptors whose close() waits for another process
 *       naming    100,000 names, once
 *       releasing 10,000 names that end with one connection
 *       resyncing 10,000 names that end with a resync, or with a process that resyncs
 *       unlinking 10,000 buffers that end with one connection, whose names were unlinked before
 *       unread    1,000 connections that send requests and never read the answers
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "protocol.h"

#define HALF 10000
#define FAILING 8
#define UNREAD 1000
#define LISTING 4
#define NAMED 100000
#define RELEASED 10000 /* few enough for several rounds while another user looks up */
#define AT_A_TIME 64
#define LINGER_S 20
#define FAILED_MOST 5 /* look-ups; then no more are tried */

static const char *directory;
static char wire[GPUSHARE_MESSAGE_MAX], in[GPUSHARE_MESSAGE_MAX];

static void stop(const char *what)
{
	fprintf(stderr, "fair_peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void begun(void)
{
	puts("begun");
	fflush(stdout);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct client *connected(const char *where)
{
	struct client *client = client_new(
	    &(struct client_options){.directory = where, .who = "fair", .timeout_ms = 1000});

	if (!client || client_connect(client)) {
		fprintf(stderr, "fair_peer: %s\n", client ? client->why : "no memory");
		exit(1);
	}
	return client;
}

static int dial_at(const char *where, const char *socket_name, int type)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s/%s", where, socket_name);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		stop("can't connect");
	return fd;
}

static int dial(const char *socket_name, int type)
{
	return dial_at(directory, socket_name, type);
}

/* Write a request to `wire` at offset `at`. Return the offset behind it. */
static size_t put(size_t at, uint32_t id, const request *what)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	size_t size;

	if (codec_encode_request(what, (uint8_t *)wire + at + header, sizeof(wire) - at - header,
				 &size))
		stop("can't encode");
	sp_header((uint8_t *)wire + at, id, size);
	return at + header + size;
}

/* Connect, and send the greeting and hello. Return the connection. */
static int greeted(void)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};
	int fd = dial(GPUSHARE_SOCKET, SOCK_STREAM);
	size_t size;

	sp_greeting((uint8_t *)wire, SP_REQ);
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	size = put(SP_GREETING_SIZE, 1, &hello);
	if (write(fd, wire, size) != (ssize_t)size)
		stop("can't greet");
	return fd;
}

/* Read `count` messages, and discard them. */
static void read_answers(FILE *from, unsigned int count)
{
	uint8_t header[SP_HEADER_SIZE];

	for (; count; count--) {
		if (fread(header, sizeof(header), 1, from) != 1 ||
		    fread(in, SP_ID_SIZE + (size_t)sp_header_body_size(header), 1, from) != 1)
			stop("the registry closed a connection");
	}
}

/* As greeted(), but also read the answers to the greeting and hello. */
static FILE *asking(void)
{
	FILE *from = fdopen(greeted(), "r");

	if (!from || setvbuf(from, NULL, _IOFBF, 65536) ||
	    fread(in, SP_GREETING_SIZE, 1, from) != 1)
		stop("no greeting");
	read_answers(from, 1);
	return from;
}

static void ask(FILE *to, size_t size)
{
	if (write(fileno(to), wire, size) != (ssize_t)size)
		stop("can't ask");
}

/* Return whether the registry has closed the connection. Discards what it has sent. */
static bool is_closed(int fd)
{
	ssize_t got = recv(fd, wire, sizeof(wire), MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN);
}

static void half(void)
{
	static int fds[HALF];

	for (int i = 0; i < HALF; i++)
		fds[i] = dial(GPUSHARE_SOCKET, SOCK_STREAM);
	begun();
	for (;;) {
		for (int i = 0; i < HALF; i++) {
			if (!is_closed(fds[i]))
				continue;
			close(fds[i]);
			fds[i] = dial(GPUSHARE_SOCKET, SOCK_STREAM);
		}
		poll(NULL, 0, 10);
	}
}

/* A share of memory that has a handle. */
static request handle_share(void)
{
	request share = {.which_verb = gpushare_Request_share_tag};
	record *buffer = &share.verb.share.buffer;

	share.verb.share.has_buffer = true;
	buffer->backing = GPUSHARE_BACKING_IPC;
	buffer->size = buffer->base_size = 4096;
	memset(buffer->device_uuid, 0xd, sizeof(buffer->device_uuid));
	memset(share.verb.share.handle, 0xc3, sizeof(share.verb.share.handle));
	return share;
}

/* Connect and share `count` names. With `unlinks`, unlink each name at once: only the buffers stay
 * until the connection ends. */
static FILE *share_many(uint32_t count, bool unlinks)
{
	request share = handle_share();
	request unlink = {.which_verb = gpushare_Request_withdraw_tag};
	record *buffer = &share.verb.share.buffer;
	const uint32_t answers = unlinks ? 2 * AT_A_TIME : AT_A_TIME;
	FILE *registry = asking();

	for (uint32_t i = 0; i < count; i += AT_A_TIME) {
		size_t size = 0;

		for (uint32_t more = 0; more < AT_A_TIME; more++) {
			snprintf(buffer->name, sizeof(buffer->name), "release/%u", i + more);
			size = put(size, more, &share);
			strcpy(unlink.verb.withdraw.name, buffer->name);
			if (unlinks)
				size = put(size, AT_A_TIME + more, &unlink);
		}
		ask(registry, size);
		read_answers(registry, answers);
	}
	return registry;
}

/* Send the request over several connections, many at a time, over and over. */
static void ask_over_and_over(const request *what)
{
	FILE *registries[FAILING];
	size_t size = 0;

	for (int i = 0; i < FAILING; i++)
		registries[i] = asking();
	begun();
	for (uint32_t i = 0; i < AT_A_TIME; i++)
		size = put(size, i, what);
	for (;;) {
		for (int i = 0; i < FAILING; i++)
			ask(registries[i], size);
		for (int i = 0; i < FAILING; i++)
			read_answers(registries[i], AT_A_TIME);
	}
}

/* The user has many names: an answer that compares the missing name with all of them takes long. */
static void failing(void)
{
	request look = {.which_verb = gpushare_Request_lookup_tag};

	share_many(RELEASED, false);
	memset(look.verb.lookup.name, 'x', GPUSHARE_NAME_MAX);
	ask_over_and_over(&look);
}

static void grouping(void)
{
	request share = handle_share();

	strcpy(share.verb.share.buffer.name, "grouped");
	strcpy(share.verb.share.group, "no-such-group");
	share.verb.share.mode = 0660;
	ask_over_and_over(&share);
}

/* Each connection sends requests while its socket accepts more. If the registry closes one, open a
 * new one. */
static void unread(void)
{
	static struct {
		int fd;
		size_t at; /* offset in `asks` of what to send next */
	} peers[UNREAD];
	request look = {.which_verb = gpushare_Request_lookup_tag};
	char asks[sizeof(wire)];
	size_t size = 0;

	strcpy(look.verb.lookup.name, "mine");
	for (int i = 0; i < UNREAD; i++)
		peers[i].fd = greeted();
	for (uint32_t i = 0; i < AT_A_TIME; i++)
		size = put(size, i, &look);
	memcpy(asks, wire, size);
	for (bool first = true;; first = false) {
		for (int i = 0; i < UNREAD; i++) {
			ssize_t sent = send(peers[i].fd, asks + peers[i].at, size - peers[i].at,
					    MSG_DONTWAIT | MSG_NOSIGNAL);

			if (sent >= 0) {
				peers[i].at = (peers[i].at + (size_t)sent) % size;
			} else if (errno != EAGAIN) {
				close(peers[i].fd);
				peers[i].fd = greeted();
				peers[i].at = 0;
			}
		}
		if (first)
			begun();
	}
}

static void child(void (*flood)(void))
{
	pid_t parent = getpid();

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		flood();
	_exit(0);
}

static void list_all(void)
{
	struct client *client = connected(directory);
	gpushare_List *list = &client->request.verb.list;

	for (;;) {
		client->request.which_verb = gpushare_Request_list_tag;
		list->limit = 50;
		if (client_call(client, 60000) || !client->reply.body.list.more)
			*list->after = '\0';
		else
			strcpy(list->after, client->reply.body.list.after);
	}
}

static void listing(void)
{
	for (int i = 0; i < LISTING; i++)
		child(list_all);
	begun();
	for (;;)
		pause();
}

/* Return a TCP socket with unsent data that no peer reads: its last close() takes LINGER_S. */
static int lingering_socket(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
	static const char bytes[65536];
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (bind(listener, (const struct sockaddr *)&at, size) ||
	    getsockname(listener, (struct sockaddr *)&at, &size) || listen(listener, 1))
		stop("no TCP socket");
	connect(fd, (const struct sockaddr *)&at, size);
	if (accept(listener, NULL, NULL) < 0) /* stays open */
		stop("no TCP connection");
	while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(listener);
	return fd;
}

static int slow, ready[2];

static void send_slow(void)
{
	const struct fds_header header = {.version = FDS_VERSION, .verb = FDS_CHANGES};
	int fd = dial(GPUSHARE_FDS_SOCKET, SOCK_SEQPACKET);
	char byte;

	if (read(ready[0], &byte, 1) == 1)
		fds_send(fd, &header, NULL, 0, slow);
	close(slow);
}

/* Let a child send the socket to the registry. This process and the child close it at once, so that
 * mostly the registry closes the last reference. The accepted end stays open here. */
static void send_lingering(void)
{
	slow = lingering_socket();
	if (pipe(ready))
		stop("no pipe");
	child(send_slow);
	close(slow);
	if (write(ready[1], "", 1) != 1)
		stop("a sender ended");
	close(ready[0]);
	close(ready[1]);
}

static void lingering(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 300; i++) {
		send_lingering();
		if (i == 30)
			begun();
	}
	for (;;) {
		send_lingering();
		poll(NULL, 0, 5);
	}
}

static void release(bool unlinks)
{
	for (bool first = true;; first = false) {
		FILE *registry = share_many(RELEASED, unlinks);

		if (first)
			begun();
		fclose(registry);
	}
}

static void releasing(void)
{
	release(false);
}

static void unlinking(void)
{
	release(true);
}

static void resync_one(bool waits)
{
	request nothing = {.which_verb = gpushare_Request_resync_tag,
			   .verb.resync = {.last = true}};
	FILE *registry = share_many(RELEASED, false);

	ask(registry, put(0, 1, &nothing));
	read_answers(registry, waits);
	_exit(0);
}

/* Each second process ends without waiting for the answer. */
static void resyncing(void)
{
	int status;

	for (bool waits = true;; waits = !waits) {
		if (!fork())
			resync_one(waits);
		if (wait(&status) < 0 || status)
			stop("a process that resyncs failed");
		begun();
	}
}

static void naming(void)
{
	share_many(NAMED, false);
	begun();
	for (;;)
		pause();
}

static int compare(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Ask for the page of changes at fds.sock. The registry serves that socket in its main loop. */
static bool gets_descriptor(int fds)
{
	struct fds_header header = {.version = FDS_VERSION, .verb = FDS_CHANGES};
	struct pollfd answer = {.fd = fds, .events = POLLIN};
	size_t size;
	int got = -1;

	if (fds_send(fds, &header, NULL, 0, -1) || poll(&answer, 1, 1000) != 1 ||
	    fds_receive(fds, &header, NULL, 0, &size, &got) || header.status)
		return false;
	close(got);
	return got >= 0;
}

static double look_up(struct client *client, int fds, const char *name, int *failed)
{
	double began = now_us();

	client->request.which_verb = gpushare_Request_lookup_tag;
	client->request.verb.lookup = (gpushare_Lookup){0};
	strcpy(client->request.verb.lookup.name, name);
	if (client_call(client, 0)) {
		fprintf(stderr, "fair_peer: %s\n", client->why);
		++*failed;
	}
	if (!gets_descriptor(fds)) {
		fprintf(stderr, "fair_peer: no descriptor in time\n");
		++*failed;
	}
	return now_us() - began;
}

static void look(const char *name, size_t count, const char *flooded, const char *idle)
{
	struct client *clients[] = {connected(flooded), connected(idle)};
	int fds[] = {dial_at(flooded, GPUSHARE_FDS_SOCKET, SOCK_SEQPACKET),
		     dial_at(idle, GPUSHARE_FDS_SOCKET, SOCK_SEQPACKET)};
	double *took[] = {calloc(count, sizeof(double)), calloc(count, sizeof(double))};
	int failed = 0;

	for (size_t i = 0; i < count && failed < FAILED_MOST; i++) {
		for (int which = 0; which < 2; which++)
			took[which][i] = look_up(clients[which], fds[which], name, &failed);
		poll(NULL, 0, 1);
	}
	for (int which = 0; which < 2; which++)
		qsort(took[which], count, sizeof(double), compare);
	printf("flooded %.0f %.0f idle %.0f %.0f failed %d connections %u\n", took[0][count / 2],
	       took[0][count * 9 / 10], took[1][count / 2], took[1][count * 9 / 10], failed,
	       clients[0]->connections);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*flood)(void);
	} ways[] = {{"half", half},	      {"failing", failing},	{"grouping", grouping},
		    {"listing", listing},     {"lingering", lingering}, {"naming", naming},
		    {"releasing", releasing}, {"resyncing", resyncing}, {"unlinking", unlinking},
		    {"unread", unread}};

	if (argc == 6 && !strcmp(argv[1], "look")) {
		look(argv[2], strtoul(argv[3], NULL, 10), argv[4], argv[5]);
		return 0;
	}
	if (argc != 4)
		return 2;
	if (setgroups(0, NULL) || setgid((gid_t)atoi(argv[2])) || setuid((uid_t)atoi(argv[2])))
		stop("can't become that user");
	directory = argv[3];
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (!strcmp(argv[1], ways[i].name))
			ways[i].flood();
	}
	return 2;
}
