/* SPDX-License-Identifier: MIT */
/* fds.sock: messages of any size and content with any descriptors beside them; none is left open. */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fds_answer.h"
#include "fdnames.h"
#include "fuzz.h"

#define SENT_MAX 8 /* descriptors of one message: enough to tell all from some */

struct talk {
	struct registry *registry;
	struct guest *guest;
	int near, far; /* ours, and the registry's */
	struct fds_message heard;
};

static int count_open(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int make_fd(uint8_t kind)
{
	switch (kind % 4) {
	case 0:
		return memfd_create("fuzz", MFD_CLOEXEC);
	case 1:
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	case 2:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	default:
		return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	}
}

static void send_it(struct talk *talk, struct fuzz_bytes *from, const void *bytes, size_t size)
{
	size_t count = fuzz_byte(from) % (SENT_MAX + 1);
	int fds[SENT_MAX];

	for (size_t i = 0; i < count; i++)
		fds[i] = make_fd(fuzz_byte(from));
	fds_send_bytes(talk->near, bytes, size, fds, count);
	fds_close(fds, count);
}

static void send_nonsense(struct talk *talk, struct fuzz_bytes *from)
{
	size_t size;
	const uint8_t *bytes = fuzz_block(from, &size);

	if (size)
		send_it(talk, from, bytes, size);
}

/* Tickets of the latest answer, some of them bent. */
static void send_message(struct talk *talk, struct fuzz_bytes *from)
{
	struct fds_message message = {.version = FDS_VERSION};
	uint8_t bend = fuzz_byte(from);

	memcpy(message.tickets, talk->heard.tickets, sizeof(message.tickets));
	message.verb = fuzz_byte(from) % 6;
	message.count = fuzz_byte(from) % (FDS_MAX + 2);
	if (bend & 1)
		message.tickets[bend % FDS_MAX][bend % GPUSHARE_TICKET_SIZE] ^= 1;
	if (bend & 2)
		memcpy(message.tickets[1], message.tickets[0], sizeof(message.tickets[0]));
	send_it(talk, from, &message, sizeof(message));
}

/* Turns a deposit's ticket into one to fetch by, as a share and an attach do. */
static void exchange(struct talk *talk)
{
	struct vault *vault = &talk->registry->vault;
	struct held *held = vault_claim(vault, &talk->guest->peer, talk->heard.tickets[0]);

	if (!held)
		return;
	vault_offer(vault, &talk->guest->peer, 1, held, 0, talk->heard.tickets[0]);
	vault_release(vault, held);
}

static void hear(struct talk *talk)
{
	struct fds_message answer;
	int fds[FDS_MAX];
	size_t count;

	while (!fds_receive(talk->near, &answer, fds, &count)) {
		FUZZ_MUST(answer.status <= 0 && (!answer.status || !count));
		talk->heard = answer;
		fds_close(fds, count);
	}
}

static bool turn(struct talk *talk, struct fuzz_bytes *from)
{
	enum fds_outcome outcome;

	switch (fuzz_byte(from) % 8) {
	case 0:
		send_nonsense(talk, from);
		break;
	case 1:
		exchange(talk);
		break;
	case 2:
		vault_expire(&talk->registry->vault, fuzz_byte(from) ? 0 : INT64_MAX);
		break;
	case 3:
		vault_bury(&talk->registry->vault, talk->guest->id);
		break;
	default:
		send_message(talk, from);
	}
	outcome = fds_answer(talk->registry, talk->guest, talk->far);
	hear(talk);
	held_close(vault_take_unneeded(&talk->registry->vault));
	return outcome == FDS_GO_ON;
}

/* What descriptors are called: read, written, and read again. */
static void try_names(const uint8_t *data, size_t size)
{
	char message[FDNAMES_MESSAGE + 1] = "", written[FDNAMES_MESSAGE];
	uint64_t names[FDS_MAX], again[FDS_MAX];
	int count;

	if (size)
		memcpy(message, data, size < FDNAMES_MESSAGE ? size : FDNAMES_MESSAGE);
	count = fdnames_read(message, names);
	fdnames_says(message, FDNAMES_STORE);
	if (count <= 0)
		return;
	FUZZ_MUST(fdnames_write(written, FDNAMES_STORE, names, (size_t)count) < sizeof(written));
	FUZZ_MUST(fdnames_says(written, FDNAMES_STORE));
	FUZZ_MUST(fdnames_read(written, again) == count);
	FUZZ_MUST(!memcmp(names, again, (size_t)count * sizeof(*names)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct process peer = {.pid = 10, .uid = 1000, .started = 100};
	struct fuzz_bytes from = {data, size};
	struct talk talk = {0};
	int before = count_open(), ends[2];

	try_names(data, size);
	talk.registry = registry_new(NULL);
	FUZZ_MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	talk.near = ends[0];
	talk.far = ends[1];
	talk.guest = vault_enter(&talk.registry->vault, &peer);
	while (from.left && turn(&talk, &from))
		;
	vault_leave(&talk.registry->vault, talk.guest);
	fds_close(ends, 2);
	registry_free(talk.registry);
	/* What was refused is closed in another thread. */
	for (int tries = 0; count_open() != before && tries < 5000; tries++)
		poll(NULL, 0, 1);
	FUZZ_MUST(count_open() == before);
	return 0;
}
