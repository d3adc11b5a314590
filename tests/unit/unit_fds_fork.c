/* SPDX-License-Identifier: MIT */
/* fds.sock while a child, as the keeper is for a moment, still has what the server has closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fds_server.h"
#include "raw_fds.h"

static void what_a_child_holds_open_is_forgotten(void **state)
{
	struct registry *registry = registry_new(NULL);
	char path[GPUSHARE_PATH_MAX];
	struct fds_server server;
	int fds[20];
	pid_t pid;

	(void)state;
	strcpy(raw_here.directory, "/tmp/gpushare-unit-XXXXXX");
	assert_non_null(mkdtemp(raw_here.directory));
	assert_int_equal(directory_fds_socket(raw_here.directory, path), GPUSHARE_OK);
	assert_true(fds_server_open(&server, registry, path));
	for (int i = 0; i < 20; i++) {
		fds[i] = raw_fds_dial();
		assert_int_equal(raw_fds_ask(fds[i], raw_fds_message(FDS_WITHDRAW, 1), NULL, 0),
				 GPUSHARE_E_NOT_FOUND);
	}
	pid = raw_fork();
	if (!pid) {
		fds_close(fds, 20); /* the other ends */
		for (;;)
			pause();
	}
	for (int i = 0; i < 20; i++) { /* it closes them for their nonsense */
		assert_int_equal(raw_fds_ask(fds[i], raw_fds_message(FDS_NO_VERB, 1), NULL, 0),
				 GPUSHARE_E_PROTOCOL);
		close(fds[i]);
	}
	raw_sleep_ms(100);
	for (int i = 0; i < 20; i++)
		assert_int_equal(raw_fds_deposit(fds[i] = raw_fds_dial(), 3), GPUSHARE_OK);
	fds_close(fds, 20);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fds_server_close(&server);
	registry_free(registry);
	unlink(path);
	rmdir(raw_here.directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_child_holds_open_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
