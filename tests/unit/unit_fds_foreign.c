/* SPDX-License-Identifier: MIT */
/* The daemon's fds.sock, and descriptors whose close() or fstat() blocks on another process. */
#include "unit.h"

#include <linux/fuse.h>
#include <netinet/in.h>
#include <sys/mount.h>

#include "raw_fds.h"
#include "stage.h"
#include "stopped.h"

#define LINGER_S 20 /* longer than raw_fds_hear() waits for an answer */

/* A TCP socket with unsent data. Its last close() takes LINGER_S, because nobody reads the other
 * end. */
static int lingering(int *out_peer)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
	static const char bytes[65536];
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 4096;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(bind(listener, (const struct sockaddr *)&at, size), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	assert_int_equal(listen(listener, 1), 0);
	connect(fd, (const struct sockaddr *)&at, size); /* in progress */
	*out_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*out_peer >= 0);
	while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	close(listener);
	return fd;
}

/* Send such a socket so that the daemon has the last reference, in a Share or an invalid
 * message. */
static void send_lingering(int fd, int own, const struct fds_header *wrong, int *out_peer)
{
	const struct fds_header header = raw_fds_header(FDS_ASK, own);
	const request share = raw_fds_share("x");
	uint8_t body[gpushare_Request_size];
	int slow = lingering(out_peer);
	size_t size = 0;

	assert_true(stopped(raw_here.pid));
	if (!wrong)
		assert_int_equal(codec_encode_request(&share, body, sizeof(body), &size),
				 GPUSHARE_OK);
	assert_int_equal(fds_send(fd, wrong ? wrong : &header, body, size, slow), GPUSHARE_OK);
	close(slow);
	assert_int_equal(kill(raw_here.pid, SIGCONT), 0);
}

static void assert_others_are_served(void)
{
	int own = raw_connect(&raw_here);

	assert_int_equal(raw_fds_put(own, "other", 0), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_withdraw("other", 0)), GPUSHARE_OK);
	close(own);
}

static void a_socket_that_lingers_holds_up_nobody(void **state)
{
	int own = raw_connect(&raw_here), peers[4], fd = raw_fds_dial(), other = raw_fds_dial(),
	    left = raw_fds_dial(), page = raw_fds_dial();
	struct fds_header wrong = raw_fds_header(FDS_ASK, own), changes = wrong;

	send_lingering(fd, own, NULL, &peers[0]);
	assert_int_equal(raw_fds_hear(fd), GPUSHARE_E_INVALID);
	assert_others_are_served();
	changes.verb = FDS_CHANGES;
	send_lingering(page, own, &changes, &peers[1]);
	assert_int_equal(raw_fds_hear(page), GPUSHARE_E_PROTOCOL);
	assert_others_are_served();
	wrong.version++;
	send_lingering(other, own, &wrong, &peers[2]);
	assert_int_equal(raw_fds_hear(other), GPUSHARE_E_PROTOCOL);
	assert_others_are_served();
	/* a lingering socket still queued on a connection that is closed */
	assert_true(stopped(raw_here.pid));
	assert_int_equal(fds_send(left, &wrong, NULL, 0, -1), GPUSHARE_OK);
	send_lingering(left, own, &wrong, &peers[3]);
	assert_int_not_equal(raw_fds_hear(left), GPUSHARE_OK); /* or the end before the answer */
	assert_others_are_served();
	fds_close(peers, 4);
	close(page);
	close(left);
	close(other);
	close(fd);
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

	stage_needs_own_proc();
	own = raw_connect(&raw_here);
	fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	close(fds[0]);
	fds[0] = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	close(fds[0]);
	fds[0] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	raw_assert_sentence("not a socket or a directory");
	close(fds[0]);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(raw_fds_say(own, raw_fds_share("x"), fds[0]), GPUSHARE_E_INVALID);
	fds_close(fds, 2);
	assert_int_equal(raw_fds_put(own, "x", 0), GPUSHARE_OK);
	close(own);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(a_socket_that_lingers_holds_up_nobody, raw_fds_set_up,
					  raw_tear_down),
	  cmocka_unit_test_setup_teardown(a_file_system_that_never_answers_holds_up_nobody,
					  raw_fds_set_up, raw_tear_down),
	  cmocka_unit_test_setup_teardown(only_memory_is_taken_in, raw_fds_set_up, raw_tear_down))
