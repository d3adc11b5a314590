/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RECORDS_H
#define GPUSHARE_REGISTRY_RECORDS_H
/*
 * <dir>/registry.state: the records (state.proto) that a successor reads, however this registry
 * ended. The file is a sequence of slots. A slot is a number of units of 64 bytes: a head, then the
 * record. A slot keeps its place and size. To change a record, the registry writes another slot and
 * then frees the old one. If two slots have records of one thing, the one with the higher stamp is
 * valid. The file is in the host's byte order and in the page cache: it survives a restart of the
 * registry, not of the host. One thread at a time may use this module.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"
#include "state.pb.h"

#define RECORDS_VERSION 3
#define RECORDS_FILE GPUSHARE_STATE
#define RECORDS_RETRY_S 10 /* seconds after a failed write */
#define RECORDS_UNIT 64u

struct records_head {
	uint32_t sum;  /* of the rest of the head and of the record */
	uint16_t size; /* bytes of the record; 0: the slot is free */
	uint8_t kind;  /* the record's field in State: records are read in that order */
	uint8_t units; /* units of the slot */
	uint64_t stamp;
};
#define RECORDS_FRAME_MAX (sizeof(struct records_head) + gpushare_State_size)
#define RECORDS_UNITS_MAX ((RECORDS_FRAME_MAX + RECORDS_UNIT - 1) / RECORDS_UNIT)

struct records;

/* `directory` is an open descriptor, which records_close() closes. NULL: out of memory; the caller
 * keeps `directory`. */
struct records *records_open(int directory);
/* `keep`: leave the file for a successor; else remove it. Returns NULL. */
struct records *records_close(struct records *records, bool keep);
/* Whether a file is open for records. `records` may be NULL. */
bool records_are_kept(const struct records *records);

/* Call `each` for every record of a predecessor, by kind and then by stamp, until it returns false.
 * The file stays as it is. */
void records_read(const struct records *records,
		  bool (*each)(void *context, const gpushare_State *what), void *context);
/* Let put_all() write all records, by records_put(), into a new file, which replaces the present
 * one. Slots of earlier files mean nothing from then on. If no new file can be made, that is logged
 * once, and the present one stays in use. */
void records_rewrite(struct records *records, void (*put_all)(void *context), void *context);
/* Whether the slot is one of the present file. */
bool records_has(const struct records *records, uint64_t slot);
/* Whether to rewrite the file: it was removed, a write failed more than RECORDS_RETRY_S ago, or the
 * file is far too large for its records. Ask regularly. */
bool records_want_all(const struct records *records);
/* Whether the file still has its name, so that a successor finds it. */
bool records_stand(const struct records *records);

/* Write a record. *slot is its old slot (0: none), and becomes its new one. 0: the record could not
 * be written, which is logged once. Then the file is removed, because a successor must not believe
 * an incomplete one. records_drop() frees the slot; `records` may be NULL there. */
void records_put(struct records *records, const gpushare_State *what, uint64_t *slot);
void records_drop(struct records *records, uint64_t *slot);

/* This boot's id; "": unknown. */
void records_boot(char out_boot[sizeof(((gpushare_Header *)0)->boot)]);
/* Make a frame: a record with its head, as in its slot. Returns its size in bytes; 0: the record
 * can't be encoded. */
size_t records_frame(const gpushare_State *what, uint64_t stamp, uint8_t to[RECORDS_FRAME_MAX]);
/* Write the head, with its sum, before the frame's record. Returns the frame's size in bytes. */
size_t records_seal(uint8_t *frame, const struct records_head *head);

#endif
