/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CHANGE_H
#define GPUSHARE_REGISTRY_CHANGE_H
/*
 * What changes in the state, for those who must know: records, descriptors, the pages that clients map,
 * notices, audit, stream-sync pages. The state knows one observer, which is called under the lock, before
 * anybody is answered, and changes no buffer or session itself.
 */
#include "state/tombstone.h"

struct attachment;
struct entry;
struct session;

enum change_kind {
	/* Of `entry`, under its name */
	CHANGE_SHARE, /* a new generation, of `session` */
	CHANGE_RETURN, /* kept without an owner; `session` owns it now, with its flags, mode and group */
	CHANGE_HOLD,	/* its descriptor is here */
	CHANGE_UPDATE,	/* tags; owner's process as it is seen now */
	CHANGE_COMMIT,	/* staged no more; of `session` */
	CHANGE_ORPHAN,	/* its owner has gone, it is kept */
	CHANGE_REPLACE, /* about to be another generation, which `session` shares */
	CHANGE_REMOVE,	/* about to go, for `how` */
	CHANGE_DROP,	/* about to go, and nobody hears why */
	/* Of `entry`, without a name */
	CHANGE_DEFER, /* it lost its name for `how`; others have it attached, or its owner is not told */
	CHANGE_CONFIRM, /* its owner holds the memory for its attachers */
	CHANGE_FREE,	/* about to go */
	/* Of `session` and its `attachment`, to `entry`; NULL: that isn't here */
	CHANGE_ATTACH, /* more of them than before */
	CHANGE_DETACH, /* fewer; with a count of 0 it goes */
	/* Of `session` */
	CHANGE_SEEN,  /* its process is seen otherwise than before */
	CHANGE_LEAVE, /* its connection has ended; all that it has goes next */
};

struct change {
	enum change_kind kind;
	enum departure how;
	struct entry *entry;
	struct session *session;
	struct attachment *attachment;
};

#endif
