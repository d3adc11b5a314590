/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RECORDS_H
#define GPUSHARE_REGISTRY_RECORDS_H
/*
 * <dir>/registry.state: the records (state.proto) that a successor reads, however this registry ended. The file
 * consists of slots, one after the other, each of some units of 64 bytes with a head in front. A slot keeps its
 * place and size. A record that changes is written into another slot, and then its old one becomes free: of two
 * records of one thing, the one with the higher stamp is valid. The file is in the host's byte order, and in the
 * page cache: it serves a restart of the registry, not of the host. No threads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"
#include "state.pb.h"

#define RECORDS_VERSION 3
#define RECORDS_FILE GPUSHARE_STATE
#define RECORDS_RETRY_S 10 /* after a write that failed */
#define RECORDS_UNIT 64u

struct records_head {
	uint32_t sum;  /* of what follows here, and of the record */
	uint16_t size; /* of the record; 0: the slot is free */
	uint8_t kind;  /* its field in State: records are read in that order */
	uint8_t units; /* of the slot */
	uint64_t stamp;
};
#define RECORDS_FRAME_MAX (sizeof(struct records_head) + gpushare_State_size)
#define RECORDS_UNITS_MAX ((RECORDS_FRAME_MAX + RECORDS_UNIT - 1) / RECORDS_UNIT)

struct records;

/* The directory's, which is the records' from here on. NULL: out of memory. */
struct records *records_open(int directory);
/* `keep` the file, for a successor. Returns NULL. */
struct records *records_close(struct records *records, bool keep);
/* false: nothing is written, or it can't be. */
bool records_are_kept(const struct records *records);

/*
 * Each record of a predecessor with its slot, by kind and then by stamp; the file goes on from there. false:
 * there was no file of ours, or `each` refused a record. Nothing is written then.
 */
bool records_read(struct records *records,
		  bool (*each)(void *context, const gpushare_State *what, uint64_t slot),
		  void *context);
/* The records that are put between these two replace all earlier ones, whose slots say nothing from then on.
 * false: logged, once; a file that stands goes on. */
bool records_begin(struct records *records);
void records_commit(struct records *records);
bool records_are_begun(const struct records *records);
/* There is a record in that slot. */
bool records_has(const struct records *records, uint64_t slot);
/* To be asked now and then, whether all is to be put again between those: the file was removed, or could not be
 * written some time ago, or is far too large for what is in it. */
bool records_want_all(const struct records *records);
/* The file is where a successor looks for it. */
bool records_stand(const struct records *records);

/* Write a record; *slot (0: none) is where it was, and then where it is. 0, and logged once: it could not be
 * written. No file is left then, because a successor must not believe a part. */
void records_put(struct records *records, const gpushare_State *what, uint64_t *slot);
void records_drop(struct records *records, uint64_t *slot);

/* This boot's id; "": it can't be told. */
void records_boot(char out_boot[sizeof(((gpushare_Header *)0)->boot)]);
/* A record as it stands in its slot; the bytes that it takes, 0: it can't be encoded. */
size_t records_frame(const gpushare_State *what, uint64_t stamp, uint8_t to[RECORDS_FRAME_MAX]);
/* Fill in the size and the sum of a frame whose record follows the head. Returns the frame's size. */
size_t records_seal(uint8_t *frame, const struct records_head *head);

#endif
