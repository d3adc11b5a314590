/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_STAGE_H
#define GPUSHARE_TESTS_STAGE_H
/*
 * A stage for the API's tests: each test gets a registry directory of its own, and its parts are
 * played by child processes that are forked before any CUDA call. A part that fails says where,
 * and the test with it. Always the simulated driver: faults and devices are set for a part.
 */
#include <stdbool.h>

#include "cuda/driver.h"
#include "gpushare.h"

/* Once, first thing in main(): may start the program again with the simulated driver. */
void stage_init(char **argv);
/* Under qemu-user, which refuses autostart's clone(): stage_open() starts the registry. */
bool stage_is_emulated(void);
/* A test that needs either is skipped there. */
void stage_needs_autostart(void);
void stage_needs_own_proc(void);     /* whose /proc/self is the kernel's */
void stage_needs_wipe_on_fork(void); /* as whom a child is noticed by */
/* One that runs already: gcc 12's thread sanitizer loses sight of a thread that starts it. */
void stage_needs_registry(void);
/* For main() to return: this program has nothing to run here. */
int stage_skip_all(const char *why);
int stage_skip_scripted(void); /* that one needs a scripted registry in the place of the stage's */
/* cmocka set-up and tear-down. */
int stage_open(void **state);
int stage_close(void **state);

/* Run one or two parts to their ends; `second` may be NULL. Fails the test if a part fails. */
void stage_play(void (*first)(void), void (*second)(void));

/*
 * The rows of a test program's table. SCENE(part), SCENE(first, second) and SCENE(first, second or NULL, before):
 * a test of the name of its first part; before() is called in the test's own process (stage_needs_...()).
 * STAGED(test): a test that calls stage_play() itself. SCRIPTED: it needs a scripted registry.
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
#define STAGE_MAIN(...) STAGE_MAIN_UNLESS(false, __VA_ARGS__)
#define STAGE_MAIN_SCRIPTED(...) STAGE_MAIN_UNLESS(stage_is_emulated(), __VA_ARGS__)
#define STAGE_MAIN_UNLESS(skipped, ...) \
	int main(int argc, char **argv) \
	{ \
		const struct CMUnitTest tests[] = {__VA_ARGS__}; \
		stage_init(argv); \
		if (skipped) \
			return stage_skip_scripted(); \
		return cmocka_run_group_tests(tests, NULL, NULL); \
	}
void stage_test(void **state);

/* Between two parts: say() lets the other's hear() return. A part that ends is heard as a failure.
 */
void say(void);
void hear(void);
/* The pid of the registry that listens now; 0: none. */
int stage_registry(void);
/* End it and wait until its socket answers no more. */
void stage_end_registry(void);

/* In parts: end with what is wrong. */
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
/* The status, and words that gpushare_explain() must hold. */
#define FAILS(status, words, call) \
	part_status(__FILE__, __LINE__, #call, call, GPUSHARE_##status, words)

/* The simulated driver as the program itself would call it, device 0's primary context current. */
const struct driver *part_driver(void);
struct gpushare_session *part_session(void);
/* `size` bytes, each what its place and `seed` make it. */
unsigned char *part_pattern(size_t size, unsigned int seed);
/* Does the buffer hold that from `offset` on? */
void part_holds(struct gpushare_buffer *buffer, size_t offset, size_t size, unsigned int seed);

#endif
