/* SPDX-License-Identifier: MIT */
/* The daemon's fds.sock: descriptors in both directions, and misbehaving peers. */
#include "unit.h"

#include <linux/fuse.h>
#include <sys/mount.h>

#include "raw_fds.h"
#include "server/fds.h"
#include "state/limit.h"

/* Ask with a header taken from another process. Returns 0 if the connection was closed. */
static int ask_as(struct fds_header stolen)
{
	int own = raw_connect(&raw_here), fd = raw_fds_dial();

	raw_hellos[own] = (gpushare_HelloReply){.connection = stolen.connection};
	memcpy(raw_hellos[own].session, stolen.session, sizeof(stolen.session));
	return raw_fds_say_with(fd, own, raw_attach("x"), NULL, 0) == 1 ? 0 : 1;
}

/* A request needs the number of an open connection of the same process, and its session key. */
static void who_asks_is_known(void **state)
{
	int own = raw_connect(&raw_here), other = raw_connect(&raw_here), fd, status;
	gpushare_HelloReply mine = raw_hellos[own];
	pid_t pid;

	assert_int_equal(raw_fds_put(own, "x", 0), GPUSHARE_OK);
	raw_hellos[own].session[7] ^= 1;
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_say_with(fd, own, raw_attach("x"), NULL, 0), 1);
	close(fd);
	raw_hellos[own] = mine;
	raw_hellos[own].connection = raw_hellos[other].connection;
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_say_with(fd, own, raw_attach("x"), NULL, 0), 1);
	close(fd);
	raw_hellos[own] = mine;
	pid = raw_fork();
	if (!pid)
		_exit(ask_as(raw_fds_header(FDS_ASK, own)));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(raw_fds_get(own, "x"), GPUSHARE_OK);
	close(own);
	raw_await_connections(other, 1);
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_say_with(fd, own, raw_attach("x"), NULL, 0), 1);
	close(fd);
	close(other);
}

/* Send more descriptors than a message may have, which fds_send() would refuse. */
static void send_surplus(int fd, size_t count)
{
	struct fds_header what = raw_fds_header(FDS_ASK, -1);
	struct iovec data = {&what, sizeof(what)};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} room = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr header = {.msg_iov = &data,
				.msg_iovlen = 1,
				.msg_control = room.bytes,
				.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	int fds[253];

	room.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	fds[0] = raw_fds_make();
	for (size_t i = 0; i < count; i++)
		fds[i] = fds[0];
	memcpy(CMSG_DATA(&room.header), fds, count * sizeof(int));
	assert_int_equal(sendmsg(fd, &header, 0), sizeof(what));
	close(fds[0]);
}

static void nonsense_gets_a_status_and_leaves_nothing(void **state)
{
	int own = raw_connect(&raw_here), before = raw_fds_settled(), fds[2], fd;
	struct fds_header bad = raw_fds_header(FDS_ASK, own);

	fds[0] = raw_fds_make();
	fds[1] = raw_fds_make();
#define refused(status, what, with) \
	do { \
		fd = raw_fds_dial(); \
		assert_int_equal(raw_fds_ask(fd, what, fds, with), status); \
		close(fd); \
	} while (0)
	refused(GPUSHARE_E_PROTOCOL, bad, 0); /* the body is not a request */
	refused(GPUSHARE_E_PROTOCOL, bad, 1);
	refused(GPUSHARE_E_PROTOCOL, bad, 2);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_header(0, own), 1);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_header(2, own), 0);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_header(FDS_REPLACE, own), 1);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_header(FDS_INDEX + 1, own), 0);
	bad.version = FDS_VERSION - 1;
	refused(GPUSHARE_E_PROTOCOL, bad, 1);
	/* requests that this socket doesn't serve */
	assert_int_equal(raw_fds_say(own, raw_lookup("x", 0), fds[0]), GPUSHARE_E_PROTOCOL);
	assert_int_equal(raw_fds_say(own, raw_lookup("x", 0), -1), GPUSHARE_E_PROTOCOL);
#undef refused
	fd = raw_fds_dial();
	send_surplus(fd, 129);
	assert_int_equal(raw_fds_hear(fd), GPUSHARE_E_PROTOCOL);
	assert_int_equal(raw_fds_hear(fd), 1);
	close(fd);
	fd = raw_fds_dial();
	send_surplus(fd, 253);
	assert_int_equal(raw_fds_hear(fd), GPUSHARE_E_PROTOCOL);
	close(fd);
	fd = raw_fds_dial();
	send_surplus(fd, 2);
	assert_int_equal(raw_fds_hear(fd), GPUSHARE_E_PROTOCOL);
	close(fd);
	/* While many refused connections wait to be closed, the daemon reads no other. */
	raw_fds_await(before);
	for (size_t size = 1; size < 90000; size = size * 2 + 1) {
		static const char junk[90000] = {FDS_VERSION, FDS_REPLACE};

		if (size == sizeof(struct fds_header)) /* a valid request to leave */
			continue;

		fd = raw_fds_dial();
		assert_int_equal(send(fd, junk, size, 0), size);
		assert_int_equal(raw_fds_hear(fd), GPUSHARE_E_PROTOCOL);
		assert_int_equal(raw_fds_hear(fd), 1);
		close(fd);
	}
	fds_close(fds, 2);
	raw_fds_await(before);
	raw_assert_serves();
}

static void assert_others_are_served(void)
{
	int own = raw_connect(&raw_here);

	assert_int_equal(raw_fds_put(own, "other", 0), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_withdraw("other", 0)), GPUSHARE_OK);
	close(own);
}

static void answer(int fuse, uint64_t unique, const void *body, size_t size)
{
	struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + size),
					 .unique = unique};
	char out[256];

	memcpy(out, &header, sizeof(header));
	memcpy(out + sizeof(header), body, size);
	if (write(fuse, out, sizeof(header) + size) < 0)
		_exit(1);
}

/* A file system of one file that can be opened. It answers no other request. */
static void serve_silent_file(int fuse)
{
	static const struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31};
	static const struct fuse_open_out open;
	static char in[1 << 20];

	while (read(fuse, in, sizeof(in)) > 0) {
		const struct fuse_in_header *header = (const void *)in;

		if (header->opcode == FUSE_INIT)
			answer(fuse, header->unique, &init, sizeof(init));
		else if (header->opcode == FUSE_OPEN)
			answer(fuse, header->unique, &open, sizeof(open));
	}
	_exit(0);
}

/* Start a process that mounts that file system at `path` in its own mount namespace. Returns its
 * pid; 0: not possible here. */
static pid_t silent_file(const char *path)
{
	char options[100], word = 0;
	int ready[2], fuse;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = raw_fork();
	if (!pid) {
		close(ready[0]);
		fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
		snprintf(options, sizeof(options), "fd=%d,rootmode=100644,user_id=0,group_id=0",
			 fuse);
		if (fuse < 0 || unshare(CLONE_NEWNS) ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("silent", path, "fuse", 0, options) || write(ready[1], "", 1) != 1)
			_exit(1);
		close(ready[1]);
		serve_silent_file(fuse);
	}
	close(ready[1]);
	if (read(ready[0], &word, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid;
}

static void a_file_system_that_never_answers_holds_up_nobody(void **state)
{
	int own = raw_connect(&raw_here), plain, silent, status;
	char path[GPUSHARE_PATH_MAX], seen[GPUSHARE_PATH_MAX + 32];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/silent", raw_here.directory);
	plain = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(plain >= 0);
	pid = silent_file(path);
	if (!pid) {
		close(plain);
		unlink(path);
		printf("skipped: no FUSE file system can be mounted here\n");
		skip();
	}
	snprintf(seen, sizeof(seen), "/proc/%d/root%s", pid, path);
	silent = open(seen, O_RDWR | O_CLOEXEC);
	assert_true(silent >= 0);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), silent), GPUSHARE_E_INVALID);
	assert_others_are_served();
	raw_assert_serves();
	kill(pid, SIGKILL); /* the kernel then fails the requests */
	waitpid(pid, &status, 0);
	close(silent);
	close(plain);
	unlink(path);
	close(own);
}

/* The daemon accepts only memory that buffers are made of, and no files of other file systems. */
static void only_memory_is_taken_in(void **state)
{
	int fds[2], own;

	if (raw_is_emulated()) /* which has its own /proc/self/stat */
		skip();
	own = raw_connect(&raw_here);
	fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	close(fds[0]);
	fds[0] = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	close(fds[0]);
	fds[0] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	raw_assert_sentence("not of a socket, a directory");
	close(fds[0]);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	fds_close(fds, 2);
	assert_int_equal(raw_fds_put(own, "x", 0), GPUSHARE_OK);
	close(own);
}

/* A client that gives up requests closes their connection. It then reports what it has. */
static void a_request_whose_sender_has_left_is_not_done(void **state)
{
	int own = raw_connect(&raw_here), fd, status;
	struct fds_header header;
	request ask = raw_attach("x");
	uint8_t body[512];
	size_t size;

	assert_int_equal(raw_fds_put(own, "x", 0), GPUSHARE_OK);
	assert_int_equal(codec_encode_request(&ask, body, sizeof(body), &size), GPUSHARE_OK);
	header = raw_fds_header(FDS_ASK, own);
	fd = raw_fds_dial();
	kill(raw_here.pid, SIGSTOP);
	assert_int_equal(waitpid(raw_here.pid, &status, WUNTRACED), raw_here.pid);
	assert_int_equal(fds_send(fd, &header, body, size, -1), GPUSHARE_OK);
	close(fd);
	kill(raw_here.pid, SIGCONT);
	raw_fds_settled();
	assert_int_equal(raw_say(own, raw_detach("x", raw_seen(own, "x")->generation)),
			 GPUSHARE_E_NOT_FOUND);
	close(own);
}

/* A peer that has said something lately stays. */
static void silence_ends(void **state)
{
	int own = raw_connect(&raw_here), before = raw_fds_settled();
	int talks = raw_fds_dial(), silent = raw_fds_dial();
	long long begin = raw_now_ms();

	do
		assert_int_equal(raw_fds_say_with(talks, own, raw_attach("x"), NULL, 0),
				 GPUSHARE_E_NOT_FOUND);
	while (!raw_is_closed(silent, 1000) && raw_now_ms() - begin < 2 * LIMIT_FDS_SILENT_MS);
	assert_in_range(raw_now_ms() - begin, LIMIT_FDS_SILENT_MS - 500,
			LIMIT_FDS_SILENT_MS + 1500 + raw_slack_ms());
	raw_fds_await(before + 1);
	assert_int_equal(raw_fds_say_with(talks, own, raw_attach("x"), NULL, 0),
			 GPUSHARE_E_NOT_FOUND);
	close(silent);
	close(talks);
	close(own);
}

/* A registry in this process, for the tests to share; a session, and both ends of its connection to
 * fds.sock. */
static struct {
	struct fds_server server;
	struct fds_connection *connection;
	struct session *session;
	int near;
} inside;

static int begin_inside(void **state)
{
	const struct process peer = {.pid = 10, .uid = 1000, .started = 100};
	static struct registry *registry;
	struct user *user;
	int ends[2];

	registry = registry ? registry : registry_new();
	user = user_of(&registry->state.users, peer.uid);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_true(user_opens(user));
	inside.server = (struct fds_server){.registry = registry, .listener = -1, .events = -1};
	inside.session = registry_connect(registry, 3, &peer);
	inside.session->greeted = true;
	memset(inside.session->key, 7, sizeof(inside.session->key));
	inside.near = ends[0];
	inside.connection = calloc(1, sizeof(*inside.connection));
	*inside.connection = (struct fds_connection){.fd = ends[1], .pid = peer.pid, .user = user};
	DL_APPEND(inside.server.connections, inside.connection);
	return 0;
}

static int end_inside(void **state)
{
	close(inside.near);
	return 0;
}

static void send_inside(void)
{
	struct fds_header header = {
	    .version = FDS_VERSION, .verb = FDS_ASK, .connection = inside.session->id};
	request ask = raw_share("x");
	uint8_t body[gpushare_Request_size];
	size_t size;

	memcpy(header.session, inside.session->key, sizeof(header.session));
	assert_int_equal(codec_encode_request(&ask, body, sizeof(body), &size), GPUSHARE_OK);
	assert_int_equal(fds_send(inside.near, &header, body, size, -1), GPUSHARE_OK);
}

static bool is_done(void)
{
	return store_find(&inside.server.registry->state.store, "x") != NULL;
}

/* The registry is about to read the request, after the sender was still there. */
static void a_request_whose_sender_leaves_as_it_is_read_is_not_done(void **state)
{
	send_inside();
	shutdown(inside.near, SHUT_RDWR);
	assert_false(fds_answer(&inside.server, inside.connection));
	assert_false(is_done());
	close(inside.connection->fd);
	free(inside.connection);
}

/* The client learns from its next send that it has to connect again. */
static void a_request_that_arrives_as_silence_ends_is_answered(void **state)
{
	send_inside();
	fds_server_tick(&inside.server); /* the deadline is 0 */
	assert_null(inside.server.connections);
	assert_true(is_done());
	assert_int_equal(raw_fds_hear(inside.near), GPUSHARE_OK);
	assert_int_equal(send(inside.near, "", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
}

/* In a crowd, a new connection takes the place of the one that has not been used for longest. */
static void kept_connections_make_room(void **state)
{
	int own = raw_connect(&raw_here), others[LIMIT_CONNECTIONS_SPARE - 1];
	int kept[] = {raw_fds_dial(), raw_fds_dial()}; /* [1] is used before and after [0] */

	raw_fds_settled();
	for (int i = 0; i < 3; i++)
		assert_int_equal(raw_fds_say_with(kept[i != 1], own, raw_attach("x"), NULL, 0),
				 GPUSHARE_E_NOT_FOUND);
	for (int i = 0; i < LIMIT_CONNECTIONS_SPARE - 1; i++) {
		assert_false(raw_is_closed(kept[0], 0));
		others[i] = raw_fds_dial();
	}
	assert_true(raw_is_closed(kept[0], LIMIT_FDS_SILENT_MS / 2));
	assert_int_equal(raw_fds_say_with(kept[1], own, raw_attach("x"), NULL, 0),
			 GPUSHARE_E_NOT_FOUND);
	fds_close(others, LIMIT_CONNECTIONS_SPARE - 1);
	fds_close(kept, 2);
	close(own);
}

static long long daemon_cpu_ms(void)
{
	struct timespec used;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(raw_here.pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &used), 0);
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* The lowest number that no descriptor of the daemon has. */
static rlim_t daemon_next_fd(void)
{
	char path[64];
	rlim_t next = 0;

	do
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", raw_here.pid, (int)next++);
	while (!faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW));
	return next - 1;
}

/* Without a free descriptor the daemon refuses a descriptor, and leaves a connection waiting
 * without trying all the time. */
static void a_daemon_without_descriptors_recovers(void **state)
{
	int own = raw_connect(&raw_here), fd = raw_fds_dial(), late, file = raw_fds_make();
	struct rlimit few, before;
	long long cpu_ms;

	assert_int_equal(raw_fds_say_with(fd, own, raw_fds_share("x"), &file, 1), GPUSHARE_OK);
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){daemon_next_fd(), before.rlim_max};
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &few, NULL), 0);
	assert_int_equal(raw_fds_say_with(fd, own, raw_fds_share("y"), &file, 1), GPUSHARE_E_LIMIT);
	late = raw_fds_dial();
	cpu_ms = daemon_cpu_ms();
	assert_false(raw_is_closed(late, 500));
	assert_in_range(daemon_cpu_ms() - cpu_ms, 0, 100);
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_int_equal(raw_fds_say_with(late, own, raw_fds_share("y"), &file, 1), GPUSHARE_OK);
	close(file);
	close(late);
	close(fd);
	close(own);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_fds_set_up, raw_tear_down)

UNIT_MAIN(with_daemon(who_asks_is_known), with_daemon(nonsense_gets_a_status_and_leaves_nothing),
	  with_daemon(a_file_system_that_never_answers_holds_up_nobody),
	  with_daemon(only_memory_is_taken_in), with_daemon(silence_ends),
	  with_daemon(a_request_whose_sender_has_left_is_not_done),
	  cmocka_unit_test_setup_teardown(a_request_whose_sender_leaves_as_it_is_read_is_not_done,
					  begin_inside, end_inside),
	  cmocka_unit_test_setup_teardown(a_request_that_arrives_as_silence_ends_is_answered,
					  begin_inside, end_inside),
	  with_daemon(kept_connections_make_room),
	  with_daemon(a_daemon_without_descriptors_recovers))
