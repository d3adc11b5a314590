/* SPDX-License-Identifier: MIT */
/* fds.sock while a child still has descriptors that the server has closed, as the keeper has for
 * a moment. */
#include "unit.h"

#include "raw_fds.h"
#include "server/fds.h"

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

static void what_a_child_holds_open_is_forgotten(void **state)
{
	struct registry *registry = registry_new();
	char path[GPUSHARE_PATH_MAX];
	int fds[20];
	pid_t pid;

	strcpy(raw_here.directory, "/tmp/gpushare-unit-XXXXXX");
	assert_non_null(mkdtemp(raw_here.directory));
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

UNIT_MAIN(UNIT(what_a_child_holds_open_is_forgotten))
