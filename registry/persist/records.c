/* SPDX-License-Identifier: MIT */
#include "persist/records.h"

#include <errno.h>
#include <fcntl.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/closer.h"
#include "os/hash.h"
#include "os/log.h"

#define RECORDS_NEW RECORDS_FILE ".new"
#define HEAD sizeof(struct records_head)
/* Rewrite a file of more than LARGE units if fewer than FEW units hold records. */
#define LARGE 65536
#define FEW 512

struct free_slots {
	unsigned int *slots;
	size_t count, room;
};

struct records {
	int directory;
	int file; /* -1: none is open: none was made, or a write failed */
	uint64_t stamp;
	int64_t retry_ns;  /* clock_ns() of the next try after a failed write; 0: none failed */
	uint64_t before;   /* slot numbers that earlier files used */
	unsigned int end;  /* the first slot after the last one of the file */
	unsigned int used; /* units in slots that hold a record */
	struct free_slots free[RECORDS_UNITS_MAX + 1]; /* by their size in units */
};

/* In this module, a slot's number is its place in the file in units, from 1. Callers get that
 * number plus `before`, and in the lowest 8 bits the slot's units. */
static off_t place_of(unsigned int slot)
{
	return (off_t)(slot - 1) * RECORDS_UNIT;
}

static uint32_t sum_of(const uint8_t *frame, size_t record_size)
{
	size_t size = HEAD - sizeof(uint32_t) + record_size;
	uint32_t sum = 2166136261u ^ (uint32_t)size;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ frame[sizeof(sum) + i]) * 16777619u;
	return sum;
}

size_t records_seal(uint8_t *frame, const struct records_head *head)
{
	struct records_head sealed = *head;

	memcpy(frame, &sealed, HEAD);
	sealed.sum = sum_of(frame, head->size);
	memcpy(frame, &sealed, HEAD);
	return HEAD + head->size;
}

size_t records_frame(const gpushare_State *what, uint64_t stamp, uint8_t to[RECORDS_FRAME_MAX])
{
	pb_ostream_t stream = pb_ostream_from_buffer(to + HEAD, gpushare_State_size);
	struct records_head head = {.kind = (uint8_t)what->which_change, .stamp = stamp};

	if (!pb_encode(&stream, gpushare_State_fields, what))
		return 0;
	head.size = (uint16_t)stream.bytes_written;
	head.units = (uint8_t)((HEAD + head.size + RECORDS_UNIT - 1) / RECORDS_UNIT);
	return records_seal(to, &head);
}

struct records *records_open(int directory)
{
	struct records *records = calloc(1, sizeof(*records));

	if (!records)
		return NULL;
	records->directory = directory;
	records->file = -1;
	records->end = 1;
	return records;
}

bool records_are_kept(const struct records *records)
{
	return records && records->file >= 0;
}

/* Continue with `file`, which is empty (-1: without a file). Returns the previous one. */
static int switch_to(struct records *records, int file)
{
	int old = records->file;

	records->file = file;
	for (size_t units = 0; units <= RECORDS_UNITS_MAX; units++)
		free(records->free[units].slots);
	memset(records->free, 0, sizeof(records->free));
	records->before += records->end;
	records->end = 1;
	records->used = 0;
	return old;
}

/* Remove the files, so that no successor believes their records. */
static void clear(struct records *records)
{
	bool gone = !unlinkat(records->directory, RECORDS_FILE, 0) || errno == ENOENT;

	if (!gone && records->file >= 0 && ftruncate(records->file, 0))
		log_line("can't empty %s: %s", RECORDS_FILE, strerror(errno));
	unlinkat(records->directory, RECORDS_NEW, 0);
}

struct records *records_close(struct records *records, bool keep)
{
	int file;

	if (!records)
		return NULL;
	if (!keep)
		clear(records);
	file = switch_to(records, -1);
	if (file >= 0)
		close(file);
	close(records->directory);
	free(records);
	return NULL;
}

static void put_off(struct records *records, int error)
{
	if (!records->retry_ns)
		log_line("can't write %s: %s; a restart of the registry may lose shared buffers",
			 RECORDS_FILE, strerror(error));
	records->retry_ns = clock_ns() + RECORDS_RETRY_S * NS_PER_S;
}

/* Close the file in another thread: freeing a large file's memory takes long. */
static void close_later(int file)
{
	if (file >= 0)
		closer_add(NULL, file);
}

static bool fail(struct records *records, int error)
{
	put_off(records, error);
	clear(records);
	close_later(switch_to(records, -1));
	return false;
}

bool records_stand(const struct records *records)
{
	struct stat is;

	return records->file >= 0 && !fstat(records->file, &is) && is.st_nlink;
}

bool records_want_all(const struct records *records)
{
	return clock_ns() >= records->retry_ns &&
	       (!records_stand(records) || (records->end > LARGE && records->used < FEW));
}

bool records_has(const struct records *records, uint64_t slot)
{
	return slot >> 8 > records->before;
}

void records_rewrite(struct records *records, void (*put_all)(void *context), void *context)
{
	int file, old = -1;

	/* Always make a new file. Never follow a link, and never write into a file that another
	 * process has open. */
	unlinkat(records->directory, RECORDS_NEW, 0);
	file = openat(records->directory, RECORDS_NEW,
		      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0 && records->file >= 0) {
		put_off(records, errno); /* the present file is valid and stays in use */
	} else if (file < 0) {
		fail(records, errno);
	} else {
		old = switch_to(records, file);
		put_all(context);
		if (records->file >= 0 &&
		    renameat(records->directory, RECORDS_NEW, records->directory, RECORDS_FILE))
			fail(records, errno);
		if (records->file >= 0)
			records->retry_ns = 0;
	}
	close_later(old);
}

static bool write_at(struct records *records, const void *from, size_t size, unsigned int slot)
{
	ssize_t wrote = pwrite(records->file, from, size, place_of(slot));

	return wrote == (ssize_t)size || fail(records, wrote < 0 ? errno : ENOSPC);
}

/* Write a head without a record: a successor walks from head to head, so each slot always has a
 * valid one. If memory is out, the slot stays unused until the file is rewritten. */
static void free_slot(struct records *records, unsigned int slot, uint8_t units)
{
	struct free_slots *list = &records->free[units];
	size_t more = list->room ? 2 * list->room : 16;
	unsigned int *grown;
	uint8_t frame[HEAD];

	records_seal(frame, &(struct records_head){.units = units});
	if (!write_at(records, frame, HEAD, slot))
		return;
	if (list->count == list->room) {
		grown = realloc(list->slots, more * sizeof(*grown));
		if (!grown)
			return;
		list->slots = grown;
		list->room = more;
	}
	list->slots[list->count++] = slot;
}

void records_drop(struct records *records, uint64_t *slot)
{
	uint64_t was = *slot;

	*slot = 0;
	if (!records || !records_has(records, was))
		return;
	records->used -= was & UINT8_MAX;
	free_slot(records, (unsigned int)((was >> 8) - records->before), (uint8_t)was);
}

void records_put(struct records *records, const gpushare_State *what, uint64_t *slot)
{
	uint8_t frame[RECORDS_FRAME_MAX];
	struct free_slots *list;
	struct records_head head;
	uint64_t was = *slot;
	unsigned int is;
	size_t size;

	*slot = 0;
	if (!records_are_kept(records))
		return;
	size = records_frame(what, ++records->stamp, frame);
	if (!size) {
		fail(records, EMSGSIZE);
		return;
	}
	memcpy(&head, frame, HEAD);
	list = &records->free[head.units];
	is = list->count ? list->slots[--list->count] : records->end;
	if (!write_at(records, frame, size, is))
		return;
	if (is == records->end)
		records->end += head.units;
	records->used += head.units;
	records_drop(records, &was);
	*slot = records->file >= 0 ? (records->before + is) << 8 | head.units : 0;
}

void records_boot(char out_boot[sizeof(((gpushare_Header *)0)->boot)])
{
	int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length = -1;

	if (file >= 0) {
		length = read(file, out_boot, sizeof(((gpushare_Header *)0)->boot) - 1);
		close(file);
	}
	out_boot[length < 0 ? 0 : length] = '\0';
}

static bool is_whole(const struct records_head *head)
{
	return HEAD + head->size <= head->units * RECORDS_UNIT &&
	       HEAD + head->size <= RECORDS_FRAME_MAX &&
	       head->sum == sum_of((const uint8_t *)head, head->size);
}

/* Find the records in a copy of the file. Returns how many there are. */
static size_t scan(const uint8_t *copy, size_t size, const struct records_head **out_found)
{
	const struct records_head *head;
	size_t count = 0;

	for (size_t at = 0; at < size; at += head->units * RECORDS_UNIT) {
		head = (const void *)(copy + at);
		if (!head->units || head->units > RECORDS_UNITS_MAX)
			break;
		if (!is_whole(head))
			log_line("%s has a damaged record, which is ignored", RECORDS_FILE);
		else if (head->size)
			out_found[count++] = head;
	}
	return count;
}

static int compare(const void *one, const void *other)
{
	const struct records_head *const *a = one, *const *b = other;

	if ((*a)->kind != (*b)->kind)
		return (*a)->kind < (*b)->kind ? -1 : 1;
	return (*a)->stamp < (*b)->stamp ? -1 : (*a)->stamp > (*b)->stamp;
}

/* Copy a predecessor's file, followed by zeros for a record that is cut off. NULL: there is no
 * file, or memory is out. */
static uint8_t *copy_left(const struct records *records, size_t *out_size)
{
	int file = openat(records->directory, RECORDS_FILE,
			  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	uint8_t *copy = NULL;
	struct stat is;
	ssize_t got;

	if (file < 0) {
		if (errno != ENOENT)
			log_line("can't read %s: %s", RECORDS_FILE, strerror(errno));
		return NULL;
	}
	if (fstat(file, &is) || !S_ISREG(is.st_mode) || is.st_uid != geteuid())
		log_line("%s is not a regular file of this user, and is ignored", RECORDS_FILE);
	else if (!(copy = calloc(1, (size_t)is.st_size + RECORDS_FRAME_MAX)))
		log_line("%s is ignored: out of memory", RECORDS_FILE);
	*out_size = 0;
	while (copy && (got = read(file, copy + *out_size, (size_t)is.st_size - *out_size)) > 0)
		*out_size += (size_t)got;
	close(file);
	return copy;
}

void records_read(const struct records *records,
		  bool (*each)(void *context, const gpushare_State *what), void *context)
{
	const struct records_head **found = NULL;
	size_t size, count = 0;
	uint8_t *copy = copy_left(records, &size);

	if (copy)
		found = malloc((size / RECORDS_UNIT + 1) * sizeof(*found));
	if (found) {
		count = scan(copy, size, found);
		qsort(found, count, sizeof(*found), compare);
	}
	for (size_t i = 0; i < count; i++) {
		pb_istream_t stream =
		    pb_istream_from_buffer((const uint8_t *)(found[i] + 1), found[i]->size);
		gpushare_State what = {0};

		if (pb_decode(&stream, gpushare_State_fields, &what) && !each(context, &what))
			break;
	}
	free(found);
	free(copy);
}
