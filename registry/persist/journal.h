/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_JOURNAL_H
#define GPUSHARE_REGISTRY_JOURNAL_H
/*
 * <dir>/registry.state: what a registry writes down for its successor, which finds it there however
 * this one ended. A State after the other (state.proto), each behind its size and a checksum: the
 * first that isn't whole ends the file. Written into the page cache, one write() a change, in the
 * host's byte order: it serves a restart of the registry, not of the host.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"
#include "state.pb.h"

#define JOURNAL_VERSION 1
#define JOURNAL_FILE GPUSHARE_STATE
#define JOURNAL_SMALL (UINT64_C(1) << 20) /* bytes: below this it is not written anew */
#define JOURNAL_SLACK 4			  /* nor where that many times what lives would be more */
#define JOURNAL_RETRY_S 10		  /* after a write that failed */
#define JOURNAL_FRAME_MAX (2 * sizeof(uint32_t) + gpushare_State_size)

struct journal {
	int directory;	    /* fd; -1: nothing is written down */
	int file;	    /* -1: none so far, or it can't be written */
	uint64_t size;	    /* of the file */
	uint64_t live;	    /* what of it still means something: see note.h */
	int64_t retry_ns;   /* after a failure: not before */
	int64_t put_off_ns; /* no compaction before */
	bool dirty;	    /* there is more than the file holds */
	size_t used;
	uint8_t buffer[16384];
};

void journal_init(struct journal *journal);
/* The directory is the journal's from here on. */
void journal_open(struct journal *journal, int directory);
/* `keep` the file, for a successor. */
void journal_close(struct journal *journal, bool keep);

/* Returns the bytes that it takes; it is written with the next journal_write(), or before. */
unsigned int journal_put(struct journal *journal, const gpushare_State *what);
/* false: logged, and the file is gone, as half of the truth is none. */
bool journal_write(struct journal *journal);
/* The open file has no name any more. */
bool journal_is_deleted(const struct journal *journal);
/* Whether it should be written anew: it is long, and little of it lives. */
bool journal_is_long(const struct journal *journal);
/* What is put and written between these two takes the place of all that was there. */
/* `compacts`: the old file is up to date, and stays where the new one can't be made. */
bool journal_begin(struct journal *journal, bool compacts);
bool journal_commit(struct journal *journal);

/* Each State of the file, until `each` answers false. */
void journal_read(int directory, bool (*each)(void *context, const gpushare_State *what),
		  void *context);
/* This boot's id; "": it can't be told. */
void journal_boot(char out_boot[sizeof(((gpushare_Begin *)0)->boot)]);
/* One State as it stands in the file; the bytes that it takes, 0: it can't be encoded. */
size_t journal_encode(const gpushare_State *what, uint8_t to[JOURNAL_FRAME_MAX]);

#endif
