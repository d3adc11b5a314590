/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_FAULT_ANSWERS_H
#define TESTS_FAULTS_FAULT_ANSWERS_H
/*
 * Faults in the registry's answers to a client. The sites are ask.N (N is the verb's number in
 * Request, registry.proto), ask.greeting, and fds.N (N is from enum fds_verb). The outcomes:
 *
 * sN       the answer is status -N; the registry never gets the request
 * ok       the answer is success without a body; the registry never gets the request
 * garbage  the answer is a message whose body can't be decoded
 * other    the answer belongs to another request
 * noise    the answer is no message at all
 * huge     the answer's header announces 2^40 bytes; from fds.sock, it is truncated
 * closed   the connection is closed, and the registry never gets the request
 * lost     the registry handles the request; the connection is closed before the answer
 * mute     no answer ever; the registry never gets the request
 * late     the registry handles the request; the answer comes after the first wait has ended
 */
#include <endian.h>

#include "fault_calls.h"
#include "fault_site.h"
#include "protocol.h"

static struct {
	int fd; /* the connection that the answer is for; -1: none */
	size_t size, taken;
	union {
		unsigned char bytes[128];
		struct fds_header fds;
	};
	bool huge; /* larger than any receiver's buffer */
	int deaf;  /* the connection that receives nothing any more; -1: none */
	bool late; /* ...until its first wait has ended */
} answer = {.fd = -1, .deaf = -1};

static const char *answer_site(char site[32], const unsigned char *data, size_t size)
{
	const size_t body = SP_HEADER_SIZE + SP_ID_SIZE;

	if (size == SP_GREETING_SIZE && !memcmp(data, "\0SP\0", 4))
		return "ask.greeting";
	if (size < body + 2 || data[0] != 1)
		return NULL;
	snprintf(site, 32, "ask.%d",
		 data[body] < 128 ? data[body] >> 3
				  : ((data[body] & 127) | data[body + 1] << 7) >> 3);
	return site;
}

static bool answer_is(const char *how, const char *what)
{
	return !strcmp(how, what);
}

/* Make a Reply: its status (zigzag-encoded) and its message. */
static void answer_reply(const char *how, const unsigned char *id)
{
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	unsigned char *body = answer.bytes + header;
	size_t size = 0;

	if (how[0] == 's') {
		body[size++] = 0x08;
		body[size++] = (unsigned char)(2 * atoi(how + 1) - 1);
		size += (size_t)sprintf((char *)body + size, "\x12\x0a"
							     "by a fault");
	} else if (answer_is(how, "garbage")) {
		memset(body, 0xff, size = 40);
	}
	memset(answer.bytes, 0, SP_HEADER_SIZE);
	answer.bytes[0] = 1;
	answer.bytes[SP_HEADER_SIZE - 1] = (unsigned char)(size + SP_ID_SIZE);
	memcpy(answer.bytes + SP_HEADER_SIZE, id, SP_ID_SIZE);
	if (answer_is(how, "other"))
		answer.bytes[SP_HEADER_SIZE + 3] ^= 1;
	if (answer_is(how, "huge"))
		answer.bytes[3] = 1;
	if (answer_is(how, "noise"))
		memset(answer.bytes, 0x5a, size = 64);
	answer.size = header + size;
}

/* Wait until the answer has arrived, for 2 s at most. */
static void answer_await(int fd)
{
	static __typeof__(poll) *real;
	struct pollfd one = {.fd = fd, .events = POLLIN};

	if (!real)
		*(void **)&real = site_behind("poll");
	real(&one, 1, 2000);
}

/* Return true if the request must be sent all the same. */
static bool answer_begin(int fd, const char *how, const unsigned char *id)
{
	const bool closed = answer_is(how, "closed"), lost = answer_is(how, "lost");
	const bool late = answer_is(how, "late"), deaf = late || answer_is(how, "mute");

	answer.fd = answer.deaf = -1;
	answer.taken = 0;
	if (closed)
		shutdown(fd, SHUT_RDWR);
	if (deaf)
		answer.deaf = fd;
	answer.late = late;
	if (closed || lost || deaf) {
		site_hit();
		return lost || late;
	}
	answer.fd = fd;
	if (id)
		answer_reply(how, id);
	return false;
}

/* After a request whose answer is to be lost: discard the answer and close. */
static void answer_lose(int fd)
{
	char bytes[4096];

	answer_await(fd);
	(void)!read(fd, bytes, sizeof(bytes));
	shutdown(fd, SHUT_RDWR);
}

static ssize_t answer_take(void *to, size_t size, int flags)
{
	size_t rest = answer.size - answer.taken, part = rest < size ? rest : size;

	if (!answer.taken)
		site_hit();
	memcpy(to, answer.bytes + answer.taken, part);
	if (!(flags & MSG_PEEK))
		answer.taken += part;
	if (answer.taken == answer.size)
		answer.fd = -1;
	return (ssize_t)part;
}

static ssize_t answer_deaf(void)
{
	errno = EAGAIN;
	return -1;
}

/* Return the verb of a message to fds.sock; 0 if it is none. */
static int answer_fds_verb(const struct msghdr *message)
{
	const struct fds_header *ask = message->msg_iovlen ? message->msg_iov[0].iov_base : NULL;

	return ask && message->msg_iov[0].iov_len == sizeof(*ask) && ask->version == FDS_VERSION
		   ? ask->verb
		   : 0;
}

static bool answer_fds_begin(int fd, const char *how, const struct msghdr *message)
{
	const struct fds_header *ask = message->msg_iov[0].iov_base;
	bool goes_out = answer_begin(fd, how, NULL);

	answer.fds = (struct fds_header){.version = FDS_VERSION, .verb = ask->verb};
	answer.size = sizeof(answer.fds);
	answer.huge = answer_is(how, "huge");
	answer.fds.status = how[0] == 's' ? -atoi(how + 1) : 0;
	if (answer_is(how, "other"))
		answer.fds.verb ^= 3;
	if (answer_is(how, "garbage")) {
		memset(answer.bytes + answer.size, 0xff, 40);
		answer.size += 40;
	}
	if (answer_is(how, "noise"))
		memset(answer.bytes, 0x5a, answer.size = 7);
	return goes_out;
}

/* Take the whole answer, without a descriptor. */
static ssize_t answer_fds_take(struct msghdr *message)
{
	size_t taken = 0;

	site_hit();
	for (size_t i = 0; i < message->msg_iovlen && taken < answer.size; i++) {
		struct iovec *to = &message->msg_iov[i];
		size_t rest = answer.size - taken, part = rest < to->iov_len ? rest : to->iov_len;

		memcpy(to->iov_base, answer.bytes + taken, part);
		taken += part;
	}
	message->msg_controllen = 0;
	message->msg_flags = answer.huge || taken < answer.size ? MSG_TRUNC : 0;
	answer.fd = -1;
	return (ssize_t)taken;
}

#endif
