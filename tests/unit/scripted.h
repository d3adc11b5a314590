/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_SCRIPTED_H
#define GPUSHARE_TESTS_UNIT_SCRIPTED_H
/*
 * A registry that a test plays: a thread that listens in a directory of its own, remembers what it
 * is asked and answers as it is told. Names are never there; what is shared always is.
 */
#include <pthread.h>

#include "protocol.h"

#define SCRIPTED_MAX 64

struct scripted {
	char directory[64];
	/* how it behaves; each is a gpushare_Request_*_tag, 0: none */
	_Atomic pb_size_t mute_at;    /* is asked that and stands still */
	pb_size_t drop_at;	      /* is asked that and closes the connection, once */
	pb_size_t half_at;	      /* the same, with half an answer sent */
	pb_size_t end_at;	      /* is asked that and ends */
	bool gives_latest;	      /* whatever is attached is what was shared last */
	unsigned int nap_ms;	      /* before each answer */
	uint64_t wants[SCRIPTED_MAX]; /* these generations, when it is told of them */
	size_t wants_count;
	int memory; /* what comes back wherever a descriptor does; 0: nothing */
	/* so many times all connections go, as by a restart: */
	unsigned int lose_fds;	  /* at a request with which a descriptor goes or comes back */
	unsigned int lose_staged; /* at a Commit, and the next knows of nothing that is staged */
	int share_status;	  /* what a Share with `again` is answered */
	/* what it was asked */
	unsigned int asked[32];					    /* by tag */
	uint8_t resumed_by[16];					    /* of the latest Hello */
	uint32_t attempt;					    /* of the latest Hello */
	unsigned int ended;					    /* connections */
	gpushare_Hold shared[SCRIPTED_MAX], attached[SCRIPTED_MAX]; /* of the latest resyncing */
	size_t shared_count, attached_count;
	unsigned int resyncings; /* that came to their end */
	gpushare_Share shares[SCRIPTED_MAX];
	bool brought[SCRIPTED_MAX]; /* a descriptor with it */
	size_t shares_count;
	unsigned int came, given; /* descriptors, or that were to be */
	uint64_t generation;	  /* the latest that it gave */
};

/* What the thread writes is read under this. */
extern struct scripted scripted;
void scripted_lock(void);
void scripted_unlock(void);

/* For cmocka: a directory, in $GPUSHARE_DIR too, and a registry in it; no autostart. */
int scripted_set_up(void **state);
int scripted_tear_down(void **state);

/* In this process: what a child of the test needs for itself. The directory stays. */
void scripted_start(void);
/* As by SIGKILL: its sockets lie there, and nobody listens. */
void scripted_end(void);

#endif
