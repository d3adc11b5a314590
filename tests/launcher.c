/* SPDX-License-Identifier: MIT */
/*
 * Stand-in for a program of another architecture: BUILD/emulated/X runs BUILD/X under the emulator.
 * This machine's loader can't load libraries of that architecture. So the launcher is static, and
 * it passes LD_PRELOAD to the program by the emulator's option -E. The launcher starts the emulator
 * through a link with the program's name, so that /proc shows that name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "/emulated/"

int main(int argc, char **argv)
{
	const char *preload = getenv("LD_PRELOAD");
	char self[4096], program[sizeof(self)], emulator[sizeof(self) + 64], set[32768];
	char *command[argc + 6], *folder = NULL;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int count = 0;

	self[length < 0 ? 0 : length] = '\0';
	for (char *at = strstr(self, FOLDER); at; at = strstr(at + 1, FOLDER))
		folder = at;
	if (!folder || argc < 1) {
		fprintf(stderr, "%s: no program of another machine has this name\n", self);
		return 127;
	}
	snprintf(program, sizeof(program), "%.*s/%s", (int)(folder - self), self,
		 folder + strlen(FOLDER));
	snprintf(emulator, sizeof(emulator), "%.*s" FOLDER "as/%s", (int)(folder - self), self,
		 strrchr(self, '/') + 1);
	command[count++] = emulator;
	if (preload) {
		if (snprintf(set, sizeof(set), "LD_PRELOAD=%s", preload) >= (int)sizeof(set))
			return 126;
		unsetenv("LD_PRELOAD");
		command[count++] = (char *)"-E";
		command[count++] = set;
	}
	command[count++] = (char *)"-0";
	command[count++] = argv[0];
	command[count++] = program;
	memcpy(command + count, argv + 1, (size_t)argc * sizeof(*argv));
	execv(emulator, command);
	fprintf(stderr, "%s: can't run %s: %m\n", program, emulator);
	return 127;
}
