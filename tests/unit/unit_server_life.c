/* SPDX-License-Identifier: MIT */
/* The daemon's beginning and end: one per directory, exit when idle, signals, restarts. */
#include "unit.h"

#include "raw.h"

static char words[4096];

static void signals_end_it_cleanly(void **state)
{
	static const int ending[] = {SIGTERM, SIGINT};
	request wait = raw_lookup("never", 60000);

	for (int i = 0; i < 2; i++) {
		int fd;

		raw_daemon_start(&raw_here, NULL);
		kill(raw_here.pid, SIGHUP);
		kill(raw_here.pid, SIGPIPE);
		raw_sleep_ms(20);
		fd = raw_connect(&raw_here);
		assert_int_equal(raw_say(fd, raw_share(i ? "y" : "x")), GPUSHARE_OK);
		/* The next daemon keeps "x", as its owner's process lives. */
		assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_OK);
		assert_true(raw_send(fd, 7, &wait));
		while (!raw_stat(fd).waiters)
			raw_sleep_ms(1);
		raw_daemon_end(ending[i]);
		assert_true(raw_is_closed(fd, RAW_TIMEOUT_MS));
		close(fd);
		assert_int_not_equal(access(raw_in_folder("registry.sock"), F_OK), 0);
		assert_int_equal(access(raw_in_folder("registry.lock"), F_OK), 0);
	}
}

/* A daemon that starts while another one leaves waits for the lock instead of giving up. */
static void a_successor_takes_over(void **state)
{
	const char *const extra[] = {"--idle-exit", "1", NULL};
	struct raw_daemon next = raw_here;
	long long deadline;

	raw_daemon_start(&raw_here, extra);
	deadline = raw_now_ms() + RAW_TIMEOUT_MS;
	while (!access(raw_here.socket, F_OK))
		assert_true(raw_now_ms() < deadline);
	raw_daemon_start(&next, NULL);
	assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS), 0);
	raw_here = next;
	close(raw_connect(&raw_here));
}

static void a_file_in_the_way_is_kept(void **state)
{
	const char *const arguments[] = {"--dir", raw_here.directory, NULL};
	int fd = open(raw_in_folder(GPUSHARE_SOCKET), O_CREAT | O_WRONLY, 0600);

	close(fd);
	assert_int_equal(raw_daemon_run(arguments, words, sizeof(words)), 1);
	assert_non_null(strstr(words, "is in the way"));
	assert_int_equal(access(raw_in_folder(GPUSHARE_SOCKET), F_OK), 0);
}

static void wrong_usage_is_two(void **state)
{
	static const char *const wrong[][3] = {
	    {"--bogus"},	{"extra"}, {"--idle-exit", "-1"}, {"--idle-exit", "1s"},
	    {"--ready-fd", ""}, {"--dir"}, {"--dir", ""},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(raw_daemon_run(wrong[i], words, sizeof(words)), 2);
		assert_non_null(strstr(words, "usage: gpushare-registry"));
	}
	assert_int_equal(
	    raw_daemon_run((const char *const[]){"--help", NULL}, words, sizeof(words)), 0);
	assert_non_null(strstr(words, "--idle-exit SECONDS"));
	assert_int_equal(
	    raw_daemon_run((const char *const[]){"--version", NULL}, words, sizeof(words)), 0);
	assert_non_null(strstr(words, GPUSHARE_VERSION));
}

static void the_log_tells_who_and_never_a_handle(void **state)
{
	const char *const arguments[] = {"--foreground", "--dir", raw_here.directory, NULL};
	pid_t pid = raw_fork();

	if (!pid) {
		long long deadline = raw_now_ms() + RAW_TIMEOUT_MS;
		int fd;

		snprintf(raw_here.socket, sizeof(raw_here.socket), "%s",
			 raw_in_folder(GPUSHARE_SOCKET));
		while (access(raw_here.socket, F_OK) && raw_now_ms() < deadline)
			raw_sleep_ms(5);
		raw_sleep_ms(50);
		fd = raw_connect(&raw_here);
		raw_say(fd, raw_share("weights"));
		raw_say(fd, raw_attach("weights", 0));
		raw_say(fd, raw_withdraw("weights", 0));
		close(fd);
		fd = raw_connect(&raw_here);
		raw_await_connections(fd, 1);
		raw_say(fd, raw_hello_request());
		kill(raw_answer.body.hello.pid, SIGTERM);
		_exit(0);
	}
	assert_int_equal(raw_daemon_run(arguments, words, sizeof(words)), 0);
	waitpid(pid, NULL, 0);
	assert_non_null(strstr(words, "share: uid "));
	assert_non_null(strstr(words, "attach: uid "));
	assert_non_null(strstr(words, "unlink: uid "));
	assert_non_null(strstr(words, "end: uid "));
	assert_non_null(strstr(words, "\"weights\""));
	assert_null(strstr(words, "\xc3\xc3"));
	assert_null(strstr(words, "c3c3"));
	assert_null(strstr(words, "??"));
}

static void the_log_holds_nothing_that_a_terminal_obeys(void **state)
{
	request hello = {
	    .which_verb = gpushare_Request_hello_tag,
	    .verb.hello = {.protocol = GPUSHARE_PROTOCOL,
			   .client = "\x9bm;\xc2\x9bm;\x1bm;\u00c0\u65e5"},
	};
	int log = open(raw_in_folder("log"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int saved = dup(STDERR_FILENO);
	ssize_t length;

	assert_true(log >= 0 && saved >= 0);
	dup2(log, STDERR_FILENO);
	raw_daemon_start(&raw_here, (const char *const[]){"--foreground", NULL});
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_int_equal(raw_ask(raw_greet(&raw_here), &hello, &raw_answer), GPUSHARE_OK);
	length = pread(log, words, sizeof(words) - 1, 0);
	close(log);
	assert_true(length > 0);
	words[length] = '\0';
	assert_non_null(strstr(words, "?m;??m;?m;\u00c0\u65e5\n"));
}

#define in_place(test) cmocka_unit_test_setup_teardown(test, raw_make_folder, raw_tear_down)

UNIT_MAIN(in_place(signals_end_it_cleanly), in_place(a_successor_takes_over),
	  in_place(a_file_in_the_way_is_kept), UNIT(wrong_usage_is_two),
	  in_place(the_log_tells_who_and_never_a_handle),
	  in_place(the_log_holds_nothing_that_a_terminal_obeys))
