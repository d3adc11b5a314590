/* SPDX-License-Identifier: MIT */
/* The daemon's fds.sock: descriptors in both directions, and misbehaving peers. */
#include "unit.h"

#include "state/limit.h"
#include "peer.h"
#include "raw_fds.h"
#include "server/fds.h"

/* Ask with a header taken from another process. Returns 0 if the connection was closed. */
static int ask_as(struct fds_header stolen)
{
	int own = raw_connect(&raw_here), fd = raw_fds_dial();

	raw_hellos[own] = (gpushare_HelloReply){.connection = stolen.connection};
	memcpy(raw_hellos[own].session, stolen.session, sizeof(stolen.session));
	return raw_fds_say_with(fd, own, raw_attach("x", 0), NULL, 0) == 1 ? 0 : 1;
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
	assert_int_equal(raw_fds_say_with(fd, own, raw_attach("x", 0), NULL, 0), 1);
	close(fd);
	raw_hellos[own] = mine;
	raw_hellos[own].connection = raw_hellos[other].connection;
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_say_with(fd, own, raw_attach("x", 0), NULL, 0), 1);
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
	assert_int_equal(raw_fds_say_with(fd, own, raw_attach("x", 0), NULL, 0), 1);
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
	assert_int_equal(raw_fds_say(own, raw_withdraw("x", 0), -1), GPUSHARE_E_PROTOCOL);
#undef refused
	fd = raw_fds_dial();
	send_surplus(fd, FDS_MAX + 1);
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

static void a_daemon_without_descriptors_says_so(void **state)
{
	struct rlimit few = {0, 0}, before;
	int own = raw_connect(&raw_here), fd = raw_fds_dial(), file = raw_fds_make(), have;

	assert_int_equal(raw_fds_say_with(fd, own, raw_fds_share("x"), &file, 1), GPUSHARE_OK);
	have = raw_fds_settled();
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){3, before.rlim_max}; /* the open descriptors have scattered numbers */
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &few, NULL), 0);
	assert_int_equal(raw_fds_say_with(fd, own, raw_fds_share("y"), &file, 1), GPUSHARE_E_LIMIT);
	raw_fds_await(have);
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_int_equal(raw_fds_say_with(fd, own, raw_fds_share("y"), &file, 1), GPUSHARE_OK);
	/* If not even a connection has room, the daemon waits without spinning and recovers. */
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &few, NULL), 0);
	close(fd);
	fd = raw_fds_dial();
	raw_sleep_ms(300); /* no room meanwhile */
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_int_equal(raw_fds_say_with(fd, own, raw_fds_share("z"), &file, 1), GPUSHARE_OK);
	close(file);
	close(fd);
	close(own);
	raw_assert_serves();
}

static void silence_ends(void **state)
{
	int own = raw_connect(&raw_here), before = raw_fds_least(1200), fd = raw_fds_dial(),
	    other = raw_fds_dial();
	long long begin = raw_now_ms();

	assert_int_equal(raw_fds_say_with(fd, own, raw_share("x"), NULL, 0), GPUSHARE_OK);
	assert_int_equal(raw_fds_hear(other), 1);
	assert_in_range(raw_now_ms() - begin, LIMIT_FDS_SILENT_MS - 500,
			LIMIT_FDS_SILENT_MS + 1500 + raw_slack_ms());
	assert_int_equal(raw_fds_hear(fd), 1);
	raw_fds_await(before);
	close(fd);
	close(other);
	close(own);
	raw_fds_await(before - 2); /* its connection and pidfd close too */
}

/* The record may be removed while the descriptor is on its way. The test uses no socket, because
 * a daemon sends at once. */
static void what_was_answered_is_held_until_it_is_sent(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	request what = peer_share_fd("x");
	int fd = peer_goes;
	struct passing passing = {.came = NULL};

	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	what = raw_attach("x", 0);
	peer_registry->passing = &passing;
	assert_int_equal(handle_request(peer_registry, other, &what, false, &peer_answer),
			 GPUSHARE_OK);
	peer_registry->passing = NULL;
	registry_disconnect(peer_registry, owner);
	assert_int_equal(peer_lookup(other, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_true(passing.goes->fd == fd && fcntl(fd, F_GETFD) >= 0);
	fdref_release(&peer_registry->state.users, passing.goes);
	assert_true(peer_is_closed(fd));
}

static struct fds_server server;

/* Run the server until the connection has its answer. Returns 1 if it was closed. */
static int ask(int fd, struct fds_header what)
{
	struct pollfd answer = {.fd = fd, .events = POLLIN};

	assert_int_equal(fds_send(fd, &what, NULL, 0, -1), GPUSHARE_OK);
	while (poll(&answer, 1, 1) != 1)
		fds_server_run(&server);
	return raw_fds_hear(fd);
}

/* For a moment a child, the keeper, has descriptors that the server has closed. */
static void what_a_child_holds_open_is_forgotten(void **state)
{
	struct registry *registry = registry_new();
	char path[GPUSHARE_PATH_MAX];
	int fds[20];
	pid_t pid;

	assert_int_equal(raw_make_folder(state), 0);
	assert_int_equal(directory_fds_socket(raw_here.directory, path), GPUSHARE_OK);
	assert_true(fds_server_open(&server, registry, path));
	for (int i = 0; i < 20; i++) {
		fds[i] = raw_fds_dial();
		assert_int_equal(ask(fds[i], raw_fds_header(FDS_CHANGES, -1)), GPUSHARE_OK);
		close(raw_fds_came);
	}
	pid = raw_fork();
	if (!pid) {
		fds_close(fds, 20); /* the clients' ends */
		for (;;)
			pause();
	}
	for (int i = 0; i < 20; i++) { /* closed after an invalid request */
		assert_int_equal(ask(fds[i], raw_fds_header(0, -1)), GPUSHARE_E_PROTOCOL);
		close(fds[i]);
	}
	assert_null(server.connections);
	for (int i = 0; i < 20; i++) {
		fds[i] = raw_fds_dial();
		assert_int_equal(ask(fds[i], raw_fds_header(FDS_CHANGES, -1)), GPUSHARE_OK);
		close(raw_fds_came);
	}
	fds_close(fds, 20);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	rmdir(raw_here.directory);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_fds_set_up, raw_tear_down)

UNIT_MAIN(UNIT(what_a_child_holds_open_is_forgotten), with_daemon(who_asks_is_known),
	  with_daemon(nonsense_gets_a_status_and_leaves_nothing),
	  cmocka_unit_test_setup_teardown(what_was_answered_is_held_until_it_is_sent, peer_set_up,
					  peer_tear_down),
	  with_daemon(a_daemon_without_descriptors_says_so), with_daemon(silence_ends))
