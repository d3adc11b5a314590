// SPDX-License-Identifier: MIT
/*
 * Runs a program as some tools and container inits do: processes that it leaves behind become
 * children of this process, which waits for all of them. Prints how many children ended.
 */
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int ended = 0;
	pid_t child;

	if (argc < 2 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return 99;
	child = fork();
	if (child == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	while (child > 0 && wait(NULL) > 0)
		ended++;
	printf("ended: %d\n", ended);
	return 0;
}
