/* SPDX-License-Identifier: MIT */
/* Reaching a registry: none is there, none answers, or the peer is not trusted. Also, the client
 * stays off the program's descriptors 0 to 2. */
#include "unit.h"

#include "lone.h"
#include "base/monotonic.h"

static void reaches_nobody(int status, const char *words)
{
	int fd;

	assert_int_equal(client_reach(&lone_client, monotonic_ms() + SHORTLY_MS, &fd), status);
	lone_why_has(words);
}

static void nobody_there(void **state)
{
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "autostart is off; start gpushare-registry --dir");
	lone_client.trust.is_system = true;
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "its administrator starts it");
	lone_client.connections = 1; /* connected before: wait for a restart */
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "took no connection within 30 ms");
	lone_client.giving_back = true;
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "its administrator starts it");
	lone_client.trust.is_system = lone_client.giving_back = false;
	lone_client.autostart = true;
	setenv("GPUSHARE_REGISTRY", "/nonexistent/registry", 1);
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "was not found: not in $GPUSHARE_REGISTRY");
	unsetenv("GPUSHARE_REGISTRY");
	/* No registry is started only to give something back: without saved records it wouldn't
	 * know it. */
	lone_client.giving_back = true;
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "autostart is off");
	lone_client.directory[0] = '\0';
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "too long a path");
	memset(lone_client.directory, 'x', sizeof(lone_client.directory) - 1);
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "too long a path");
	snprintf(lone_client.directory, sizeof(lone_client.directory), "/dev/null/x");
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "can't be connected to: Not a directory");
}

/* The listener's queue is full, so the client retries until its timeout. */
static void nobody_answers(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting[4];

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/registry.sock", lone_folder);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 0), 0);
	for (int i = 0; i < 4; i++)
		waiting[i] = client_dial(at.sun_path, SOCK_STREAM);
	assert_int_equal(waiting[3], -EAGAIN);
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "took no connection within 30 ms");
	lone_client.autostart = true; /* a socket exists, so no other is started */
	setenv("GPUSHARE_REGISTRY", "/nonexistent/registry", 1);
	reaches_nobody(GPUSHARE_E_NO_REGISTRY, "took no connection within 30 ms");
	unsetenv("GPUSHARE_REGISTRY");
	for (int i = 0; i < 4; i++)
		if (waiting[i] >= 0)
			close(waiting[i]);
	close(listener);
}

/* Descriptors 0, 1 and 2 stay the program's, even if it has closed them. */
static void dials_past_the_standard_ones(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), spare, fd;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", lone_folder);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 4), 0);
	spare = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	close(STDIN_FILENO);
	fd = client_dial(at.sun_path, SOCK_STREAM);
	assert_true(fd > STDERR_FILENO);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_int_equal(client_dial(lone_folder, SOCK_STREAM), -ECONNREFUSED);
	assert_int_equal(client_dial(at.sun_path, SOCK_SEQPACKET), -EPROTOTYPE);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	if (spare >= 0) {
		dup2(spare, STDIN_FILENO);
		close(spare);
	}
	close(listener);
}

static void of_another_user(void **state)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC), pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	lone_client.trust.uid = getuid();
	assert_int_equal(client_check_peer(&lone_client, pair[0]), GPUSHARE_OK);
	assert_int_equal(client_check_peer(&lone_client, none), GPUSHARE_E_DENIED);
	lone_why_has("runs as another user than the directory's");
	close(none);
	close(pair[0]);
	close(pair[1]);
}

static void timeouts_of_the_environment(void **state)
{
	static const char *const bad[] = {
	    "", "abc", "-5", "+5", "0", "12x", " 12", "3600001", "99999999999999999999"};

	unsetenv("GPUSHARE_TIMEOUT_MS");
	assert_int_equal(client_default_timeout_ms(), GPUSHARE_TIMEOUT_MS);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		setenv("GPUSHARE_TIMEOUT_MS", bad[i], 1);
		assert_int_equal(client_default_timeout_ms(), GPUSHARE_TIMEOUT_MS);
	}
	setenv("GPUSHARE_TIMEOUT_MS", "1", 1);
	assert_int_equal(client_default_timeout_ms(), 1);
	setenv("GPUSHARE_TIMEOUT_MS", "3600000", 1);
	assert_int_equal(client_default_timeout_ms(), 3600000);
	unsetenv("GPUSHARE_TIMEOUT_MS");
}

#define on_the_way(test) cmocka_unit_test_setup_teardown(test, lone_set_up, lone_tear_down)

UNIT_MAIN(on_the_way(nobody_there), on_the_way(nobody_answers),
	  on_the_way(dials_past_the_standard_ones), on_the_way(of_another_user),
	  on_the_way(timeouts_of_the_environment))
