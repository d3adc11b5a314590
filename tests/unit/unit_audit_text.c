/* SPDX-License-Identifier: MIT */
/* A line of the audit: what it says, that nobody can write one of his own into it, and journald. */
#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit.h"

static const struct audit_line share_line = {
    .unix_ns = UINT64_C(1700000000123456789),
    .verb = "share",
    .outcome = "ok",
    .uid = 1000,
    .pid = 42,
    .command = "python3",
    .name = "a/b",
    .generation = 7,
    .size = 4096,
};

static void what_a_line_says(void **state)
{
	struct audit_line left = {.verb = "left_out", .uid = 3, .left_out = 12};
	char text[AUDIT_LINE_MAX];
	size_t length = audit_text(&share_line, true, text);

	(void)state;
	assert_int_equal(length, strlen(text));
	assert_string_equal(text, "2023-11-14T22:13:20.123456Z share uid=1000 pid=42 "
				  "command=\"python3\" name=\"a/b\" generation=7 size=4096 "
				  "outcome=ok");
	audit_text(&left, false, text);
	assert_string_equal(text, "left_out uid=3 count=12");
}

static void others_words_end_nothing(void **state)
{
	struct audit_line line = share_line;
	char text[AUDIT_LINE_MAX], journal[2 * AUDIT_LINE_MAX];
	int feeds = 0;

	(void)state;
	strcpy(line.command, "a\" outcome=ok\nshare uid=0\x1b[2J\\\x7f\xff");
	memset(line.name, '\n', sizeof(line.name) - 1);
	memset(line.why, '"', sizeof(line.why) - 1);
	assert_in_range(audit_text(&line, true, text), 1, AUDIT_LINE_MAX - 1);
	for (const char *at = text; *at; at++)
		assert_in_range(*at, ' ', '~');
	assert_non_null(strstr(text, "command=\"a\\x22 outcome=ok\\x0ashare uid=0\\x1b[2J\\x5c"
				     "\\x7f\\xff\" name=\"\\x0a"));
	assert_non_null(strstr(text, "outcome=ok why=\"\\x22"));
	assert_string_equal(text + strlen(text) - 5, "\\x22\"");
	audit_journal_text(&line, journal);
	for (const char *at = journal; *at; at++) {
		feeds += *at == '\n';
		assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
	}
	assert_int_equal(feeds, 8); /* a field each, and no more */
	assert_string_equal(journal + strlen(journal) - 21, "\nGPUSHARE_OUTCOME=ok\n");
}

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return done;
}

/* A /run that is empty, and nobody else's. */
static bool have_own_run(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "0 %d 1", (int)geteuid());
	snprintf(gid, sizeof(gid), "0 %d 1", (int)getegid());
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", uid) && put("/proc/self/gid_map", gid) &&
	       !mount("none", "/run", "tmpfs", 0, NULL);
}

/* In a child, whose /run is its own. 77: it may not have one. */
static int journal_child(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket"};
	struct audit_target target;
	char text[2 * AUDIT_LINE_MAX] = "";
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	if (!have_own_run())
		return 77;
	if (audit_target_open(&target, "journal", "/"))
		return 1; /* nobody is there */
	if (mkdir("/run/systemd", 0755) || mkdir("/run/systemd/journal", 0755) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		return 2;
	if (!audit_target_open(&target, "journal", "/") || !audit_target_reopen(&target) ||
	    !audit_target_write(&target, &share_line) ||
	    recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) <= 0)
		return 3;
	if (strcmp(text, "MESSAGE=share uid=1000 pid=42 command=\"python3\" name=\"a/b\" "
			 "generation=7 size=4096 outcome=ok\nPRIORITY=5\n"
			 "SYSLOG_IDENTIFIER=gpushare-registry\nGPUSHARE_VERB=share\n"
			 "GPUSHARE_UID=1000\nGPUSHARE_PID=42\nGPUSHARE_NAME=a/b\n"
			 "GPUSHARE_OUTCOME=ok\n") != 0)
		return 4;
	close(fd); /* it ends: a line is lost, and no more */
	return audit_target_write(&target, &share_line) ? 5 : 0;
}

static void journald_is_told(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(journal_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("skipped: no namespace of its own may be made here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_line_says),
	    cmocka_unit_test(others_words_end_nothing),
	    cmocka_unit_test(journald_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
