/* SPDX-License-Identifier: MIT */
#include "raw_fds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon_fds.h"

struct fds_message raw_fds_answered;
int raw_fds_received[FDS_MAX];
size_t raw_fds_received_count;

/* What it has open once all who came before are gone. */
int raw_fds_settled(void)
{
	int count = -1, now = daemon_fds();

	for (int same = 0; same < 10; same = now == count ? same + 1 : 0) {
		count = now;
		raw_sleep_ms(10);
		now = daemon_fds();
	}
	return count;
}

/* The least of some time: a daemon that asks itself whether it is heard has more for a moment. */
int raw_fds_least(int ms)
{
	int least = raw_fds_settled();

	for (long long end = raw_now_ms() + ms; raw_now_ms() < end; raw_sleep_ms(10)) {
		int now = daemon_fds();

		least = now < least ? now : least;
	}
	return least;
}

/* One less than expected is the keeper's, which can't be started under an emulator. */
static bool is_wanted(int count, int wanted)
{
	const char *emulator = getenv("EMULATOR");

	return count == wanted || (emulator && *emulator && count == wanted - 1);
}

/* What the daemon has open settles to `wanted`; how long that took. */
long long raw_fds_await(int wanted)
{
	long long begin = raw_now_ms();
	int count;

	while (!is_wanted(count = daemon_fds(), wanted)) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("the daemon has %d descriptors, not %d", count, wanted);
		raw_sleep_ms(5);
	}
	return raw_now_ms() - begin;
}

int raw_fds_dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(directory_fds_socket(raw_here.directory, to.sun_path), GPUSHARE_OK);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* The answer's status; 1: the connection was closed instead. */
int raw_fds_hear(int fd)
{
	struct pollfd event = {.fd = fd, .events = POLLIN};
	int status;

	if (poll(&event, 1, 2 * RAW_TIMEOUT_MS) != 1)
		fail_msg("no answer at fds.sock");
	status = fds_receive(fd, &raw_fds_answered, raw_fds_received, &raw_fds_received_count);
	if (status == GPUSHARE_E_NO_REGISTRY)
		return 1;
	assert_int_equal(status, GPUSHARE_OK);
	return raw_fds_answered.status;
}

int raw_fds_ask(int fd, struct fds_message what, const int *fds, size_t count)
{
	assert_int_equal(fds_send(fd, &what, fds, count), GPUSHARE_OK);
	return raw_fds_hear(fd);
}

struct fds_message raw_fds_message(int verb, size_t count)
{
	return (struct fds_message){
	    .version = FDS_VERSION, .verb = (uint8_t)verb, .count = (uint16_t)count};
}

void raw_fds_make(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_true((fds[i] = memfd_create("unit", MFD_CLOEXEC)) >= 0);
}

int raw_fds_deposit(int fd, size_t count)
{
	int fds[FDS_MAX], status;

	raw_fds_make(fds, count);
	status = raw_fds_ask(fd, raw_fds_message(FDS_DEPOSIT, count), fds, count);
	fds_close(fds, count);
	return status;
}

request raw_fds_share(const char *name)
{
	request what = raw_share(name);

	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	memset(what.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	memcpy(what.verb.share.ticket, raw_fds_answered.tickets[0], GPUSHARE_TICKET_SIZE);
	return what;
}

int raw_fds_withdraw(int fd, const uint8_t ticket[GPUSHARE_TICKET_SIZE])
{
	struct fds_message what = raw_fds_message(FDS_WITHDRAW, 1);

	memcpy(what.tickets[0], ticket, GPUSHARE_TICKET_SIZE);
	return raw_fds_ask(fd, what, NULL, 0);
}

void raw_fds_assert_read_only(int page)
{
	char path[64];
	int again;

	assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0) == MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(page, 0), -1);
	assert_int_equal(pwrite(page, "x", 1, 0), -1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", page);
	again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again < 0 || pwrite(again, "x", 1, 0) == -1);
	if (again >= 0)
		close(again);
	close(page);
}

int raw_fds_set_up(void **state)
{
	int own, fd;

	if (raw_set_up(state))
		return -1;
	own = raw_connect(&raw_here);
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_deposit(fd, 1), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_fds_share("first")), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_withdraw("first", 0)), GPUSHARE_OK);
	close(own);
	close(fd);
	raw_fds_settled();
	return 0;
}
