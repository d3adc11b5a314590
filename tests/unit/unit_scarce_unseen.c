/* SPDX-License-Identifier: MIT */
/* Each call fails in turn while who lives in another namespace is looked for: nobody is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "descriptors.h"
#include "scarce.h"
#include "shown.h"
#include "successor.h"
#include "unseen.h"

static void who_lives_is_not_taken_for_gone(void **state)
{
	pid_t child = successor_process();
	char numbers[32];
	struct process is;
	int before = descriptors_open();

	(void)state;
	shown_set_up();
	snprintf(numbers, sizeof(numbers), "%d\t7", child);
	shown_process(child, numbers, 1);
	snprintf(numbers, sizeof(numbers), "4194000\t8");
	shown_process(4194000, numbers, 1);
	process_read(child, getuid(), &is);
	SCARCE_EACH(nth)
	{
		struct process process = {.uid = getuid()};
		struct unseen *unseen;

		process_says(&process, shown_namespace(1), 7, is.started);
		scarce_begin(nth);
		unseen = unseen_open(shown_proc, 0);
		unseen_look(unseen, &process, is.stack);
		unseen_close(unseen);
		if (!scarce_end())
			assert_int_equal(process.pid, child);
		assert_false(process.gone);
		assert_true(!process.pid || process.pid == child);
		assert_int_equal(descriptors_open(), before);
	}
	shown_tear_down();
	successor_end(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_lives_is_not_taken_for_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
