// SPDX-License-Identifier: MIT
/* Linked statically: no dynamic loader runs, so nothing is preloaded. */
#include "script.h"

int main(int argc, char **argv)
{
	printf("static\n");
	return script_run(argv + 1);
}
