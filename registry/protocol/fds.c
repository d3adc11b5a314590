/* SPDX-License-Identifier: MIT */
/* fds.sock: messages that carry file descriptors. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol.h"

_Static_assert(sizeof(struct fds_header) == 12 + GPUSHARE_SESSION_KEY_SIZE,
	       "the same layout for every compiler");

#define ROOM(fds) CMSG_SPACE((fds) * sizeof(int))

/* Room for all descriptors that the kernel allows in a message, and room for one (with the padding,
 * two). Clients use the small one: they pass at most one descriptor, and run on the stack of a
 * program's thread. */
union control {
	struct cmsghdr header;
	char bytes[ROOM(FDS_KERNEL_MAX)];
};
union control_of_one {
	struct cmsghdr header;
	char bytes[ROOM(1)];
};
#define FDS_OF_ONE ((ROOM(1) - CMSG_LEN(0)) / sizeof(int))

bool backing_is_fd(uint32_t backing)
{
	return backing == GPUSHARE_BACKING_VMM || backing == GPUSHARE_BACKING_HOST;
}

bool backing_is_known(uint32_t backing)
{
	switch (backing) {
#define X(name, value, text) case value:
		GPUSHARE_BACKINGS(X)
#undef X
		return true;
	}
	return false;
}

void fds_close(const int *fds, size_t count)
{
	while (count-- > 0)
		close(fds[count]);
}

/* `room`: zeroed memory for the control message, large enough for `count` descriptors. */
static int send_parts(int socket, struct iovec *parts, size_t part_count, struct cmsghdr *room,
		      const int *fds, size_t count)
{
	struct msghdr header = {.msg_iov = parts, .msg_iovlen = part_count};
	ssize_t sent;

	if (count) {
		header.msg_control = room;
		header.msg_controllen = ROOM(count);
		room->cmsg_level = SOL_SOCKET;
		room->cmsg_type = SCM_RIGHTS;
		room->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(room), fds, count * sizeof(int));
	}
	do {
		sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return GPUSHARE_OK;
	/* ETOOMANYREFS: this user has too many descriptors in flight */
	return errno == ETOOMANYREFS ? GPUSHARE_E_LIMIT : status_from_errno(errno);
}

static struct iovec part(const void *bytes, size_t size)
{
	return (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
}

int fds_send_bytes(int socket, const void *bytes, size_t size, const int *fds, size_t count)
{
	struct iovec parts[] = {part(bytes, size)};
	union control room = {.header = {0}};

	return send_parts(socket, parts, 1, &room.header, fds, count);
}

int fds_send(int socket, const struct fds_header *header, const void *body, size_t size, int fd)
{
	struct iovec parts[] = {part(header, sizeof(*header)), part(body, size)};
	union control_of_one room = {.header = {0}};

	return send_parts(socket, parts, 2, &room.header, &fd, fd >= 0);
}

/* Copies the received descriptors to `fds` in order, `most` at most. Returns their number. */
static size_t collect(struct msghdr *header, int *fds, size_t most)
{
	size_t count = 0;

	for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
		size_t more = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
			continue;
		if (more > most - count)
			more = most - count;
		memcpy(fds + count, CMSG_DATA(at), more * sizeof(int));
		count += more;
	}
	return count;
}

/* The status of a received message with `size` bytes and `count` descriptors, if there was room for
 * `most`. */
static int judge(size_t size, size_t count, size_t most, int flags)
{
	if (size == 0 && count == 0)
		return GPUSHARE_E_NO_REGISTRY; /* the peer has closed the connection */
	/* more than `most`, or this process may open no more */
	if (flags & MSG_CTRUNC)
		return count == most ? GPUSHARE_E_PROTOCOL : GPUSHARE_E_LIMIT;
	return flags & MSG_TRUNC ? GPUSHARE_E_PROTOCOL : GPUSHARE_OK;
}

/* `out_header` NULL: the message has no header. The caller owns the received descriptors (`most` at
 * most), even if this fails. */
static int receive(int socket, struct fds_header *out_header, void *body, size_t body_room,
		   struct cmsghdr *room, size_t most, size_t *out_size, int *out_fds,
		   size_t *out_count)
{
	size_t head = out_header ? sizeof(*out_header) : 0;
	struct iovec parts[] = {part(out_header, head), part(body, body_room)};
	struct msghdr header = {
	    .msg_iov = parts,
	    .msg_iovlen = 2,
	    .msg_control = room,
	    .msg_controllen = ROOM(most),
	};
	ssize_t size;
	int status;

	*out_count = 0;
	do {
		size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return status_from_errno(errno);
	*out_count = collect(&header, out_fds, most);
	status = judge((size_t)size, *out_count, most, header.msg_flags);
	if (!status && out_header && ((size_t)size < head || out_header->version != FDS_VERSION))
		status = GPUSHARE_E_PROTOCOL;
	if (!status)
		*out_size = (size_t)size - head;
	return status;
}

int fds_receive_open(int socket, struct fds_header *out_header, void *body, size_t body_room,
		     size_t *out_size, int out_fds[FDS_KERNEL_MAX], size_t *out_count)
{
	union control room;

	return receive(socket, out_header, body, body_room, &room.header, FDS_KERNEL_MAX, out_size,
		       out_fds, out_count);
}

int fds_receive(int socket, struct fds_header *out_header, void *body, size_t room,
		size_t *out_size, int *out_fd)
{
	union control_of_one control;
	int fds[FDS_OF_ONE];
	size_t count;
	int status = receive(socket, out_header, body, room, &control.header, FDS_OF_ONE, out_size,
			     fds, &count);

	if (!status && count > 1)
		status = GPUSHARE_E_PROTOCOL;
	if (status)
		fds_close(fds, count);
	else
		*out_fd = count ? fds[0] : -1;
	return status;
}
