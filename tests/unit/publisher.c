/* SPDX-License-Identifier: MIT */
#include "publisher.h"

#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "raw.h"
#include "scripted.h"

struct publisher publisher;

void publisher_put_bytes(int call, const void *bytes, size_t size)
{
	assert_true(publisher.size[call] + size <= sizeof(publisher.bytes[call]));
	memcpy(publisher.bytes[call] + publisher.size[call], bytes, size);
	publisher.size[call] += size;
}

void publisher_put_greeting(int call)
{
	uint8_t greeting[SP_GREETING_SIZE];

	sp_greeting(greeting, SP_REP);
	publisher_put_bytes(call, greeting, sizeof(greeting));
}

notice publisher_notice(uint64_t registry, uint32_t kind, uint64_t serial, const char *name)
{
	notice told = {.registry = registry, .kind = kind, .serial = serial, .unix_ns = 5};

	if (!name)
		return told;
	told.has_buffer = true;
	told.pid = 4711;
	strcpy(told.buffer.name, name);
	told.buffer.size = serial;
	return told;
}

size_t publisher_frame(uint8_t to[PUBLISHER_FRAME_MAX], uint64_t registry, uint32_t kind,
		       uint64_t serial, const char *name)
{
	static reply answer;
	size_t size;

	memset(&answer, 0, sizeof(answer));
	answer.which_body = gpushare_Reply_subscribe_tag;
	answer.body.subscribe.notices_count = 1;
	answer.body.subscribe.notices[0] = publisher_notice(registry, kind, serial, name);
	assert_int_equal(codec_encode_reply(&answer, to + SP_HEADER_SIZE + SP_ID_SIZE,
					    PUBLISHER_FRAME_MAX - SP_HEADER_SIZE - SP_ID_SIZE,
					    &size),
			 GPUSHARE_OK);
	sp_header(to, 1, size);
	return SP_HEADER_SIZE + SP_ID_SIZE + size;
}

void publisher_put(int call, uint64_t registry, uint32_t kind, uint64_t serial, const char *name)
{
	uint8_t bytes[PUBLISHER_FRAME_MAX];

	publisher_put_bytes(call, bytes, publisher_frame(bytes, registry, kind, serial, name));
}

void publisher_put_welcome(int call, uint64_t registry, uint64_t serial)
{
	publisher_put_greeting(call);
	publisher_put(call, registry, 0, serial, NULL);
}

void publisher_say(uint64_t registry, uint32_t kind, uint64_t serial, const char *name)
{
	uint8_t bytes[PUBLISHER_FRAME_MAX];
	size_t size = publisher_frame(bytes, registry, kind, serial, name);

	assert_true(raw_write(publisher.line, bytes, size));
}

static void *publish(void *unused)
{
	struct pollfd events[] = {{.fd = publisher.listener, .events = POLLIN},
				  {.fd = publisher.stop[0], .events = POLLIN}};

	(void)unused;
	for (int call = 0; poll(events, 2, -1) >= 0 && !events[1].revents; call++) {
		int at = call < publisher.calls ? call : publisher.calls - 1;
		int fd = accept4(publisher.listener, NULL, NULL, SOCK_CLOEXEC);
		uint8_t greeting[SP_GREETING_SIZE];

		if (!raw_read(fd, greeting, sizeof(greeting), RAW_TIMEOUT_MS) ||
		    !sp_greeting_is(greeting, SP_REQ))
			abort();
		if (publisher.line >= 0)
			close(publisher.line);
		publisher.line = fd;
		raw_write(fd, publisher.bytes[at], publisher.size[at]);
		if (publisher.ends[at])
			shutdown(fd, SHUT_RDWR);
	}
	return NULL;
}

void publisher_start(int calls)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	publisher.calls = calls;
	directory_socket(scripted.directory, at.sun_path);
	unlink(at.sun_path); /* who is connected there stays so */
	publisher.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(publisher.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(publisher.listener, 8), 0);
	assert_int_equal(pthread_create(&publisher.thread, NULL, publish, NULL), 0);
}

void publisher_end(void)
{
	if (publisher.listener < 0)
		return;
	assert_int_equal(write(publisher.stop[1], "x", 1), 1);
	pthread_join(publisher.thread, NULL);
	close(publisher.listener);
	if (publisher.line >= 0)
		close(publisher.line);
	publisher.listener = -1;
	publisher.line = -1;
}

int publisher_open(void)
{
	memset(&publisher, 0, sizeof(publisher));
	publisher.listener = -1;
	publisher.line = -1;
	return pipe(publisher.stop);
}

void publisher_close(void)
{
	publisher_end();
	close(publisher.stop[0]);
	close(publisher.stop[1]);
}
