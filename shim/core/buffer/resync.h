/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RESYNC_H
#define GPUSHARE_SHIM_RESYNC_H
/*
 * A registry that was restarted, or did not answer, hears of all that this client shares and has attached, in
 * the next call that asks it something: names and generations before the question; the memory of what
 * it then wants again behind it, which takes driver calls. What a call has no time for is left to the
 * next one. The preload has one of these, each session of the API another.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "client/client.h"

/* A buffer as its owner finds it again. */
struct resync_ref {
	uint64_t generation; /* 0: its share was not answered */
	uint64_t key;	     /* the owner's */
	bool attached;
	bool object; /* the owner's, too */
	bool anew;   /* wanted: under a new generation */
};

struct resync;
struct resync_calls {
	/* resync_add() all that has a name. false: not now. */
	bool (*list)(struct resync *resync);
	/* Its name, and how often it is attached, altogether. false: it has gone meanwhile. */
	bool (*hold)(struct resync *resync, const struct resync_ref *ref, gpushare_Hold *out_hold);
	/* Share it again by then. false: no more of this now, all is told once more. */
	bool (*share)(struct resync *resync, const struct resync_ref *ref, int64_t until_ms);
	/* The registry refused to hear it; NULL: nobody is to know. */
	void (*refused)(const char *why);
};

struct resync_list {
	struct resync_ref *refs;
	size_t count, room;
};

struct resync {
	const struct resync_calls *calls;
	void *owner; /* theirs */
	/* of who has the client */
	unsigned int connection; /* that is being told, or was */
	struct resync_list told; /* what was there when this began */
	size_t at;		 /* the next to tell of */
	atomic_bool goes_on;	 /* which others look at */
	/* of anybody */
	pthread_mutex_t lock; /* for a few instructions */
	struct resync_list wanted;
	atomic_size_t wants;  /* how many those are */
	atomic_flag sharing;  /* a thread shares them again */
	atomic_uint readings; /* one more before and behind each look at what is there */
	atomic_bool missed;
};

/* clang-format off */
/* Of the first connection there is nothing to tell. */
#define RESYNC_INITIALIZER {.connection = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .sharing = ATOMIC_FLAG_INIT}
/* clang-format on */

/* From now on the client is told of by those. */
void resync_by(struct resync *resync, const struct resync_calls *calls, struct client *client);
void resync_finish(struct resync *resync);

/* For list(). false: out of memory. */
bool resync_add(struct resync *resync, const struct resync_ref *ref);

/*
 * Does the registry want anything again? Share it until then, where a call may take `timeout_ms`; one
 * thread at a time, none of whose locks is held.
 */
static inline bool resync_wants(const struct resync *resync)
{
	return atomic_load_explicit(&resync->wants, memory_order_acquire);
}
void resync_share(struct resync *resync, int64_t until_ms, unsigned int timeout_ms);

/*
 * A buffer that is in no table for a while, as its share is just answered, or it is to be detached or
 * to wait for a stream, was overlooked if there was a look in between: it notes the number of readings
 * when that begins, and at the end resync_check() has all told once more.
 */
static inline unsigned int resync_readings(const struct resync *resync)
{
	return atomic_load_explicit(&resync->readings, memory_order_acquire);
}
static inline bool resync_is_read(const struct resync *resync, unsigned int readings)
{
	unsigned int now = resync_readings(resync);

	return now != readings || now % 2; /* odd: at this moment */
}
void resync_miss(struct resync *resync);
void resync_check(struct resync *resync, unsigned int readings);
/* Was anything missed since this was asked? */
bool resync_missed(struct resync *resync);

#endif
