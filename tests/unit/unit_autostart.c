// SPDX-License-Identifier: MIT
/* Which program autostart runs as the registry, and how. A stand-in program records its
 * arguments, environment and descriptors. */
#include "unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "client/client.h"

#define PATIENCE_MS 20000

static char directory[64], why[512];

static const char *inside(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	int fd = open(inside(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

/* Write the program FOLDER/gpushare-registry. */
static void put_program(const char *folder, const char *text, mode_t mode)
{
	char name[64];

	assert_int_equal(mkdir(inside(folder), 0755), 0);
	snprintf(name, sizeof(name), "%s/gpushare-registry", folder);
	write_file(name, text, mode);
}

static void put_witness(void)
{
	char text[1024];

	snprintf(
	    text, sizeof(text),
	    "#!/bin/sh\n"
	    "{ echo \"$*\"; pwd; env; for fd in /proc/$$/fd/*; do echo \"fd ${fd##*/}\"; done\n"
	    "while read -r line; do case $line in SigBlk:*|SigIgn:*) echo \"$line\" ;; esac; done\n"
	    "} </proc/$$/status >%s/said.new\n" /* builtins only: a waiting shell blocks signals */
	    "mv %s/said.new %s/said\n",
	    directory, directory, directory);
	put_program("good", text, 0755);
}

static char *said(void)
{
	static char text[65536];
	const struct timespec nap = {.tv_nsec = 5000000};
	ssize_t length;
	int fd = -1;

	for (int ms = 0; (fd = open(inside("said"), O_RDONLY | O_CLOEXEC)) < 0; ms += 5) {
		assert_in_range(ms, 0, PATIENCE_MS);
		nanosleep(&nap, NULL);
	}
	length = read(fd, text, sizeof(text) - 1);
	assert_true(length > 0);
	text[length] = '\0';
	close(fd);
	return text;
}

static int start(void)
{
	*why = '\0';
	return autostart_registry(directory, -1, why, sizeof(why));
}

static void assert_says(const char *part)
{
	if (!strstr(why, part))
		fail_msg("\"%s\" is not in \"%s\"", part, why);
}

static int set_up(void **state)
{
	const char *path = getenv("PATH");

	*state = strdup(path ? path : "/bin:/usr/bin");
	strcpy(directory, "/tmp/gpushare-unit-XXXXXX");
	unsetenv("GPUSHARE_REGISTRY");
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	setenv("PATH", *state, 1);
	free(*state);
	unsetenv("GPUSHARE_REGISTRY");
	unsetenv("LD_PRELOAD");
	unsetenv("LD_AUDIT");
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static bool is_emulated(void)
{
	const char *emulator = getenv("EMULATOR");

	if (!emulator || !*emulator)
		return false;
	printf("skipped: an emulator refuses the clone()\n");
	return true;
}

static void nothing_is_found(void **state)
{
	setenv("PATH", "", 1);
	assert_int_equal(start(), GPUSHARE_E_NO_REGISTRY);
	assert_says("gpushare-registry was not found");
	unsetenv("PATH");
	assert_int_equal(start(), GPUSHARE_E_NO_REGISTRY);
	/* If $GPUSHARE_REGISTRY is set, the PATH is not searched. */
	put_witness();
	setenv("PATH", inside("good"), 1);
	setenv("GPUSHARE_REGISTRY", inside("none"), 1);
	assert_int_equal(start(), GPUSHARE_E_NO_REGISTRY);
	assert_says("not in $GPUSHARE_REGISTRY");
	assert_int_not_equal(access(inside("said"), F_OK), 0);
}

/* PATH entries that are empty, too long, missing or not executable are skipped. */
static void found_on_the_path(void **state)
{
	char *path, *line, said_dir[128];
	int extra = fcntl(STDIN_FILENO, F_DUPFD, 200); /* not close-on-exec */

	if (is_emulated())
		skip();
	put_witness();
	put_program("bad", "#!/bin/sh\ntouch bad\n", 0644);
	path = malloc(3 * PATH_MAX);
	assert_non_null(path);
	strcpy(path, ":");
	memset(path + 1, 'x', PATH_MAX);
	sprintf(path + 1 + PATH_MAX, "::%s/none:%s/bad:%s/good:/bin:/usr/bin", directory, directory,
		directory);
	setenv("PATH", path, 1);
	setenv("GPUSHARE_REGISTRY", "", 1);
	setenv("LD_PRELOAD", "", 1);
	setenv("LD_AUDIT", "", 1);
	assert_int_equal(start(), GPUSHARE_OK);
	line = said();
	snprintf(said_dir, sizeof(said_dir), "--dir %s --idle-exit %s --orphan\n/\n", directory,
		 GPUSHARE_IDLE_EXIT_S);
	assert_memory_equal(line, said_dir, strlen(said_dir));
	assert_non_null(strstr(line, "GPUSHARE_REGISTRY=\n"));
	assert_null(strstr(line, "LD_PRELOAD="));
	assert_null(strstr(line, "LD_AUDIT="));
	assert_non_null(strstr(line, "SigBlk:\t0000000000000000"));
	assert_non_null(strstr(line, "SigIgn:\t0000000000000000"));
	snprintf(said_dir, sizeof(said_dir), "fd %d\n", extra);
	assert_null(strstr(line, said_dir));
	close(extra);
	free(path);
}

/* Make close_range() fail as on a kernel before 5.9. */
static void forbid_close_range(void)
{
	struct sock_filter steps[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(steps) / sizeof(*steps), steps};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
	assert_int_equal(syscall(SYS_close_range, 900, 901, 0), -1);
}

static void an_old_kernel_closes_one_by_one(void **state)
{
	int extra = fcntl(STDIN_FILENO, F_DUPFD, 200), status;
	char line[32];
	pid_t pid;

	if (is_emulated())
		skip();
	put_witness();
	setenv("GPUSHARE_REGISTRY", inside("good/gpushare-registry"), 1);
	pid = fork();
	if (!pid) {
		struct rlimit files;

		forbid_close_range();
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
		files.rlim_cur = 150; /* descriptors above stay open */
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
		_exit(start() != GPUSHARE_OK);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	snprintf(line, sizeof(line), "fd %d\n", extra);
	assert_null(strstr(said(), line));
	close(extra);
}

/* The failure is reported at once, not after a timeout. */
static void what_cant_be_started_is_said(void **state)
{
	if (is_emulated())
		skip();
	put_program("bad", "\177ELF, but no more of it", 0755);
	setenv("PATH", inside("bad"), 1);
	assert_int_equal(start(), GPUSHARE_E_NO_REGISTRY);
	assert_says("/bad/gpushare-registry can't be started: Exec format error");
	setenv("GPUSHARE_REGISTRY", inside("bad"), 1);
	assert_int_equal(start(), GPUSHARE_E_NO_REGISTRY);
	assert_says("/bad can't be started: Permission denied");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

UNIT_MAIN(TEST(nothing_is_found), TEST(found_on_the_path), TEST(an_old_kernel_closes_one_by_one),
	  TEST(what_cant_be_started_is_said))
