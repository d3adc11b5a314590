/* SPDX-License-Identifier: MIT */
/* The audit: which lines there are, how many, and what happens where they can't be written. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"
#include "os/clock.h"
#include "configured.h"
#include "peer.h"

#define RUSH 50

static char directory[] = "/tmp/gpushare-unit-XXXXXX";

static int audited_set_up(void **state)
{
	peer_set_up(state);
	strcpy(directory + sizeof(directory) - 7, "XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int audited_tear_down(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	peer_tear_down(state);
	return system(command);
}

/* All that was written so far, without times; the audit ends with it. */
static const char *written(void)
{
	static char text[1 << 20];
	char path[64], *to = text;
	char line[AUDIT_LINE_MAX];
	FILE *file;

	audit_close(peer_registry);
	snprintf(path, sizeof(path), "%s/a.log", directory);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		assert_int_equal(line[27], ' ');
		assert_int_equal(line[26], 'Z');
		to = stpcpy(to, line + 28);
	}
	*to = '\0';
	fclose(file);
	return text;
}

/* handle_request() with the lock, as work.c has it: the audit's thread is another one. */
static int ask(struct session *session, const request *what)
{
	int status;

	pthread_mutex_lock(&peer_registry->lock);
	status = peer_ask(session, what);
	pthread_mutex_unlock(&peer_registry->lock);
	return status;
}

static request about(pb_size_t verb, const char *name)
{
	request what = {.which_verb = verb};

	if (verb == gpushare_Request_attach_tag)
		strcpy(what.verb.attach.name, name);
	else if (verb == gpushare_Request_lookup_tag)
		strcpy(what.verb.lookup.name, name);
	else
		strcpy(what.verb.withdraw.name, name);
	return what;
}

static void a_life(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "o\"ther");
	request share = peer_share_of("w"), attach = about(gpushare_Request_attach_tag, "w"),
		unlink = about(gpushare_Request_withdraw_tag, "w"),
		nothing = about(gpushare_Request_lookup_tag, "none");
	char expected[2048];
	uint64_t generation, second;

	(void)state;
	assert_true(audit_open(peer_registry, "a.log", 1000, directory));
	assert_int_equal(ask(owner, &share), GPUSHARE_OK);
	generation = peer_answer.body.share.generation;
	assert_int_equal(ask(other, &attach), GPUSHARE_OK);
	assert_int_equal(ask(other, &share), GPUSHARE_E_EXISTS);
	assert_int_equal(ask(other, &nothing), GPUSHARE_E_NOT_FOUND); /* no refusal */
	assert_int_equal(ask(other, &unlink), GPUSHARE_OK);
	assert_int_equal(ask(owner, &share), GPUSHARE_OK);
	second = peer_answer.body.share.generation;
	pthread_mutex_lock(&peer_registry->lock);
	registry_disconnect(peer_registry, owner);
	audit_stranger(peer_registry, 4711, getpid());
	pthread_mutex_unlock(&peer_registry->lock);
	snprintf(expected, sizeof(expected),
		 "share uid=1000 pid=10 command=\"owner\" name=\"w\" generation=%llu size=100 "
		 "outcome=ok\n"
		 "attach uid=1000 pid=20 command=\"o\\x22ther\" name=\"w\" generation=%llu "
		 "size=100 outcome=ok\n"
		 "share uid=1000 pid=20 command=\"o\\x22ther\" name=\"w\" size=100 "
		 "outcome=E_EXISTS why=\"\\x22w\\x22 is taken by pid 10 (owner), uid 1000, since 0 "
		 "s; choose another name or end that process\"\n"
		 "remove uid=1000 pid=20 command=\"o\\x22ther\" name=\"w\" generation=%llu "
		 "size=100 outcome=unlinked\n"
		 "share uid=1000 pid=10 command=\"owner\" name=\"w\" generation=%llu size=100 "
		 "outcome=ok\n"
		 "remove uid=1000 pid=10 command=\"owner\" name=\"w\" generation=%llu size=100 "
		 "outcome=owner_gone\n"
		 "connect uid=4711 pid=%d command=\"unit_audit\" outcome=E_DENIED\n",
		 (unsigned long long)generation, (unsigned long long)generation,
		 (unsigned long long)generation, (unsigned long long)second,
		 (unsigned long long)second, (int)getpid());
	assert_string_equal(written(), expected);
	assert_int_equal(peer_registry->counts.audited[AUDITED_written], 7);
}

/* Who waits for what it may not see hears nothing, and the audit says so. */
static void who_waits_for_what_is_hidden(void **state)
{
	struct process process = {.pid = 20, .uid = 2000, .started = 1, .command = "spy"};
	struct session *owner = peer_new(1, 10, "owner"), *spy;
	request share = peer_share_of("w"), attach = about(gpushare_Request_attach_tag, "w");

	(void)state;
	attach.verb.attach.wait_ms = 1000;
	assert_true(audit_open(peer_registry, "a.log", 1000, directory));
	spy = registry_connect(peer_registry, 2, &process);
	spy->greeted = true;
	assert_int_equal(ask(owner, &share), GPUSHARE_OK);
	pthread_mutex_lock(&peer_registry->lock);
	assert_true(audit_wait(peer_registry, spy, &attach));
	assert_false(audit_wait(peer_registry, owner, &attach));
	audit_refused(peer_registry, &process, "descriptors", GPUSHARE_E_LIMIT);
	audit_refused(peer_registry, &process, "descriptors", GPUSHARE_E_NOT_FOUND);
	pthread_mutex_unlock(&peer_registry->lock);
	assert_string_equal(strchr(written(), '\n') + 1,
			    "attach uid=2000 pid=20 command=\"spy\" name=\"w\" outcome=E_DENIED "
			    "why=\"it waits for what is there and it may not see\"\n"
			    "descriptors uid=2000 pid=20 command=\"spy\" outcome=E_LIMIT why=\"a "
			    "limit is reached\"\n");
	assert_int_equal(peer_registry->counts.hidden, 1);
}

/* No handle, neither as bytes nor as digits. */
static void no_secret_is_in_it(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	request share = peer_share_of("w"), attach = about(gpushare_Request_attach_tag, "w");
	const char *text;

	(void)state;
	memset(share.verb.share.handle, 0xab, sizeof(share.verb.share.handle));
	assert_true(audit_open(peer_registry, "a.log", 1000, directory));
	assert_int_equal(ask(owner, &share), GPUSHARE_OK);
	assert_int_equal(ask(owner, &attach), GPUSHARE_OK);
	share.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	assert_int_equal(ask(owner, &share), GPUSHARE_E_INVALID);
	text = written();
	assert_null(strstr(text, "\xab\xab"));
	assert_null(strstr(text, "abab"));
	assert_null(strstr(text, "xab"));
}

/* One user's rush is left out, and counted; another's lines are there. */
static void a_rush_is_bounded(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other;
	struct process process = {.pid = 20, .uid = 2000, .started = 1};
	request share = peer_share_of("w"), attach = about(gpushare_Request_attach_tag, "w");
	unsigned long long left = 0;
	int attaches = 0;
	const char *at;

	(void)state;
	share.verb.share.mode = 0666;
	assert_true(audit_open(peer_registry, "a.log", RUSH, directory));
	other = registry_connect(peer_registry, 2, &process);
	other->greeted = true;
	assert_int_equal(ask(owner, &share), GPUSHARE_OK);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(ask(owner, &attach), GPUSHARE_OK);
	assert_int_equal(ask(other, &attach), GPUSHARE_OK);
	raw_sleep_ms(1500); /* the thread says it by itself */
	at = written();
	assert_non_null(strstr(at, "attach uid=2000 pid=20"));
	for (const char *line = at; (line = strstr(line, "attach uid=1000")); line++)
		attaches++;
	assert_in_range(attaches, RUSH - 1, 3 * RUSH);
	for (const char *line = at; (line = strstr(line, "left_out uid=1000 count=")); line++)
		left += strtoull(line + strlen("left_out uid=1000 count="), NULL, 10);
	assert_int_equal(left + (unsigned long long)attaches, 1000);
	assert_int_equal(peer_registry->counts.audited[AUDITED_left_out], left);
}

static void who_can_not_be_written_to(void **state)
{
	char path[64], other[64];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.log", directory);
	snprintf(other, sizeof(other), "%s/b", directory);
	assert_int_equal(symlink(other, path), 0);
	assert_false(audit_open(peer_registry, "a.log", 1, directory)); /* through no link */
	assert_int_equal(access(other, F_OK), -1);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(link(path, other), 0);
	assert_false(audit_open(peer_registry, path, 1, "/"));
	unlink(other);
	assert_int_equal(fchmod(fd, 0620), 0);
	assert_false(audit_open(peer_registry, path, 1, "/"));
	assert_int_equal(fchmod(fd, 0600), 0);
	close(fd);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(audit_open(peer_registry, path, 1, "/")); /* nobody reads it */
	assert_false(audit_open(peer_registry, directory, 1, "/"));
	assert_false(audit_open(peer_registry, "/nowhere/at/all.log", 1, "/"));
	assert_null(peer_registry->audit);
	assert_true(audit_open(peer_registry, "off", 1, "/nowhere"));
	assert_null(peer_registry->audit);
}

/* A disk that is full: nobody fails for that, what is lost is counted, and said when it goes on. */
static void a_full_disk(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	request share = peer_share_of("w"), attach = about(gpushare_Request_attach_tag, "w");
	char path[64];
	const char *text;
	uint64_t lost;
	struct stat is;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.log", directory);
	assert_true(audit_open(peer_registry, "/dev/full", 1000, directory));
	assert_int_equal(ask(owner, &share), GPUSHARE_OK);
	for (int i = 0; i < 10; i++)
		assert_int_equal(ask(owner, &attach), GPUSHARE_OK);
	do {
		raw_sleep_ms(5);
		pthread_mutex_lock(&peer_registry->lock);
		lost = peer_registry->counts.audited[AUDITED_lost];
		pthread_mutex_unlock(&peer_registry->lock);
	} while (lost < 11);
	strcpy(peer_registry->audit->target.path, path); /* there is room again */
	audit_reopen(peer_registry);
	while (stat(path, &is))
		raw_sleep_ms(5);
	assert_int_equal(is.st_mode & 07777, 0600);
	assert_int_equal(ask(owner, &attach), GPUSHARE_OK);
	text = written();
	assert_memory_equal(text, "lost uid=1000 count=11\nattach ", 30);
}

static int daemon_set_up(void **state)
{
	(void)state;
	configured_start("audit = audit.log\n");
	return 0;
}

/* The daemon itself: a line a request, a file that is moved away, and what can't be understood. */
static void the_daemon_writes_it(void **state)
{
	int fd = raw_connect(&raw_here);
	char from[128], to[128], *text;

	(void)state;
	assert_int_equal(raw_say(fd, raw_share("a")), GPUSHARE_OK);
	configured_await("audit.log", "name=\"a\"");
	snprintf(from, sizeof(from), "%s/audit.log", raw_here.directory);
	snprintf(to, sizeof(to), "%s/audit.log.1", raw_here.directory);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(kill(raw_here.pid, SIGHUP), 0);
	while (access(from, F_OK) != 0)
		raw_sleep_ms(5);
	assert_int_equal(raw_say(fd, raw_share("b")), GPUSHARE_OK);
	assert_true(raw_send_bytes(fd, 5, "\x7a\x03xyz", 5));
	assert_true(raw_receive(fd, 5, &raw_answer, RAW_TIMEOUT_MS));
	configured_await("audit.log", "name=\"b\"");
	configured_await("audit.log", "request uid=");
	close(fd);
	configured_await("audit.log", "outcome=owner_gone");
	text = configured_file("audit.log.1");
	assert_null(strstr(text, "name=\"b\""));
	free(text);
	fd = raw_connect(&raw_here);
	assert_true(configured_audited(fd, "written") >= 4);
	assert_int_equal(configured_audited(fd, "lost"), 0);
	close(fd);
}

static void one_that_can_not_begin_says_so(void **state)
{
	char path[] = "/tmp/gpushare-unit-XXXXXX", file[64], words[1024] = "", command[64];
	const char *const arguments[] = {"--dir", path, "--config", file, NULL};
	FILE *config;

	(void)state;
	assert_non_null(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/c", path);
	config = fopen(file, "w");
	fputs("audit = /nowhere/at/all.log\n", config);
	fclose(config);
	assert_int_equal(raw_daemon_run(arguments, words, sizeof(words)), 1);
	assert_non_null(
	    strstr(words, "can't write the audit to /nowhere/at/all.log: No such file"));
	snprintf(command, sizeof(command), "rm -rf %s", path);
	assert_int_equal(system(command), 0);
}

int main(void)
{
#define AUDITED_TEST(name) cmocka_unit_test_setup_teardown(name, audited_set_up, audited_tear_down)
	const struct CMUnitTest tests[] = {
	    AUDITED_TEST(a_life),
	    AUDITED_TEST(who_waits_for_what_is_hidden),
	    AUDITED_TEST(no_secret_is_in_it),
	    AUDITED_TEST(a_rush_is_bounded),
	    AUDITED_TEST(who_can_not_be_written_to),
	    AUDITED_TEST(a_full_disk),
	    cmocka_unit_test_setup_teardown(the_daemon_writes_it, daemon_set_up, raw_tear_down),
	    cmocka_unit_test(one_that_can_not_begin_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
