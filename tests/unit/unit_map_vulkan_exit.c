/* SPDX-License-Identifier: MIT */
/* What may keep exit from being guarded; and that exit handlers run in the order which that leans on. */
#include "unit.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork_check.h"
#include "core/map/map_vulkan.h"
#include "stage.h"

static struct {
	bool unknown, no_library, no_reason, no_memory;
	const char *name; /* "" is the program */
	int pinned;
} played;

static int played_dladdr1(const void *address, Dl_info *info, void **out_map, int flags)
{
	static struct link_map map;

	assert_non_null(address);
	assert_int_equal(flags, RTLD_DL_LINKMAP);
	map.l_name = (char *)(uintptr_t)played.name;
	*out_map = &map;
	return !played.unknown;
}

static void *played_dlopen(const char *name, int flags)
{
	assert_string_equal(name, played.name);
	assert_int_equal(flags & (RTLD_NOLOAD | RTLD_NODELETE), RTLD_NOLOAD | RTLD_NODELETE);
	played.pinned += !played.no_library;
	return played.no_library ? NULL : &played;
}

static char *played_dlerror(void)
{
	return played.no_reason ? NULL : (char *)(uintptr_t) "it is not there";
}

static int played_on_exit(void (*call)(int, void *), void *argument)
{
	return played.no_memory ? -1 : on_exit(call, argument);
}

#define dladdr1 played_dladdr1
#define dlopen played_dlopen
#define dlerror played_dlerror
#define on_exit played_on_exit
#include "base/stay_loaded.c"
#include "core/map/map_vulkan_exit.c"

static int set_up(void **state)
{
	memset(&played, 0, sizeof(played));
	atomic_store(&stays, false);
	played.name = "/lib/some.so";
	played.no_memory = true; /* nothing is left for the test's own exit */
	return 0;
}

static void refused(int status, const char *words)
{
	struct map_reason why = {""};

	assert_int_equal(vulkan_guard_exit(&why), status);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" does not hold \"%s\"", why.text, words);
}

static void what_stays_loaded(void **state)
{
	played.no_library = true;
	refused(GPUSHARE_E_NOT_SUPPORTED, "gpushare's library can't be kept loaded");
	refused(GPUSHARE_E_NOT_SUPPORTED, "(it is not there)");
	played.no_reason = true;
	refused(GPUSHARE_E_NOT_SUPPORTED, "(no reason given)");
	played.no_library = false;
	refused(GPUSHARE_E_NO_MEMORY, "exit handler");
	assert_int_equal(played.pinned, 1);
	atomic_store(&stays, false);
	played.name = "";
	refused(GPUSHARE_E_NO_MEMORY, "exit handler");
	atomic_store(&stays, false);
	played.unknown = true;
	refused(GPUSHARE_E_NO_MEMORY, "exit handler");
	assert_int_equal(played.pinned, 1);
}

static int pipe_out;

static void tell(const char *word)
{
	if (write(pipe_out, word, strlen(word)) < 0)
		abort();
}

static void early(void)
{
	tell("early ");
}

static void late(void)
{
	tell("late ");
}

/* A child of a child of it, and the process itself, all told one after another. */
static void end_all(void)
{
	struct map_reason why;
	int whose, status;

	__fpurge(stdout);
	atexit(early);
	played.no_memory = false;
	if (!fork_check_claim(&whose) || vulkan_guard_exit(&why) || vulkan_guard_exit(&why))
		abort();
	atexit(late);
	if (!fork()) {
		if (!fork())
			exit(3);
		wait(&status);
		tell(status == 3 << 8 ? "3 " : "? ");
		exit(4);
	}
	wait(&status);
	tell(status == 4 << 8 ? "4 " : "? ");
	exit(5);
}

static void handlers_run_the_last_first(void **state)
{
	char told[64] = "";
	int ends[2], status = -1;
	size_t size = 0;
	ssize_t more;
	pid_t child;

	stage_needs_wipe_on_fork();
	assert_int_equal(pipe(ends), 0);
	pipe_out = ends[1];
	child = fork();
	if (!child)
		end_all();
	close(ends[1]);
	while ((more = read(ends[0], told + size, sizeof(told) - 1 - size)) > 0)
		size += (size_t)more;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 5 << 8);
	assert_string_equal(told, "late 3 late 4 late early ");
}

UNIT_MAIN(cmocka_unit_test_setup(what_stays_loaded, set_up),
	  cmocka_unit_test_setup(handlers_run_the_last_first, set_up))
