/* SPDX-License-Identifier: MIT */
#include "raw_fds.h"

#include "unit.h"

int raw_fds_came = -1;
int (*raw_fds_dialer)(int own);

int daemon_fds(void)
{
	char folder[64];
	struct dirent *entry;
	int count = 0;
	DIR *directory;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", raw_here.pid);
	directory = opendir(folder);
	assert_non_null(directory);
	while ((entry = readdir(directory)))
		count += *entry->d_name != '.';
	closedir(directory);
	return count;
}

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

/* Under an emulator no keeper can be started, so the daemon has no connection to it. */
static bool is_wanted(int count, int wanted)
{
	return count == wanted || (raw_is_emulated() && count == wanted - 1);
}

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

	assert_int_equal(directory_join(raw_here.directory, GPUSHARE_FDS_SOCKET, to.sun_path),
			 GPUSHARE_OK);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

struct fds_header raw_fds_header(int verb, int own)
{
	struct fds_header header = {.version = FDS_VERSION, .verb = (uint8_t)verb};

	if (own < 0)
		return header;
	header.connection = raw_hellos[own].connection;
	memcpy(header.session, raw_hellos[own].session, sizeof(header.session));
	return header;
}

int raw_fds_hear(int fd)
{
	static uint8_t body[GPUSHARE_MESSAGE_MAX];
	struct pollfd event = {.fd = fd, .events = POLLIN};
	struct fds_header header;
	size_t size;
	int status;

	if (poll(&event, 1, 2 * RAW_TIMEOUT_MS) != 1)
		fail_msg("no answer at fds.sock");
	raw_fds_came = -1;
	status = fds_receive(fd, &header, body, sizeof(body), &size, &raw_fds_came);
	if (status == GPUSHARE_E_NO_REGISTRY)
		return 1;
	assert_int_equal(status, GPUSHARE_OK);
	if (header.verb != FDS_ASK || header.status)
		return header.status;
	assert_int_equal(codec_decode_reply(body, size, &raw_answer), GPUSHARE_OK);
	return raw_answer.status;
}

int raw_fds_ask(int fd, struct fds_header what, const int *fds, size_t count)
{
	assert_int_equal(fds_send_bytes(fd, &what, sizeof(what), fds, count), GPUSHARE_OK);
	return raw_fds_hear(fd);
}

int raw_fds_say_with(int fd, int own, request what, const int *fds, size_t count)
{
	const struct fds_header header = raw_fds_header(FDS_ASK, own);
	uint8_t message[sizeof(header) + gpushare_Request_size];
	size_t size;

	memcpy(message, &header, sizeof(header));
	assert_int_equal(codec_encode_request(&what, message + sizeof(header),
					      sizeof(message) - sizeof(header), &size),
			 GPUSHARE_OK);
	assert_int_equal(fds_send_bytes(fd, message, sizeof(header) + size, fds, count),
			 GPUSHARE_OK);
	return raw_fds_hear(fd);
}

int raw_fds_say(int own, request what, int file)
{
	int fd = raw_fds_dialer ? raw_fds_dialer(own) : raw_fds_dial();
	int status = raw_fds_say_with(fd, own, what, &file, file >= 0);

	close(fd);
	return status;
}

int raw_fds_make(void)
{
	int made = memfd_create("unit", MFD_CLOEXEC);

	assert_true(made >= 0);
	return made;
}

request raw_fds_share(const char *name)
{
	request what = raw_share(name);

	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	memset(what.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	return what;
}

int raw_fds_give(int own, request what)
{
	int file = raw_fds_make(), status = raw_fds_say(own, what, file);

	close(file);
	return status;
}

int raw_fds_put(int own, const char *name, uint32_t flags)
{
	request what = raw_fds_share(name);

	what.verb.share.buffer.flags = flags;
	return raw_fds_give(own, what);
}

int raw_fds_get(int own, const char *name)
{
	int status = raw_fds_say(own, raw_attach(name), -1);

	assert_true((raw_fds_came >= 0) == !status);
	if (raw_fds_came >= 0)
		close(raw_fds_came);
	raw_fds_came = -1;
	return status;
}

int raw_fds_page_fd(int verb)
{
	int fd = raw_fds_dial();
	int status = raw_fds_ask(fd, raw_fds_header(verb, -1), NULL, 0);

	close(fd);
	if (status == GPUSHARE_E_NOT_SUPPORTED)
		return -1;
	assert_int_equal(status, GPUSHARE_OK);
	assert_true(raw_fds_came >= 0);
	return raw_fds_came;
}

const void *raw_fds_page(int verb, size_t size)
{
	int fd = raw_fds_page_fd(verb);
	const void *page = fd < 0 ? NULL : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	assert_true(page != MAP_FAILED);
	if (fd >= 0)
		close(fd);
	return page;
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
	int own;

	if (raw_set_up(state))
		return -1;
	own = raw_connect(&raw_here);
	assert_int_equal(raw_fds_put(own, "first", 0), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_withdraw("first", 0)), GPUSHARE_OK);
	close(own);
	raw_fds_settled();
	return 0;
}
