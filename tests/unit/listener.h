/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_LISTENER_H
#define GPUSHARE_TESTS_UNIT_LISTENER_H
/* Who subscribes to the registry of raw_here. */
#include "protocol.h"

struct listener {
	int fd;
	uint32_t id;	/* of its latest Subscribe */
	reply answer;	/* to that... */
	pb_size_t told; /* ...and how many of its notices were asked for */
};

/* Connected, hello said, and nothing else. */
void listener_dial(struct listener *listener);
/* It has subscribed and been told so: it hears all from now on. */
void listener_open(struct listener *listener);
/* It asks, and does not hear. */
void listener_ask(struct listener *listener);
/* The next notice, which it asks for if need be. NULL: none in time. */
const notice *listener_hear(struct listener *listener, int timeout_ms);
void listener_close(struct listener *listener);

#endif
