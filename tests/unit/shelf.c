/* SPDX-License-Identifier: MIT */
#include "shelf.h"

#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "persist/keeper.h"
#include "os/process.h"
#include "raw.h"
#include "stage.h"

#define MEMORY "gpushare-unit-shelf"

char shelf_directory[64];
static int open_before;

int shelf_is_keeper(int argc, char **argv)
{
	return argc == 4 && !strcmp(argv[1], "--keeper") && !strcmp(argv[2], "--dir");
}

int shelf_keep(char **argv)
{
	return keeper_run(argv[3]);
}

void shelf_needs_keeper(void)
{
	if (!stage_is_emulated())
		return;
	printf("skipped: an emulator can't start itself again as a keeper\n");
	skip();
}

char *shelf_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", shelf_directory, name);
	return path;
}

int shelf_set_up(void **state)
{
	(void)state;
	open_before = descriptors_open();
	strcpy(shelf_directory, "/tmp/gpushare-unit-XXXXXX");
	return mkdtemp(shelf_directory) ? 0 : -1;
}

int shelf_tear_down(void **state)
{
	char command[128];
	pid_t keeper = shelf_keeper();

	(void)state;
	if (keeper)
		kill(keeper, SIGKILL);
	snprintf(command, sizeof(command), "rm -rf %s", shelf_directory);
	if (system(command))
		return -1;
	if (stage_is_emulated())
		return 0; /* an emulator has descriptors of its own */
	for (int i = 0; i < 100 && descriptors_open() != open_before; i++)
		raw_sleep_ms(10); /* its thread closes some */
	assert_int_equal(descriptors_open(), open_before);
	return 0;
}

int shelf_make(uint64_t generation)
{
	int fd = memfd_create(MEMORY, MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &generation, sizeof(generation)), sizeof(generation));
	return fd;
}

void shelf_assert_is(int fd, uint64_t generation)
{
	uint64_t is = 0;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &is, sizeof(is), 0), sizeof(is));
	assert_int_equal(is, generation);
}

void shelf_put(struct fdstore *store, uint64_t first, int count)
{
	for (int i = 0; i < count; i++)
		assert_true(
		    fdstore_put(store, first + (uint64_t)i, shelf_make(first + (uint64_t)i)));
}

void shelf_take(struct fdstore *store, uint64_t first, int count)
{
	for (uint64_t generation = first; generation < first + (uint64_t)count; generation++) {
		int fd = fdstore_take(store, generation);

		shelf_assert_is(fd, generation);
		assert_int_equal(fdstore_take(store, generation), -1); /* it is taken */
		close(fd); /* as its record's end would: nothing is put again */
	}
}

void shelf_take_none(struct fdstore *store, uint64_t first, int count)
{
	for (uint64_t generation = first; generation < first + (uint64_t)count; generation++)
		assert_int_equal(fdstore_take(store, generation), -1);
}

int shelf_dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int error, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s/" KEEPER_SOCKET, shelf_directory);
	if (!connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return fd;
	error = errno;
	close(fd);
	errno = error; /* EAGAIN: it has not come to take others who wait */
	return -1;
}

/* Until the keeper listens itself, the pid is of the one who started it. */
pid_t shelf_keeper(void)
{
	long long begin = raw_now_ms();

	for (;;) {
		struct ucred ucred = {0};
		socklen_t size = sizeof(ucred);
		struct process process;
		int fd = shelf_dial();

		if (fd < 0 && errno != EAGAIN)
			return 0;
		if (fd >= 0) {
			getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size);
			close(fd);
		}
		process_read(ucred.pid, ucred.uid, &process);
		if (!strcmp(process.command, KEEPER_NAME))
			return ucred.pid;
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			return 0;
		raw_sleep_ms(5);
	}
}

void shelf_await_end(pid_t pid, int within_ms)
{
	long long begin = raw_now_ms();
	struct process process;

	process_read(pid, 0, &process);
	while (process_runs(&process)) {
		if (raw_now_ms() - begin > within_ms + raw_slack_ms())
			fail_msg("process %d does not end", pid);
		raw_sleep_ms(2);
	}
}

int shelf_kept(pid_t keeper)
{
	char folder[64];
	struct dirent *entry;
	DIR *directory;
	int count = 0;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", keeper);
	directory = opendir(folder);
	while (directory && (entry = readdir(directory))) {
		char path[sizeof(folder) + sizeof(entry->d_name)], what[128] = "";

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (readlink(path, what, sizeof(what) - 1) > 0)
			count += strstr(what, MEMORY) != NULL;
	}
	if (directory)
		closedir(directory);
	return count;
}

void shelf_await_kept(pid_t keeper, int wanted)
{
	long long begin = raw_now_ms();

	while (shelf_kept(keeper) != wanted) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("the keeper has %d descriptors, not %d", shelf_kept(keeper),
				 wanted);
		raw_sleep_ms(2);
	}
}
