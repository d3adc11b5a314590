// SPDX-License-Identifier: MIT
/*
 * Runs a program as some tools and container inits do: whatever it leaves behind becomes a child of
 * this one, which waits for all of them. Prints how many there were.
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
