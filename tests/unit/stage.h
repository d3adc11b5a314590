/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_STAGE_H
#define GPUSHARE_TESTS_STAGE_H
/*
 * A stage for the API's tests. Each test has its own registry directory. Its one or two parts are
 * functions that run in child processes, forked before any CUDA call. A part that fails prints
 * where, and its test fails. The driver is always the simulated one, because faults and devices are
 * set for each part.
 */
#include <stdbool.h>

#include "cuda/driver.h"
#include "gpushare.h"

/* Call it first in main(): it may start the program again with the simulated driver. */
void stage_init(char **argv);
/* Is this qemu-user? It refuses autostart's clone(), so there stage_open() starts the registry. */
bool stage_is_emulated(void);
/* Under qemu-user, skip the test, because it needs what qemu-user lacks: */
void stage_needs_autostart(void); /* a registry that the client starts */
void stage_needs_own_proc(void);  /* the kernel's own /proc/self */
/* cmocka set-up and tear-down. */
int stage_open(void **state);
int stage_close(void **state);

/* Run one or two parts to their ends; `second` may be NULL. If a part fails, fail the test. */
void stage_play(void (*first)(void), void (*second)(void));

/*
 * Rows of a test program's table. SCENE(first), SCENE(first, second) and SCENE(first, second or
 * NULL, before): a test of one or two parts with the name of its first part. before() runs in the
 * test's own process, before the parts (stage_needs_...()). STAGED(test): a test that calls
 * stage_play() itself.
 */
typedef void stage_part(void);
#define SCENE(part, ...) \
	{ \
#part, stage_test, stage_open, stage_close, (stage_part *[3]) \
		{ \
			part, ##__VA_ARGS__ \
		} \
	}
#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
#define STAGE_MAIN(...) \
	int main(int argc, char **argv) \
	{ \
		const struct CMUnitTest tests[] = {__VA_ARGS__}; \
		stage_init(argv); \
		return cmocka_run_group_tests(tests, NULL, NULL); \
	}
void stage_test(void **state);

/* Between two parts: say() lets the other part's hear() return. If the other part has ended, both
 * fail the part. */
void say(void);
void hear(void);
/* The pid of the registry that listens in the test's directory; 0: none. */
int stage_registry(void);
/* Kill that registry and wait until nobody listens on its socket. */
void stage_end_registry(void);

/* In a part: print what is wrong and end the part. */
void part_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
void part_status(const char *file, int line, const char *call, int status, int wanted,
		 const char *words);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			part_fail(__FILE__, __LINE__, "%s", #condition); \
	} while (0)
#define OK(call) part_status(__FILE__, __LINE__, #call, call, GPUSHARE_OK, NULL)
/* The call must return that status, and gpushare_explain() must contain `words`. */
#define FAILS(status, words, call) \
	part_status(__FILE__, __LINE__, #call, call, GPUSHARE_##status, words)

/* The simulated driver. The first call makes device 0's primary context current. */
const struct driver *part_driver(void);
struct gpushare_session *part_session(void);
/* `size` bytes that depend on their index and `seed`; the caller frees them. */
unsigned char *part_pattern(size_t size, unsigned int seed);

#endif
