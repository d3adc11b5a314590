/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_H
#define GPUSHARE_TESTS_UNIT_H
/* cmocka, with the headers that it wants before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A program of tests: UNIT_MAIN(UNIT(one), UNIT(other)); the second, between what goes round all. */
#define UNIT(name) cmocka_unit_test(name)
#define UNIT_MAIN(...) UNIT_MAIN_BETWEEN(NULL, NULL, __VA_ARGS__)
#define UNIT_MAIN_BETWEEN(set_up, tear_down, ...) \
	int main(void) \
	{ \
		const struct CMUnitTest tests[] = {__VA_ARGS__}; \
		return cmocka_run_group_tests(tests, set_up, tear_down); \
	}

#endif
