/* SPDX-License-Identifier: MIT */
#include "shelf.h"

#include "unit.h"

#include "fdstore/keeper.h"
#include "os/process.h"
#include "raw.h"

#define MEMORY "gpushare-unit-shelf"

char shelf_directory[64];

void shelf_needs_keeper(void)
{
	if (!raw_is_emulated())
		return;
	printf("skipped: an emulator can't start itself again as a keeper\n");
	skip();
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

static int dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int error, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s/" KEEPER_SOCKET, shelf_directory);
	if (!connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return fd;
	error = errno;
	close(fd);
	errno = error; /* EAGAIN: the keeper's backlog is full */
	return -1;
}

/* SO_PEERCRED names the process that called listen(): until the keeper does so itself, that is the
 * process that started it. */
pid_t shelf_keeper(void)
{
	long long begin = raw_now_ms();

	for (;;) {
		struct ucred ucred = {0};
		socklen_t size = sizeof(ucred);
		struct process process;
		int fd = dial();

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

static int kept(pid_t keeper)
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

	while (kept(keeper) != wanted) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("the keeper has %d descriptors, not %d", kept(keeper), wanted);
		raw_sleep_ms(2);
	}
}
