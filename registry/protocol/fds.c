/* SPDX-License-Identifier: MIT */
/* fds.sock: messages with file descriptors beside them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol.h"

#define KERNEL_MAX 253 /* SCM_MAX_FD: with room for all of them, one that is missing was refused */

_Static_assert(sizeof(struct fds_message) == 8 + FDS_MAX * GPUSHARE_TICKET_SIZE,
	       "the same layout for every compiler");

union ancillary {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(KERNEL_MAX * sizeof(int))];
};

bool backing_is_fd(uint32_t backing)
{
	return backing == GPUSHARE_BACKING_VMM || backing == GPUSHARE_BACKING_HOST;
}

void fds_close(const int *fds, size_t count)
{
	while (count-- > 0)
		close(fds[count]);
}

int fds_send_bytes(int socket, const void *bytes, size_t size, const int *fds, size_t count)
{
	struct iovec data = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
	union ancillary room = {.header = {0}};
	ssize_t sent;

	if (count > FDS_MAX)
		return GPUSHARE_E_LIMIT;
	if (count) {
		header.msg_control = room.bytes;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		room.header.cmsg_level = SOL_SOCKET;
		room.header.cmsg_type = SCM_RIGHTS;
		room.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&room.header), fds, count * sizeof(int));
	}
	do {
		sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return GPUSHARE_OK;
	/* more descriptors under way than this user may have */
	return errno == ETOOMANYREFS ? GPUSHARE_E_LIMIT : status_from_errno(errno);
}

int fds_send(int socket, const struct fds_message *message, const int *fds, size_t count)
{
	return fds_send_bytes(socket, message, sizeof(*message), fds, count);
}

/* All descriptors that came, in order. */
static size_t collect(struct msghdr *header, int fds[KERNEL_MAX])
{
	size_t count = 0;

	for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
		size_t more = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
			continue;
		if (more > KERNEL_MAX - count)
			more = KERNEL_MAX - count;
		memcpy(fds + count, CMSG_DATA(at), more * sizeof(int));
		count += more;
	}
	return count;
}

/* What is wrong with what came; `size` bytes of it. */
static int judge(size_t size, size_t count, int flags)
{
	if (size == 0 && count == 0)
		return GPUSHARE_E_NO_REGISTRY; /* how a closed connection reads */
	if (flags & MSG_CTRUNC)
		return GPUSHARE_E_LIMIT; /* there was room for all: this process has no more */
	return flags & MSG_TRUNC || count > FDS_MAX ? GPUSHARE_E_PROTOCOL : GPUSHARE_OK;
}

int fds_receive_bytes(int socket, void *bytes, size_t room_size, size_t *out_size,
		      int out_fds[FDS_MAX], size_t *out_count)
{
	struct iovec data = {.iov_base = bytes, .iov_len = room_size};
	union ancillary room;
	struct msghdr header = {
	    .msg_iov = &data,
	    .msg_iovlen = 1,
	    .msg_control = room.bytes,
	    .msg_controllen = sizeof(room.bytes),
	};
	int fds[KERNEL_MAX], status;
	size_t count;
	ssize_t size;

	do {
		size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return status_from_errno(errno);
	count = collect(&header, fds);
	status = judge((size_t)size, count, header.msg_flags);
	if (status) {
		fds_close(fds, count);
		return status;
	}
	memcpy(out_fds, fds, count * sizeof(int));
	*out_size = (size_t)size;
	*out_count = count;
	return GPUSHARE_OK;
}

int fds_receive(int socket, struct fds_message *out_message, int out_fds[FDS_MAX],
		size_t *out_count)
{
	size_t size, count;
	int status =
	    fds_receive_bytes(socket, out_message, sizeof(*out_message), &size, out_fds, &count);

	if (status)
		return status;
	if (size != sizeof(*out_message) || out_message->version != FDS_VERSION ||
	    out_message->count > FDS_MAX) {
		fds_close(out_fds, count);
		return GPUSHARE_E_PROTOCOL;
	}
	*out_count = count;
	return GPUSHARE_OK;
}
