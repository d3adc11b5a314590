/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RESYNC_H
#define GPUSHARE_SHIM_RESYNC_H
/*
 * After a registry restarted or did not answer, the next call to it runs a resync: it reports all
 * that this client shares and has attached. Names and generations (the registry's numbers for
 * buffers) are reported before the call's own request. Memory that the registry then wants again is
 * shared after the request, because that takes driver calls. If a call has too little time for all
 * this, the next one continues. The preload has one struct resync, each session of the API another.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "client/client.h"

/* Identifies a buffer in the tables of the resync's user: the preload, or a session of the API. */
struct resync_ref {
	uint64_t generation; /* 0: the registry has not answered its Share */
	uint64_t key;	     /* by which the preload or session finds the buffer */
	bool attached;
	bool object; /* the preload's key is an object's handle, not a pointer */
	bool anew;   /* in resync.wanted: share it under a new generation */
};

struct resync;
struct resync_calls {
	/* Call resync_add() for every buffer that has a name. false: not possible now. */
	bool (*list)(struct resync *resync);
	/* Fill in the buffer's name and the total number of its attachments. false: the buffer has
	 * gone meanwhile. */
	bool (*hold)(struct resync *resync, const struct resync_ref *ref, gpushare_Hold *out_hold);
	/* Share the buffer again by `until_ms`. false: stop sharing; everything is reported
	 * again. */
	bool (*share)(struct resync *resync, const struct resync_ref *ref, int64_t until_ms);
	/* Called if the registry rejects the report. NULL: nobody needs to know. */
	void (*refused)(const char *why);
};

struct resync_list {
	struct resync_ref *refs;
	size_t count, room;
};

struct resync {
	const struct resync_calls *calls;
	void *owner; /* for the use of `calls` */
	/* used only by the thread that holds the client's lock: */
	unsigned int connection; /* client->connections at the beginning of the latest resync */
	struct resync_list told; /* buffers listed when the resync began */
	size_t at;		 /* index in `told` of the next buffer to report */
	atomic_bool goes_on;	 /* a resync has begun and not ended; any thread reads this */
	/* used by any thread: */
	pthread_mutex_t lock;	   /* held for a few instructions */
	struct resync_list wanted; /* buffers that the registry wants to be shared again */
	atomic_size_t wants;	   /* count of `wanted` */
	atomic_bool sharing;	   /* a thread is sharing the wanted buffers */
	atomic_uint readings; /* +1 when a reading of the owner's tables begins, +1 when it ends */
	atomic_bool missed;   /* everything must be reported again */
};

/* The first connection needs no report. */
#define RESYNC_INITIALIZER \
	{ \
		.connection = 1, .lock = PTHREAD_MUTEX_INITIALIZER \
	}

/* From now on the client's resync uses `calls`. */
void resync_by(struct resync *resync, const struct resync_calls *calls, struct client *client);
void resync_finish(struct resync *resync);

/* For resync_calls.list(). false: out of memory. */
bool resync_add(struct resync *resync, const struct resync_ref *ref);

/*
 * Does the registry want any memory again? resync_share() shares it until `until_ms`, one thread at
 * a time; `timeout_ms` is the limit of a whole call. The caller holds no lock.
 */
static inline bool resync_wants(const struct resync *resync)
{
	return atomic_load_explicit(&resync->wants, memory_order_acquire);
}
void resync_share(struct resync *resync, int64_t until_ms, unsigned int timeout_ms);

/*
 * A buffer can be in no table for a while: its Share was just answered, or it is about to be
 * detached, or its free is about to wait for a stream. A resync that reads the tables meanwhile
 * misses the buffer. So the thread takes resync_readings() at the beginning of that time. At the
 * end, resync_check() has everything reported again if the tables were read in between.
 */
static inline unsigned int resync_readings(const struct resync *resync)
{
	return atomic_load_explicit(&resync->readings, memory_order_acquire);
}
static inline bool resync_is_read(const struct resync *resync, unsigned int readings)
{
	unsigned int now = resync_readings(resync);

	return now != readings || now % 2; /* odd: a reading is going on */
}
/* For a request sent without the client's lock: another thread's resync, sent before the request,
 * may arrive after it. If a resync is going on, resync_check() of the returned value has everything
 * reported again. */
static inline unsigned int resync_readings_aside(const struct resync *resync)
{
	unsigned int readings = resync_readings(resync);

	return atomic_load_explicit(&resync->goes_on, memory_order_acquire) ? readings - 1
									    : readings;
}
void resync_miss(struct resync *resync);
void resync_check(struct resync *resync, unsigned int readings);
/* Was anything missed since the last call of resync_missed()? */
bool resync_missed(struct resync *resync);
/* Whether the registry may lack a buffer that is still to be reported or shared again. Then its
 * E_NOT_FOUND is not final. */
bool resync_is_pending(const struct resync *resync);

#endif
