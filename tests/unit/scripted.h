/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_SCRIPTED_H
#define GPUSHARE_TESTS_UNIT_SCRIPTED_H
/*
 * A registry that the test controls: a thread that listens in its own directory, records requests,
 * and answers as `scripted` says. By default it knows no name: Lookup and Attach get E_NOT_FOUND,
 * but each Share succeeds.
 */
#include <pthread.h>

#include "protocol.h"

#define SCRIPTED_MAX 64

struct scripted {
	char directory[64];
	/* How it behaves. *_at: what it does at this gpushare_Request_*_tag; 0: at none. */
	_Atomic pb_size_t mute_at; /* does not answer until this changes */
	pb_size_t drop_at;   /* closes the connection, once; over fds.sock, registry.sock's too */
	pb_size_t half_at;   /* sends half an answer and closes the connection, once */
	pb_size_t end_at;    /* ends */
	bool gives_latest;   /* each Attach gets the latest Share's buffer */
	unsigned int nap_ms; /* before each answer */
	uint64_t wants[SCRIPTED_MAX]; /* generations to ask for in ResyncReply */
	size_t wants_count;
	int memory; /* descriptor to send with answers that carry one; 0: none */
	/* How many more times it closes connections, as a restart would: */
	unsigned int lose_fds; /* at a request over fds.sock: that one and all of registry.sock */
	unsigned int lose_staged; /* at a Commit: that one; the next Commit gets E_NOT_FOUND */
	int share_status;	  /* status for a Share with `again`; 0: it succeeds */
	/* what it recorded */
	unsigned int asked[32]; /* requests by tag */
	uint8_t resumed_by[16]; /* session key of the latest Hello */
	uint32_t attempt;	/* of the latest Hello */
	unsigned int ended;	/* closed connections */
	gpushare_Hold shared[SCRIPTED_MAX], attached[SCRIPTED_MAX]; /* of the latest resync */
	size_t shared_count, attached_count;
	unsigned int resyncings; /* complete ones */
	gpushare_Share shares[SCRIPTED_MAX];
	bool brought[SCRIPTED_MAX]; /* by Share: did a descriptor come with it? */
	size_t shares_count;
	unsigned int came, given; /* descriptors received; answers that should carry one */
	uint64_t generation;	  /* the latest that it assigned */
};

/* Take the lock to read what the thread writes. */
extern struct scripted scripted;
void scripted_lock(void);
void scripted_unlock(void);

/* For cmocka: make a directory, set GPUSHARE_DIR to it, and turn autostart off. The test calls
 * scripted_start(). */
int scripted_set_up(void **state);
int scripted_tear_down(void **state);

/* Start the thread in this process. A forked child must do so itself. */
void scripted_start(void);
/* End the thread as SIGKILL would: the socket files stay, but nobody listens. */
void scripted_end(void);

#endif
