/* SPDX-License-Identifier: MIT */
/* The real daemon's fds.sock: descriptors in and out, and peers that don't behave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon_fds.h"
#include "limit.h"
#include "raw_fds.h"

/* Attaches `name`, fetches its descriptor, and reads from it what the owner wrote. */
static void fetch_and_exit(const char *name)
{
	char word[8] = "";
	int own = raw_connect(&raw_here), fd = raw_fds_dial();

	if (raw_say(own, raw_attach(name, 0)) ||
	    raw_fds_withdraw(fd, raw_answer.body.attach.ticket) || raw_fds_received_count != 1 ||
	    fcntl(raw_fds_received[0], F_GETFD) != FD_CLOEXEC ||
	    pread(raw_fds_received[0], word, sizeof(word), 0) != 5 || strcmp(word, "hello"))
		_exit(1);
	if (raw_fds_withdraw(fd, raw_answer.body.attach.ticket) != GPUSHARE_E_NOT_FOUND)
		_exit(2);
	_exit(0);
}

static void a_descriptor_goes_round(void **state)
{
	int own = raw_connect(&raw_here), before = raw_fds_settled(), fd = raw_fds_dial(), file,
	    status;
	pid_t pid;

	(void)state;
	raw_fds_make(&file, 1);
	assert_int_equal(write(file, "hello", 5), 5);
	assert_int_equal(raw_fds_ask(fd, raw_fds_message(FDS_DEPOSIT, 1), &file, 1), GPUSHARE_OK);
	assert_int_equal(raw_fds_answered.count, 1);
	close(file);
	close(fd);
	assert_int_equal(raw_say(own, raw_fds_share("x")), GPUSHARE_OK);
	raw_fds_await(before + 1);
	pid = raw_fork();
	if (!pid)
		fetch_and_exit("x");
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(raw_say(own, raw_withdraw("x", 0)), GPUSHARE_OK);
	raw_fds_await(before);
	close(own);
}

static void the_socket_is_ours_alone(void **state)
{
	char path[GPUSHARE_PATH_MAX];
	struct stat is;

	(void)state;
	assert_int_equal(directory_fds_socket(raw_here.directory, path), GPUSHARE_OK);
	assert_int_equal(stat(path, &is), 0);
	assert_int_equal(is.st_mode, S_IFSOCK | 0600);
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	assert_int_not_equal(access(path, F_OK), 0);
}

static void sockets_and_directories_are_refused(void **state)
{
	static const uint8_t none[sizeof(raw_fds_answered.tickets)];
	int fds[3], before, fd = raw_fds_dial();

	(void)state;
	before = raw_fds_settled();
	raw_fds_make(fds, 2);
	fds[2] = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(raw_fds_ask(fd, raw_fds_message(FDS_DEPOSIT, 3), fds, 3),
			 GPUSHARE_E_INVALID);
	close(fds[2]);
	fds[2] = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(raw_fds_ask(fd, raw_fds_message(FDS_DEPOSIT, 3), fds, 3),
			 GPUSHARE_E_INVALID);
	assert_memory_equal(raw_fds_answered.tickets, none, sizeof(none));
	fds_close(fds, 3);
	raw_fds_await(before);
	assert_int_equal(raw_fds_deposit(fd, 2), GPUSHARE_OK); /* still friends */
	close(fd);
}

/* More descriptors than a message may have: what fds_send() would not send. */
static void send_surplus(int fd, size_t count)
{
	struct fds_message what = raw_fds_message(FDS_DEPOSIT, FDS_MAX);
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
	raw_fds_make(fds, 1);
	for (size_t i = 0; i < count; i++)
		fds[i] = fds[0];
	memcpy(CMSG_DATA(&room.header), fds, count * sizeof(int));
	assert_int_equal(sendmsg(fd, &header, 0), sizeof(what));
	close(fds[0]);
}

static void nonsense_gets_a_status_and_leaves_nothing(void **state)
{
	struct fds_message bad = raw_fds_message(FDS_DEPOSIT, 1);
	int before, fds[2], fd;

	(void)state;
	before = raw_fds_settled();
	raw_fds_make(fds, 2);
#define refused(status, what, with) \
	do { \
		fd = raw_fds_dial(); \
		assert_int_equal(raw_fds_ask(fd, what, fds, with), status); \
		close(fd); \
	} while (0)
	refused(GPUSHARE_E_INVALID, raw_fds_message(FDS_DEPOSIT, 0), 0);
	refused(GPUSHARE_E_INVALID, raw_fds_message(FDS_DEPOSIT, 1), 0);
	refused(GPUSHARE_E_INVALID, raw_fds_message(FDS_DEPOSIT, 1), 2);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_message(FDS_DEPOSIT, FDS_MAX + 1), 2);
	refused(GPUSHARE_E_INVALID, raw_fds_message(FDS_WITHDRAW, 0), 0);
	refused(GPUSHARE_E_NOT_FOUND, raw_fds_message(FDS_WITHDRAW, 1), 0);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_message(FDS_WITHDRAW, 1), 1);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_message(0, 1), 1);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_message(FDS_REPLACE, 1), 1);
	refused(GPUSHARE_E_PROTOCOL, raw_fds_message(FDS_NO_VERB, 1), 0);
	bad.version = FDS_VERSION + 1;
	refused(GPUSHARE_E_PROTOCOL, bad, 1);
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
	raw_fds_await(before); /* while many that were refused wait to be closed nobody is heard */
	for (size_t size = 1; size < 9000; size = size * 2 + 1) {
		static const char junk[9000] = {FDS_VERSION, FDS_DEPOSIT};

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

static void a_dead_depositors_descriptors_go(void **state)
{
	int before, ready[2];
	char byte;
	pid_t pid;

	(void)state;
	before = raw_fds_settled();
	assert_int_equal(pipe(ready), 0);
	pid = raw_fork();
	if (!pid) {
		int fd = raw_fds_dial();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (raw_fds_deposit(fd, 20) || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	raw_fds_await(before + 20 + 2); /* and the connection, and the watch over the process */
	kill(pid, SIGKILL);
	assert_in_range(raw_fds_await(before), 0, 1000 + raw_slack_ms());
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

static void limits_are_answered(void **state)
{
	int before, fds[LIMIT_FDS_CONNECTIONS_PER_PROCESS + 1],
	    last = LIMIT_FDS_CONNECTIONS_PER_PROCESS;

	(void)state;
	before = raw_fds_settled();
	fds[0] = raw_fds_dial();
	assert_int_equal(raw_fds_deposit(fds[0], 128), GPUSHARE_OK);
	assert_int_equal(raw_fds_deposit(fds[0], 127), GPUSHARE_OK);
	assert_int_equal(raw_fds_deposit(fds[0], 2), GPUSHARE_E_LIMIT);
	assert_int_equal(raw_fds_deposit(fds[0], 1), GPUSHARE_OK);
	assert_int_equal(raw_fds_deposit(fds[0], 1), GPUSHARE_E_LIMIT);
	raw_fds_await(before + 256 + 2);
	for (int i = 1; i <= last; i++)
		fds[i] = raw_fds_dial();
	assert_int_equal(raw_fds_withdraw(fds[last], raw_fds_answered.tickets[0]),
			 GPUSHARE_E_LIMIT);
	close(fds[0]);
	raw_fds_await(before + 256 + 1 + last);
	assert_int_equal(raw_fds_withdraw(fds[last], raw_fds_answered.tickets[0]),
			 GPUSHARE_E_NOT_FOUND);
	fds_close(fds + 1, (size_t)last);
	raw_assert_serves();
}

/* All that one of many users may open; what comes above it is closed. 0: so it was. */
static int open_all_of_ones(void)
{
	struct pollfd last = {.events = POLLIN};

	if (setresgid(1500, 1500, 1500) || setresuid(1500, 1500, 1500))
		return 1;
	for (int i = 0; i < LIMIT_FDS_CONNECTIONS / 4; i++)
		last.fd = raw_fds_dial();
	if (raw_fds_hear(raw_fds_dial()) != 1)
		return 2;
	return poll(&last, 1, 0) ? 3 : 0;
}

static void no_user_takes_the_places_of_others(void **state)
{
	static const char *const extra[] = {"--system", NULL};
	int fd, status;
	pid_t pid;

	(void)state;
	if (geteuid()) {
		printf("skipped: only root can be others\n");
		skip();
	}
	strcpy(raw_here.directory, "/tmp/gpushare-unit-XXXXXX");
	assert_non_null(mkdtemp(raw_here.directory));
	raw_daemon_start(&raw_here, extra);
	pid = raw_fork();
	if (!pid)
		_exit(open_all_of_ones());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_deposit(fd, 1), GPUSHARE_OK);
	close(fd);
	raw_tear_down(NULL);
}

static void a_daemon_without_descriptors_says_so(void **state)
{
	struct rlimit few = {0, 0}, before;
	int fd = raw_fds_dial(), have;

	(void)state;
	assert_int_equal(raw_fds_deposit(fd, 1), GPUSHARE_OK);
	have = raw_fds_settled();
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){(rlim_t)have + 10, before.rlim_max};
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &few, NULL), 0);
	assert_int_equal(raw_fds_deposit(fd, 100), GPUSHARE_E_LIMIT);
	raw_fds_await(have);
	assert_int_equal(raw_fds_deposit(fd, 1), GPUSHARE_OK);
	/* and where not even a connection has room, it waits instead of spinning, and comes back */
	few.rlim_cur = 3;
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &few, NULL), 0);
	close(fd);
	fd = raw_fds_dial();
	raw_sleep_ms(300);
	assert_int_equal(prlimit(raw_here.pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_int_equal(raw_fds_deposit(fd, 1), GPUSHARE_OK);
	close(fd);
	raw_assert_serves();
}

/* Both limits of time in one test: it takes as long as they do. */
static void silence_and_age_end(void **state)
{
	int own = raw_connect(&raw_here), before = raw_fds_least(1200), fd = raw_fds_dial(),
	    other = raw_fds_dial();
	long long begin = raw_now_ms();

	(void)state;
	assert_int_equal(raw_fds_deposit(fd, 3), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_fds_share("x")), GPUSHARE_OK);
	assert_int_equal(raw_fds_hear(other), 1);
	assert_in_range(raw_now_ms() - begin, LIMIT_FDS_SILENT_MS - 500,
			LIMIT_FDS_SILENT_MS + 1500 + raw_slack_ms());
	assert_int_equal(raw_fds_hear(fd), 1);
	raw_fds_await(before + 3 + 1);
	while (daemon_fds() >= before + 3 + 1) {
		assert_in_range(raw_now_ms() - begin, 0, LIMIT_TICKET_MS + RAW_TIMEOUT_MS);
		raw_sleep_ms(20);
	}
	assert_true(raw_now_ms() - begin >= LIMIT_TICKET_MS);
	raw_fds_await(before + 1); /* the record's */
	close(fd);
	close(other);
	close(own);
	raw_fds_await(before - 2); /* that connection and the watch over it, too */
}

static void many_processes_at_once(void **state)
{
	int before;
	pid_t pids[6];

	(void)state;
	before = raw_fds_settled();
	for (int p = 0; p < 6; p++) {
		pids[p] = raw_fork();
		if (pids[p])
			continue;
		for (int round = 0; round < 40; round++) {
			int own = raw_connect(&raw_here), fd = raw_fds_dial();
			char name[32];

			snprintf(name, sizeof(name), "p%d/%d", p, round);
			if (raw_fds_deposit(fd, 1 + (size_t)round % 5) ||
			    raw_say(own, raw_fds_share(name)) ||
			    raw_say(own, raw_attach(name, 0)) ||
			    raw_fds_withdraw(fd, raw_answer.body.attach.ticket))
				_exit(1);
			fds_close(raw_fds_received, raw_fds_received_count);
			close(own);
			close(fd);
		}
		_exit(0);
	}
	for (int p = 0; p < 6; p++) {
		int status;

		waitpid(pids[p], &status, 0);
		assert_int_equal(status, 0);
	}
	raw_fds_await(before);
	raw_assert_serves();
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_fds_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(a_descriptor_goes_round),
	    with_daemon(the_socket_is_ours_alone),
	    with_daemon(sockets_and_directories_are_refused),
	    with_daemon(nonsense_gets_a_status_and_leaves_nothing),
	    with_daemon(a_dead_depositors_descriptors_go),
	    with_daemon(limits_are_answered),
	    cmocka_unit_test(no_user_takes_the_places_of_others),
	    with_daemon(a_daemon_without_descriptors_says_so),
	    with_daemon(silence_and_age_end),
	    with_daemon(many_processes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
