/* SPDX-License-Identifier: MIT */
/* fds.sock: messages of any size and content, with any descriptors. None may stay open. */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fdstore/notify.h"
#include "freed.h"
#include "fuzz.h"
#include "server/fds.h"

#define SENT_MAX 8 /* descriptors of one message: enough to tell all from some */

static struct talk {
	struct fds_server server;
	struct session *session;
	struct fds_connection connection; /* the registry's end of the socket */
	int near;			  /* the fuzzer's end */
	struct closer *closer;		  /* the user's; it never ends */
} talk;

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

static void send_it(struct fuzz_bytes *from, const void *bytes, size_t size)
{
	size_t count = fuzz_byte(from) % (SENT_MAX + 1);
	int fds[SENT_MAX];

	count = count > 4 ? 1 : count; /* mostly one, the right number */
	for (size_t i = 0; i < count; i++)
		fds[i] = make_fd(fuzz_byte(from));
	fds_send_bytes(talk.near, bytes, size, fds, count);
	fds_close(fds, count);
}

static void send_nonsense(struct fuzz_bytes *from)
{
	size_t size;
	const uint8_t *bytes = fuzz_block(from, &size);

	if (size)
		send_it(from, bytes, size);
}

/* Send a header, sometimes corrupted, with a body. */
static void send_message(struct fuzz_bytes *from, const void *body, size_t size)
{
	struct fds_header header = {.version = FDS_VERSION, .connection = talk.session->id};
	uint8_t message[sizeof(header) + gpushare_Request_size], bend = fuzz_byte(from);

	header.verb = bend & 128 ? fuzz_byte(from) % 7 : FDS_ASK;
	memcpy(header.session, talk.session->key, sizeof(header.session));
	if ((bend & 15) == 1)
		header.session[bend >> 4] ^= 1;
	if ((bend & 15) == 2)
		header.connection ^= 1u << (bend >> 4);
	if (size > sizeof(message) - sizeof(header))
		size = sizeof(message) - sizeof(header);
	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), body, size);
	send_it(from, message, sizeof(header) + size);
}

static void send_block(struct fuzz_bytes *from)
{
	size_t size;
	const uint8_t *bytes = fuzz_block(from, &size);

	send_message(from, bytes, size);
}

static void send_request(struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_attach_tag};
	gpushare_Share *share = &what.verb.share;
	uint8_t kind = fuzz_byte(from), bytes[gpushare_Request_size];
	size_t size;

	if (kind & 1) {
		what.which_verb = gpushare_Request_share_tag;
		share->has_buffer = true;
		share->adopt = kind & 2;
		share->buffer.flags = kind & 4 ? GPUSHARE_FLAG_KEEP : 0;
		share->buffer.backing = kind & 8 ? GPUSHARE_BACKING_IPC : GPUSHARE_BACKING_VMM;
		share->buffer.size = share->buffer.base_size = 4096;
		memset(share->buffer.device_uuid, 0xd, sizeof(share->buffer.device_uuid));
		strcpy(share->buffer.name, kind & 16 ? "a" : "b");
	} else if (kind & 2) {
		what.which_verb = gpushare_Request_order_tag;
		strcpy(what.verb.order.name, kind & 16 ? "a" : "b");
		what.verb.order.generation = fuzz_byte(from) % 8;
		what.verb.order.roles = kind >> 6;
		what.verb.order.again = kind & 4 ? 7 : 0;
	} else {
		strcpy(what.verb.attach.name, kind & 16 ? "a" : "b");
	}
	FUZZ_MUST(!codec_encode_request(&what, bytes, sizeof(bytes), &size));
	send_message(from, bytes, size);
}

static void hear(void)
{
	static uint8_t body[GPUSHARE_MESSAGE_MAX];
	static reply answer;
	struct fds_header header;
	size_t size;
	int fd;

	while (!fds_receive(talk.near, &header, body, sizeof(body), &size, &fd)) {
		FUZZ_MUST(header.status <= 0);
		FUZZ_MUST(!header.status || (!size && fd < 0));
		if (header.verb == FDS_ASK && !header.status) {
			FUZZ_MUST(!codec_decode_reply(body, size, &answer));
			FUZZ_MUST(!answer.status || fd < 0);
		}
		if (fd >= 0)
			close(fd);
	}
}

static bool turn(struct fuzz_bytes *from)
{
	bool stays;

	switch (fuzz_byte(from) % 4) {
	case 0:
		send_nonsense(from);
		break;
	case 1:
		send_block(from);
		break;
	default:
		send_request(from);
	}
	stays = fds_answer(&talk.server, &talk.connection);
	hear();
	FUZZ_MUST(!talk.server.registry->passing);
	return stays;
}

/* Descriptor names: read, written, and read again. */
static void try_names(const uint8_t *data, size_t size)
{
	char message[NOTIFY_MESSAGE + 1] = "", written[NOTIFY_MESSAGE], verb[NOTIFY_VERB];
	uint64_t number, again;

	if (size)
		memcpy(message, data, size < NOTIFY_MESSAGE ? size : NOTIFY_MESSAGE);
	if (!notify_read(message, verb, &number))
		return;
	FUZZ_MUST(notify_write(written, NOTIFY_STORE, number) < sizeof(written));
	FUZZ_MUST(notify_read(written, verb, &again) && again == number);
	FUZZ_MUST(!strcmp(verb, NOTIFY_STORE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct process peer = {.pid = 10, .uid = 1000, .started = 100};
	struct fuzz_bytes from = {data, size};
	int before = count_open(), ends[2];
	struct registry *registry;

	try_names(data, size);
	registry = talk.server.registry = registry_new();
	FUZZ_MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	talk.near = ends[0];
	talk.connection = (struct fds_connection){
	    .fd = ends[1], .pid = peer.pid, .user = user_of(&registry->state.users, peer.uid)};
	talk.connection.user->closer = talk.closer;
	talk.session = registry_connect(registry, 3, &peer);
	talk.session->greeted = true;
	while (from.left && turn(&from))
		;
	fds_close(ends, 2);
	talk.closer = talk.connection.user->closer;
	registry_free(registry);
	/* Another thread closes the descriptors that were refused or are no longer used. */
	for (int tries = 0; count_open() != before && tries < 5000; tries++)
		poll(NULL, 0, 1);
	FUZZ_MUST(count_open() == before);
	return 0;
}
