// SPDX-License-Identifier: MIT
/* A library with a static destructor that still has something to do. */
#include <stddef.h>

void ending_call(void (*call)(void));

static void (*at_end)(void);

void ending_call(void (*call)(void))
{
	at_end = call;
}

__attribute__((destructor)) static void end(void)
{
	if (at_end)
		at_end();
}
