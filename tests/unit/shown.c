/* SPDX-License-Identifier: MIT */
#include "shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

char shown_proc[64];

static char *path_of(const char *format, int number)
{
	static char path[128];
	int length = snprintf(path, sizeof(path), "%s/", shown_proc);

	snprintf(path + length, sizeof(path) - (size_t)length, format, number);
	return path;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

uint64_t shown_namespace(int which)
{
	struct stat is;

	if (stat(path_of("namespace.%d", which), &is)) {
		write_file(path_of("namespace.%d", which), "");
		assert_int_equal(stat(path_of("namespace.%d", which), &is), 0);
	}
	return is.st_ino;
}

void shown_process(pid_t pid, const char *numbers, int which)
{
	char text[128], from[128];

	mkdir(path_of("%d", pid), 0700);
	mkdir(path_of("%d/ns", pid), 0700);
	snprintf(text, sizeof(text), "Name:\tx\nUid:\t0\t0\t0\t0\n%s%s\nNSpid:\t9\n",
		 numbers ? "NStgid:\t" : "", numbers ? numbers : "");
	write_file(path_of("%d/status", pid), text);
	unlink(path_of("%d/ns/pid", pid));
	if (which < 0)
		return;
	shown_namespace(which);
	strcpy(from, path_of("namespace.%d", which));
	assert_int_equal(link(from, path_of("%d/ns/pid", pid)), 0);
}

void shown_mounted(const char *options)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "23 28 0:21 / /sys rw,nosuid - sysfs sysfs rw\n"
		 "24 28 0:22 / /proc rw,nosuid - proc proc %s\n",
		 options);
	write_file(path_of("%d/mountinfo", getpid()), text);
}

void shown_set_up(void)
{
	char self[16];

	strcpy(shown_proc, "/tmp/gpushare-unit-proc-XXXXXX");
	assert_non_null(mkdtemp(shown_proc));
	snprintf(self, sizeof(self), "%d", getpid());
	assert_int_equal(symlink(self, path_of("self", 0)), 0);
	shown_process(getpid(), self, 0);
	shown_mounted("rw");
}

void shown_tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", shown_proc);
	assert_int_equal(system(command), 0);
}
