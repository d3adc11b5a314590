/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SUBSCRIBER_H
#define GPUSHARE_SHIM_API_SUBSCRIBER_H
/*
 * A connection that subscribes to a registry's notices and is made again when it is lost, without a thread.
 * One Subscribe is always under way, so that the registry has somebody to tell. Nothing here blocks but
 * subscriber_wait(); failures have their sentence by api_fail().
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol.h"

struct subscriber {
	char directory[GPUSHARE_PATH_MAX];
	int socket; /* -1: not connected */
	dev_t device;
	ino_t inode;	/* proof that it is still ours */
	int events;	/* epoll of the other two: readable when subscriber_next() may know more */
	int timer;	/* for that which no socket tells */
	int cancelling; /* the state of the caller's thread in a wait, which may have no end */
	int64_t armed_ms;    /* when it fires; 0: it has; INT64_MAX: never */
	bool reached;	     /* somebody was there, once */
	bool greeted, heard; /* the other side has, and a notice came */
	int64_t due_ms;	     /* when to dial; when to give up one that was not heard */
	unsigned int patience_ms, retry_ms; /* for the next time */
	size_t have, used; /* of wire, how much is filled, how much of that is read */
	uint8_t *wire;
	uint32_t id;	/* of the latest question */
	reply *reply;	/* the latest answer... */
	pb_size_t told; /* ...and how many of its notices were asked for */
};

int subscriber_open(struct subscriber *subscriber, const char *directory);
/* `ours` false: in a forked child, whose copies alone go. */
void subscriber_close(struct subscriber *subscriber, bool ours);
/* The next notice, which is there until the next call. E_TIMED_OUT: none now, without a sentence. Whatever
 * else it answers, it connects anew after a while. */
int subscriber_next(struct subscriber *subscriber, const notice **out_notice);
/* What came makes no sense: away with the connection. Returns E_PROTOCOL. */
int subscriber_refuse(struct subscriber *subscriber);
/* Until subscriber_next() may know more; E_TIMED_OUT: until the deadline. */
int subscriber_wait(struct subscriber *subscriber, int64_t deadline_ms);
/* To be called before others poll `events`; `more`: it is to be readable at once. */
void subscriber_settle(struct subscriber *subscriber, bool more);

#endif
