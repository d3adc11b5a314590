/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_H
#define GPUSHARE_TESTS_UNIT_H
/* The headers of the C library that tests use, and cmocka.h, which needs some of them first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* main() of a test program: UNIT_MAIN(UNIT(one), UNIT(other)). UNIT_MAIN_BETWEEN() also takes the
 * set-up and tear-down of the whole group. */
#define UNIT(name) cmocka_unit_test(name)
#define UNIT_MAIN(...) UNIT_MAIN_BETWEEN(NULL, NULL, __VA_ARGS__)
#define UNIT_MAIN_BETWEEN(set_up, tear_down, ...) \
	int main(void) \
	{ \
		const struct CMUnitTest tests[] = {__VA_ARGS__}; \
		return cmocka_run_group_tests(tests, set_up, tear_down); \
	}

#endif
