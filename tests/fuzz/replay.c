/* SPDX-License-Identifier: MIT */
/*
 * Not a fuzzer: one test, for any compiler, that replays inputs which once found a fault or which
 * reach far. The program is called unit_fuzz_<fuzzer>; its inputs are in
 * tests/fuzz/corpus/<fuzzer>.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs the four headers above */
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>

#include "fuzz.h"

#define INPUT_MAX (1u << 20)

static char folder[256];

static bool try_file(const char *name)
{
	static uint8_t bytes[INPUT_MAX];
	char path[600];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	assert_non_null(file);
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	/* A copy of the exact size, so that an instrumented build detects a read past the end. */
	uint8_t *exact = malloc(size ? size : 1);

	assert_non_null(exact);
	memcpy(exact, bytes, size);
	fprintf(stderr, "%s\n", path); /* if the test aborts, the last path is the input */
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return true;
}

static void what_was_found_before_holds(void **state)
{
	DIR *corpus = opendir(folder);
	const struct dirent *each;
	unsigned int count = 0;

	if (!corpus)
		fail_msg("%s: %s; this is run from the source's top folder", folder,
			 strerror(errno));
	LLVMFuzzerTestOneInput(NULL, 0);
	while ((each = readdir(corpus)))
		count += *each->d_name != '.' && try_file(each->d_name);
	closedir(corpus);
	assert_true(count > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_found_before_holds)};
	const char *fuzzer = strstr(argv[0], "unit_fuzz_");

	if (!fuzzer)
		return 2;
	snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", fuzzer + strlen("unit_fuzz_"));
	return cmocka_run_group_tests_name("fuzz", tests, NULL, NULL);
}
