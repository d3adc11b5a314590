/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_LISTENER_H
#define GPUSHARE_TESTS_UNIT_LISTENER_H
/* A subscriber of the registry of raw_here. */
#include "protocol.h"

struct listener {
	int fd;
	uint32_t id;	/* of its latest Subscribe */
	reply answer;	/* to that Subscribe */
	pb_size_t told; /* how many notices of `answer` listener_hear() has returned */
};

/* Connect and send Hello. */
void listener_dial(struct listener *listener);
/* Connect, subscribe, and wait for the first notice: all later notices are received. */
void listener_open(struct listener *listener);
/* Send a Subscribe without waiting for its answer. */
void listener_ask(struct listener *listener);
/* The next notice; send a Subscribe if none is at hand. NULL: none came in time. */
const notice *listener_hear(struct listener *listener, int timeout_ms);
void listener_close(struct listener *listener);

#endif
