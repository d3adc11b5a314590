/* SPDX-License-Identifier: MIT */
/* Hide each driver call in turn: the driver's table opens without it, or opening fails and names
 * it. Linked with --wrap=dlvsym, so the look-ups pass through here. */
#include "unit.h"

#include <dlfcn.h>

#include "cuda/driver.h"

typedef void *(*dlsym_call)(void *handle, const char *symbol);

static const char *hidden; /* the symbol that is not found; "*": all */
static bool no_loader;
static dlsym_call real_dlsym;

void *__real_dlvsym(void *handle, const char *symbol, const char *version);
void *__wrap_dlvsym(void *handle, const char *symbol, const char *version);

static void *find(void *handle, const char *symbol)
{
	if (hidden && (*hidden == '*' || !strcmp(hidden, symbol)))
		return NULL;
	return real_dlsym(handle, symbol);
}

void *__wrap_dlvsym(void *handle, const char *symbol, const char *version)
{
	void *found = no_loader ? NULL : __real_dlvsym(handle, symbol, version);

	if (!found || strcmp(symbol, "dlsym") != 0)
		return found;
	real_dlsym = (dlsym_call)found;
	return (void *)find;
}

/* Returns 0: opened; 1: refused, naming `name`; 2: refused without naming it. A process opens
 * the driver once, so this uses a child. */
static int open_in_child(const char *name)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		char why[256] = "", said[64];

		snprintf(said, sizeof(said), "has no %s;", name);
		if (driver_open(why, sizeof(why)))
			_exit(0);
		_exit(strstr(why, said) ? 1 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void needs_driver(void)
{
	if (open_in_child("") == 0)
		return;
	printf("skipped: no driver to take calls from\n");
	skip();
}

static void a_call_that_lacks_is_named_or_done_without(void **state)
{
	static const char *const names[] = {
#define F(since, version, name, params) #name,
	    CUDA_ABI_CALLS(F)
#undef F
	};
	int needed = 0, outcome;

	needs_driver();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		hidden = names[i];
		outcome = open_in_child(names[i]);
		if (outcome == 2)
			fail_msg("without %s it says something else", names[i]);
		needed += outcome;
	}
	hidden = NULL;
	assert_int_equal(needed, 60);
}

static void of_many_the_first_is_named(void **state)
{
	needs_driver();
	hidden = "*";
	assert_int_equal(open_in_child("cuInit"), 1);
	hidden = NULL;
}

/* A statically linked program has no dlsym(). */
static void without_a_loader_there_is_nothing(void **state)
{
	static const struct driver none;
	struct driver table;
	int status;
	pid_t pid;

	memset(&table, 0xff, sizeof(table));
	no_loader = true;
	pid = fork();
	if (!pid) {
		driver_fill(&table, NULL);
		_exit(memcmp(&table, &none, sizeof(table)) ? 1 : 0);
	}
	no_loader = false;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static cu_result error_name_fails(cu_result result, const char **out_text)
{
	*out_text = "wrong";
	return CU_INVALID_VALUE;
}

static cu_result error_name_is_none(cu_result result, const char **out_text)
{
	*out_text = NULL;
	return CU_OK;
}

static void results_have_names_without_a_driver(void **state)
{
	struct driver driver = {.cuGetErrorName = error_name_fails};

#define V(ours, theirs, value) assert_string_equal(driver_error_name(NULL, value), #theirs);
	CUDA_ABI_RESULTS(V)
#undef V
	assert_string_equal(driver_error_name(NULL, 123456), "an unknown CUDA error");
	assert_string_equal(driver_error_name(&driver, 123456), "an unknown CUDA error");
	driver.cuGetErrorName = error_name_is_none;
	assert_string_equal(driver_error_name(&driver, 123456), "an unknown CUDA error");
	driver.cuGetErrorName = NULL;
	assert_string_equal(driver_error_name(&driver, 123456), "an unknown CUDA error");
}

UNIT_MAIN(UNIT(a_call_that_lacks_is_named_or_done_without), UNIT(of_many_the_first_is_named),
	  UNIT(without_a_loader_there_is_nothing), UNIT(results_have_names_without_a_driver))
