/* SPDX-License-Identifier: MIT */
/* --replace against a process that holds the directory and doesn't answer as a registry should. */
#include "unit.h"

#include <sys/file.h>

#include "raw.h"
#include "stopped.h"

static char words[4096];

/* A process that holds registry.lock and listens at fds.sock, in the place of a registry. */
struct holder {
	pid_t pid;
	int status;    /* the status that it answers */
	size_t size;   /* bytes of the answer that it sends; 0: it hangs up */
	int leaves_ms; /* it exits this long after the answer; -1: never */
};

static void hold(const struct holder *holder, int ready)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct fds_header message;
	int listener, fd, lock, beside;
	size_t size;

	lock = open(raw_in_folder("registry.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	flock(lock, LOCK_EX);
	dprintf(lock, "%d\n", getpid());
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", raw_in_folder(GPUSHARE_FDS_SOCKET));
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 4) ||
	    write(ready, "x", 1) != 1)
		_exit(1);
	for (;;) {
		fd = accept(listener, NULL, NULL);
		poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
		if (fds_receive(fd, &message, NULL, 0, &size, &beside) ||
		    message.verb != FDS_REPLACE) {
			close(fd);
			continue;
		}
		message.status = holder->status;
		if (holder->size)
			fds_send_bytes(fd, &message, holder->size, NULL, 0);
		close(fd);
		if (holder->leaves_ms >= 0) {
			raw_sleep_ms(holder->leaves_ms);
			_exit(0);
		}
	}
}

static void start(struct holder *holder)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	holder->pid = raw_fork();
	if (!holder->pid)
		hold(holder, ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
}

/* Expect that --replace fails with a sentence that ends in `why`; return how long it took, in
 * ms. */
static long long replace_fails(struct holder holder, const char *why)
{
	const char *const arguments[] = {"--dir", raw_here.directory, "--replace", NULL};
	long long begin = raw_now_ms();
	char sentence[256];

	start(&holder);
	assert_int_equal(raw_daemon_run(arguments, words, sizeof(words)), 3);
	snprintf(sentence, sizeof(sentence),
		 "the registry (pid %d) that serves %s does not leave (%s)", holder.pid,
		 raw_here.directory, why);
	if (!strstr(words, sentence))
		fail_msg("\"%s\" is not in: %s", sentence, words);
	assert_ptr_equal(strchr(words, '\n'), words + strlen(words) - 1);
	kill(holder.pid, SIGKILL);
	waitpid(holder.pid, NULL, 0);
	unlink(raw_in_folder(GPUSHARE_FDS_SOCKET));
	return raw_now_ms() - begin;
}

static void one_that_does_not_know_how_is_named(void **state)
{
	struct holder old = {
	    .status = GPUSHARE_E_PROTOCOL, .size = sizeof(struct fds_header), .leaves_ms = -1};

	assert_in_range(replace_fails(old, status_text(GPUSHARE_E_PROTOCOL)), 0,
			1000 + raw_slack_ms());
}

static void replace_succeeds(struct holder holder)
{
	const char *const replace[] = {"--replace", NULL};
	int status;

	start(&holder);
	raw_daemon_start(&raw_here, replace);
	assert_int_equal(waitpid(holder.pid, &status, WNOHANG), holder.pid);
	assert_int_equal(status, 0);
	raw_assert_serves();
	raw_daemon_end(SIGTERM);
}

/* The old process may leave late, or without an answer. */
static void one_that_leaves_in_time_is_waited_for(void **state)
{
	replace_succeeds((struct holder){.size = sizeof(struct fds_header), .leaves_ms = 3500});
	replace_succeeds((struct holder){.size = 0, .leaves_ms = 200});
}

/* The process that asked hung up before the daemon read its request: the daemon stays. */
static void who_has_gone_replaces_nobody(void **state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct fds_header message = {.version = FDS_VERSION, .verb = FDS_REPLACE};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	raw_daemon_start(&raw_here, NULL);
	assert_true(stopped(raw_here.pid));
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", raw_in_folder(GPUSHARE_FDS_SOCKET));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(fds_send(fd, &message, NULL, 0, -1), 0);
	close(fd);
	kill(raw_here.pid, SIGCONT);
	raw_assert_serves();
	raw_sleep_ms(300); /* long enough for it to leave */
	raw_assert_serves();
}

#define in_place(test) cmocka_unit_test_setup_teardown(test, raw_make_folder, raw_tear_down)

UNIT_MAIN(in_place(one_that_does_not_know_how_is_named),
	  in_place(one_that_leaves_in_time_is_waited_for), in_place(who_has_gone_replaces_nobody))
