// SPDX-License-Identifier: MIT
/* An OpenMP tool that looks up the next tool, in its constructor and when it is called. */
#include <dlfcn.h>
#include <stdio.h>

int ompt_start_tool(void);

static void look(const char *when)
{
	int (*next)(void) = dlsym(RTLD_NEXT, "ompt_start_tool");

	printf("tool: %s: %s\n", when,
	       !next			 ? "nobody behind"
	       : next == ompt_start_tool ? "found itself"
					 : "another behind");
}

__attribute__((constructor)) static void start(void)
{
	look("constructor");
}

int ompt_start_tool(void)
{
	look("called");
	return 5;
}
