/* SPDX-License-Identifier: MIT */
/* The client's side of fds.sock: with the real daemon, and with registries that fail. */
#include "unit.h"

#include <grp.h>

#include "descriptors.h"
#include "client/client_internal.h"
#include "raw.h"

#define TIMEOUT_MS raw_limit_ms(300)

static char fds_socket[GPUSHARE_PATH_MAX];
static struct client *client;
static int file; /* the descriptor that share() sends */

static int set_up(void **state)
{
	const struct client_options options = {
	    .directory = raw_here.directory, .who = "unit", .timeout_ms = TIMEOUT_MS};

	raw_set_up(state);
	directory_fds_socket(raw_here.directory, fds_socket);
	client = client_new(&options);
	file = memfd_create("unit", MFD_CLOEXEC);
	return client && file >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	client = client_free(client);
	close(file);
	return raw_tear_down(state);
}

static int share_fd(const char *name, int fd)
{
	client->request = raw_share(name);
	client->request.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	memset(client->request.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	client->goes = fd;
	return client_call(client, 0);
}

static int share(const char *name)
{
	return share_fd(name, file);
}

static int attach(const char *name)
{
	client->request = raw_attach(name, 0);
	return client_call(client, 0);
}

static void assert_why(const char *part)
{
	if (!strstr(client->why, part))
		fail_msg("\"%s\" is not in: %s", part, client->why);
}

static void a_descriptor_comes_back(void **state)
{
	char word[8] = "";
	int fd, before;

	assert_int_equal(write(file, "hello", 5), 5);
	assert_int_equal(client_connect(client), GPUSHARE_OK);
	before = descriptors_open();
	assert_int_equal(share("x"), GPUSHARE_OK);
	assert_int_equal(client->goes, -1);
	assert_int_equal(client_take_fd(client), -1);
	assert_int_equal(attach("x"), GPUSHARE_OK);
	fd = client_take_fd(client);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(pread(fd, word, sizeof(word), 0), 5);
	assert_string_equal(word, "hello");
	close(fd);
	assert_int_equal(client_take_fd(client), -1);
	/* a descriptor that was not taken is closed by the next call */
	assert_int_equal(attach("x"), GPUSHARE_OK);
	assert_int_equal(descriptors_open(), before + 1);
	assert_int_equal(attach("y"), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(descriptors_open(), before);
}

static void a_groups_name_is_asked_for_first(void **state)
{
	const struct group *group = getgrgid(getegid());

	assert_non_null(group);
	client->request = raw_share("x");
	client->request.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	memset(client->request.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	client->request.verb.share.mode = 0640;
	strcpy(client->request.verb.share.group, group->gr_name);
	client->goes = file;
	assert_int_equal(client_call(client, 0), GPUSHARE_OK);
	assert_int_equal(client->reply.body.share.owner_gid, getegid());
	assert_true(client->reply.body.share.generation);
}

/* A posted request is handled before a later one, although they use different sockets. */
static void nothing_overtakes(void **state)
{
	request withdraw;

	for (int i = 0; i < 200; i++) {
		assert_int_equal(share("x"), GPUSHARE_OK);
		withdraw = raw_withdraw("x", client->reply.body.share.generation);
		assert_true(client_post(client, &withdraw));
	}
	assert_int_equal(attach("x"), GPUSHARE_E_NOT_FOUND);
}

static void what_is_refused_says_why(void **state)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY);

	assert_int_equal(share_fd("x", fd), GPUSHARE_E_INVALID);
	assert_why("a socket or a directory");
	close(fd);
	assert_int_equal(share_fd("x", 9999), GPUSHARE_E_IO); /* not open */
	assert_why("is it open");
	assert_true(client->socket.fd >= 0);
}

/* The registry was killed. Its sockets are left behind, then removed. */
static void a_registry_that_is_gone(void **state)
{
	int before;

	assert_int_equal(client_connect(client), GPUSHARE_OK);
	before = descriptors_open();
	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS);
	assert_int_equal(share("x"), GPUSHARE_E_NO_REGISTRY);
	assert_why("autostart is off");
	unlink(fds_socket);
	assert_int_equal(attach("x"), GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(client_take_fd(client), -1);
	assert_int_equal(descriptors_open(), before - 1);
	/* The client finds the next registry, although it believes that it is connected to the
	 * first. */
	raw_daemon_start(&raw_here, NULL);
	assert_int_equal(client_connect(client), GPUSHARE_OK);
	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS);
	raw_daemon_start(&raw_here, NULL);
	assert_int_equal(share("x"), GPUSHARE_OK);
}

/* The socket can't be reached, as after a chroot(). The connection stays, and only the first of
 * many calls waits for the registry to end. */
static void a_registry_without_that_socket(void **state)
{
	long long begun_ms;

	unlink(fds_socket);
	assert_int_equal(share("x"), GPUSHARE_E_NOT_SUPPORTED);
	assert_why("older than");
	/* the client keeps what it has shared over the main connection */
	assert_true(client->socket.fd >= 0);
	begun_ms = raw_now_ms();
	for (int i = 0; i < 100; i++)
		assert_int_equal(share("x"), GPUSHARE_E_NOT_SUPPORTED);
	assert_in_range(raw_now_ms() - begun_ms, 0, 1000 + raw_slack_ms());
}

/* Listen in place of fds.sock. For each connection read the request and call `how`; NULL: never
 * answer. */
static pid_t stand_in(void (*how)(int fd))
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	pid_t pid;

	unlink(fds_socket);
	strcpy(at.sun_path, fds_socket);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 8), 0);
	pid = raw_fork();
	if (pid) {
		close(listener);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		static uint8_t body[GPUSHARE_MESSAGE_MAX];
		int came, fd = accept(listener, NULL, NULL);
		struct pollfd event = {.fd = fd, .events = POLLIN};
		struct fds_header ask;
		size_t size;

		if (how && poll(&event, 1, -1) == 1 &&
		    !fds_receive(fd, &ask, body, sizeof(body), &size, &came))
			how(fd);
		else if (!how)
			pause();
		close(fd);
	}
}

static void fail_within_time(void (*how)(int fd), int status, const char *words)
{
	int before;
	long long begin;
	pid_t pid;

	assert_int_equal(client_connect(client), GPUSHARE_OK);
	pid = stand_in(how);
	before = descriptors_open();
	begin = raw_now_ms();
	assert_int_equal(share("x"), status);
	assert_why(words);
	assert_in_range(raw_now_ms() - begin, status == GPUSHARE_E_TIMED_OUT ? TIMEOUT_MS : 0,
			TIMEOUT_MS + 500 + raw_slack_ms());
	assert_int_equal(client_take_fd(client), -1);
	/* The request may have been carried out. The connection stays, to wait for the answer or
	 * to resync. */
	assert_int_equal(client->socket.fd >= 0, status != GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(client_is_silent(client), status != GPUSHARE_E_PROTOCOL);
	if (status == GPUSHARE_E_PROTOCOL)
		assert_true(client->fresh);
	client_disconnect(client);
	assert_int_equal(descriptors_open(), before - 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void a_silent_registry(void **state)
{
	char words[32];

	snprintf(words, sizeof(words), "in time (%d ms)", TIMEOUT_MS);
	fail_within_time(NULL, GPUSHARE_E_TIMED_OUT, words);
}

static void hang_up(int fd)
{
	close(fd);
}

static void a_registry_that_hangs_up(void **state)
{
	fail_within_time(hang_up, GPUSHARE_E_NO_REGISTRY, "closed the connection");
}

static void talk_nonsense(int fd)
{
	(void)!send(fd, "nonsense", 8, MSG_NOSIGNAL);
}

/* A successful answer with descriptors that were not asked for, and one more than allowed. */
static void bring_gifts(int fd)
{
	struct fds_header answer = {.version = FDS_VERSION, .verb = FDS_ASK};
	int gifts[] = {fd, fd};

	fds_send_bytes(fd, &answer, sizeof(answer), gifts, 2);
}

static void mistake_the_question(int fd)
{
	struct fds_header answer = {.version = FDS_VERSION, .verb = 9};

	fds_send(fd, &answer, NULL, 0, -1);
}

static void answers_that_make_no_sense(void **state)
{
	fail_within_time(talk_nonsense, GPUSHARE_E_PROTOCOL, "does not speak");
	fail_within_time(bring_gifts, GPUSHARE_E_PROTOCOL, "does not speak");
	fail_within_time(mistake_the_question, GPUSHARE_E_PROTOCOL, "does not speak");
}

/* The late answer is settled before the next request is sent. */
static void a_stopped_registry(void **state)
{
	long long begin;

	assert_int_equal(client_connect(client), GPUSHARE_OK);
	kill(raw_here.pid, SIGSTOP);
	assert_int_equal(waitpid(raw_here.pid, NULL, WUNTRACED), raw_here.pid);
	begin = raw_now_ms();
	assert_int_equal(share("x"), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - begin, TIMEOUT_MS, TIMEOUT_MS + 500 + raw_slack_ms());
	kill(raw_here.pid, SIGCONT);
	assert_int_equal(share("y"), GPUSHARE_OK);
}

#define LATE_MS 900

/* The registry ends during the request, near the timeout. The next listener never answers. */
static void end_late(int fd)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	raw_sleep_ms(LATE_MS);
	unlink(raw_here.socket);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", raw_here.socket);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 8))
		_exit(1);
	kill(raw_here.pid, SIGKILL);
	raw_sleep_ms(50); /* let the client see the registry's end first */
	close(fd);
}

static void it_takes_its_time_once(void **state)
{
	long long begin;
	pid_t pid;

	client->timeout_ms = LATE_MS + 200;
	assert_int_equal(client_connect(client), GPUSHARE_OK);
	pid = stand_in(end_late);
	begin = raw_now_ms();
	assert_int_equal(share("x"), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - begin, client->timeout_ms, LATE_MS + client->timeout_ms - 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS);
}

static void a_forked_child_is_told(void **state)
{
	int status;
	pid_t pid;

	assert_int_equal(client_connect(client), GPUSHARE_OK);
	pid = raw_fork();
	if (!pid)
		_exit(share("x") == GPUSHARE_E_FORKED ? 0 : 1);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(share("x"), GPUSHARE_OK);
}

static void a_childs_copy_keeps_no_connection(void **state)
{
	int own = raw_connect(&raw_here);
	pid_t pid;

	assert_int_equal(share("x"), GPUSHARE_OK);
	raw_await_connections(own, 2);
	pid = raw_fork();
	if (!pid)
		for (;;)
			pause();
	client = client_free(client);
	raw_await_connections(own, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(own);
}

#define with_client(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(with_client(a_descriptor_comes_back), with_client(a_groups_name_is_asked_for_first),
	  with_client(nothing_overtakes), with_client(what_is_refused_says_why),
	  with_client(a_registry_that_is_gone), with_client(a_registry_without_that_socket),
	  with_client(a_silent_registry), with_client(a_registry_that_hangs_up),
	  with_client(answers_that_make_no_sense), with_client(a_stopped_registry),
	  with_client(it_takes_its_time_once), with_client(a_forked_child_is_told),
	  with_client(a_childs_copy_keeps_no_connection))
