// SPDX-License-Identifier: MIT
/* Linked statically: no dynamic loader runs, so nothing is preloaded. */
#include "script.h"

int main(int argc, char **argv)
{
	static const struct script_verb none[] = {{NULL, 0, 0, NULL}};

	printf("static\n");
	return script_run(none, argv + 1);
}
