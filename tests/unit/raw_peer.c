/* SPDX-License-Identifier: MIT */
#include "raw_peer.h"

#include "unit.h"

#include <grp.h>

static struct peer {
	pid_t pid;
	int line; /* to the process: for each byte it connects and sends the descriptor back */
} peers[RAW_FDS];

static void become(uint32_t uid, gid_t group)
{
	if (!uid)
		return;
	if (setgroups(group ? 1 : 0, &group) || setresgid(uid, uid, uid) ||
	    setresuid(uid, uid, uid) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
}

static void be_peer(int line, uint32_t uid, gid_t group)
{
	char which;

	/* Close what fork() inherited, or other peers' connections would stay open here. */
	line = dup2(line, STDERR_FILENO + 1);
	close_range((unsigned int)line + 1, ~0u, 0);
	become(uid, group);
	while (read(line, &which, 1) == 1) {
		int fd = which == 'f' ? raw_fds_dial() : raw_dial(&raw_here);
		struct fds_header none = {.version = FDS_VERSION};

		if (fds_send_bytes(line, &none, sizeof(none), &fd, 1))
			_exit(1);
		close(fd);
	}
	_exit(0);
}

static int ask_for(int line, char which)
{
	struct fds_header none;
	size_t size;
	int fd = -1;

	assert_int_equal(write(line, &which, 1), 1);
	assert_int_equal(poll(&(struct pollfd){.fd = line, .events = POLLIN}, 1, RAW_TIMEOUT_MS),
			 1);
	assert_int_equal(fds_receive(line, &none, NULL, 0, &size, &fd), GPUSHARE_OK);
	assert_true(fd >= 0 && fd < RAW_FDS);
	return fd;
}

static int dial_for(int own)
{
	return own >= 0 && peers[own].pid ? ask_for(peers[own].line, 'f') : raw_fds_dial();
}

static int peer_dial(uint32_t uid, uint32_t group)
{
	int line[2], fd;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
	pid = raw_fork();
	if (!pid) {
		close(line[0]);
		be_peer(line[1], uid, group);
	}
	close(line[1]);
	fd = ask_for(line[0], 'r');
	peers[fd] = (struct peer){.pid = pid, .line = line[0]};
	raw_fds_dialer = dial_for;
	return fd;
}

int raw_peer(uint32_t uid, uint32_t group)
{
	int fd = peer_dial(uid, group);

	raw_hello(fd);
	return fd;
}

int raw_peer_greeted(uint32_t uid)
{
	int fd = peer_dial(uid, 0);

	raw_greet_on(fd);
	return fd;
}

int raw_peer_beside(int peer)
{
	int fd = ask_for(peers[peer].line, 'r');

	raw_greet_on(fd);
	return fd;
}

int raw_peer_back(int peer)
{
	request hello = raw_hello_request();
	int fd = raw_peer_beside(peer);

	memcpy(hello.verb.hello.resume, raw_hellos[peer].session, sizeof(hello.verb.hello.resume));
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	raw_hellos[fd] = raw_answer.body.hello;
	peers[fd] = peers[peer];
	peers[peer].pid = 0;
	close(peer);
	return fd;
}

pid_t raw_peer_pid(int peer)
{
	return peers[peer].pid;
}

void raw_peer_end(int peer)
{
	kill(peers[peer].pid, SIGKILL);
	waitpid(peers[peer].pid, NULL, 0);
	close(peers[peer].line);
	close(peer);
	peers[peer].pid = 0;
}

void raw_peers_end(void)
{
	for (int fd = 0; fd < RAW_FDS; fd++) {
		if (peers[fd].pid)
			raw_peer_end(fd);
	}
}

int raw_peers_tear_down(void **state)
{
	raw_peers_end();
	return raw_tear_down(state);
}
