/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RECORDS_H
#define GPUSHARE_REGISTRY_RECORDS_H
/*
 * <dir>/registry.state: what stands in the registry, for its successor, which finds it there however this one
 * ended. Each record (state.proto) has a slot of its own, with a checksum. One that changes gets another slot,
 * and then leaves the old one: a successor that finds both believes what came last. So nothing is ever
 * written anew, and the file is as long as most that stood at a time. In the host's byte order, in the page
 * cache: it serves a restart of the registry, not of the host. No threads.
 *
 * The file is chunks of 64 KiB, each of slots of one size, which its first word tells in units of 64 bytes. A
 * chunk without a record gives its room back. The file has a second name, to come back by when the first is
 * removed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"
#include "state.pb.h"

#define RECORDS_VERSION 2
#define RECORDS_FILE GPUSHARE_STATE
#define RECORDS_RETRY_S 10 /* after a write that failed */
#define RECORDS_UNIT 64u
#define RECORDS_UNITS 1024u /* of a chunk, its first is its own */

/* In front of each. size 0: the slot is free. */
struct records_head {
	uint32_t sum;	/* of what follows here, and of the record */
	uint16_t size;	/* of the record */
	uint16_t kind;	/* its field in State: they are read in that order */
	uint64_t stamp; /* what came later has more */
};
#define RECORDS_FRAME_MAX (sizeof(struct records_head) + gpushare_State_size)
#define RECORDS_CLASSES (RECORDS_FRAME_MAX / RECORDS_UNIT + 2)

struct records_chunk;

struct records {
	int directory; /* fd; -1: nothing is written down */
	int file;      /* -1: none so far, or it can't be written */
	uint64_t stamp;
	int64_t retry_ns; /* after a failure: not before; 0: there was none */
	struct records_chunk **chunks;
	size_t count;				      /* of those */
	struct records_chunk *unused;		      /* chunks of no size */
	struct records_chunk *roomy[RECORDS_CLASSES]; /* by units of a slot: with a free one */
};

void records_init(struct records *records);
/* The directory is the records' from here on. */
void records_open(struct records *records, int directory);
/* `keep` the file, for a successor. */
void records_close(struct records *records, bool keep);

/*
 * Each record of what a predecessor left, by kind and then as they came, with its slot; the file goes on from
 * there. false, and there is no file: there was none of ours, or `each` said that one is not to be believed.
 */
bool records_read(struct records *records,
		  bool (*each)(void *context, const gpushare_State *what, unsigned int slot),
		  void *context);
/* What is put between these two takes the place of all that was there. false: logged, once. */
bool records_begin(struct records *records);
void records_commit(struct records *records);
/* Now and then: a name of the file that somebody has removed is there again. */
void records_tend(struct records *records);

/* Write it down; *slot (0: none) is where it was, and then where it is. 0, and logged once: it is written
 * nowhere, and no file is left, as half of the truth is none. */
void records_put(struct records *records, const gpushare_State *what, unsigned int *slot);
/* Its slot is free; 0: it had none. */
void records_drop(struct records *records, unsigned int *slot);
/* Some time after a failure: all that stands is to be put again, behind records_begin(). */
bool records_wants_all(const struct records *records);

/* This boot's id; "": it can't be told. */
void records_boot(char out_boot[sizeof(((gpushare_Begin *)0)->boot)]);
/* As it stands in its slot; the bytes that it takes, 0: it can't be encoded. */
size_t records_frame(const gpushare_State *what, uint64_t stamp, uint8_t to[RECORDS_FRAME_MAX]);

#endif
