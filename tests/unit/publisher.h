/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PUBLISHER_H
#define GPUSHARE_TESTS_UNIT_PUBLISHER_H
/* In the place of a scripted registry (scripted.h) whose client is connected: a thread that sends whoever
 * subscribes what a test has put together. */
#include <pthread.h>

#include "protocol.h"

#define PUBLISHER_CALLS 8
#define PUBLISHER_FRAME_MAX (SP_HEADER_SIZE + SP_ID_SIZE + gpushare_Notice_size + 16)

/* What each connection is sent at once; the last one's is for all that follow. */
struct publisher {
	pthread_t thread;
	int listener, stop[2];
	uint8_t bytes[PUBLISHER_CALLS][4096];
	size_t size[PUBLISHER_CALLS];
	bool ends[PUBLISHER_CALLS]; /* and then the connection */
	int calls;
	_Atomic int line; /* the latest connection */
};

extern struct publisher publisher;

/* 0, for cmocka. */
int publisher_open(void);
void publisher_close(void);
/* Listen, with so many connections put together. */
void publisher_start(int calls);
void publisher_end(void);

notice publisher_notice(uint64_t registry, uint32_t kind, uint64_t serial, const char *name);
/* One as it is sent; its size. */
size_t publisher_frame(uint8_t to[PUBLISHER_FRAME_MAX], uint64_t registry, uint32_t kind,
		       uint64_t serial, const char *name);
void publisher_put_bytes(int call, const void *bytes, size_t size);
void publisher_put_greeting(int call);
void publisher_put(int call, uint64_t registry, uint32_t kind, uint64_t serial, const char *name);
/* The usual beginning. */
void publisher_put_welcome(int call, uint64_t registry, uint64_t serial);
/* Over the latest connection, now. */
void publisher_say(uint64_t registry, uint32_t kind, uint64_t serial, const char *name);

#endif
