// SPDX-License-Identifier: MIT
/* A library whose destructor calls the function that ending_call() was given. */
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
