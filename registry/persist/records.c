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
#include "os/hash.h"
#include "os/log.h"

#define RECORDS_NEW RECORDS_FILE ".new"
#define RECORDS_SPARE RECORDS_FILE ".spare" /* its other name */
#define CHUNK_SIZE (RECORDS_UNITS * RECORDS_UNIT)
#define STAMP_SANE (UINT64_MAX / 2)
#define HEAD sizeof(struct records_head)

struct records_chunk {
	uint32_t number;      /* its place in the file */
	uint32_t units, used; /* of a slot; slots */
	uint64_t taken[RECORDS_UNITS / 64];
	struct records_chunk *prev, *next; /* among the unused or the roomy ones */
};

/* A slot is called by its place in the file, in units. */
static off_t place_of(unsigned int slot)
{
	return (off_t)slot * RECORDS_UNIT;
}

static uint32_t checksum(const uint8_t *bytes, size_t size)
{
	uint32_t sum = 2166136261u ^ (uint32_t)size;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ bytes[i]) * 16777619u;
	return sum;
}

static uint32_t sum_of(const uint8_t *frame, size_t size)
{
	return checksum(frame + sizeof(uint32_t), HEAD - sizeof(uint32_t) + size);
}

size_t records_frame(const gpushare_State *what, uint64_t stamp, uint8_t to[RECORDS_FRAME_MAX])
{
	pb_ostream_t stream = pb_ostream_from_buffer(to + HEAD, gpushare_State_size);
	struct records_head head = {.kind = what->which_change, .stamp = stamp};

	if (!pb_encode(&stream, gpushare_State_fields, what))
		return 0;
	head.size = (uint16_t)stream.bytes_written;
	memcpy(to, &head, HEAD);
	head.sum = sum_of(to, head.size);
	memcpy(to, &head, HEAD);
	return HEAD + head.size;
}

void records_init(struct records *records)
{
	*records = (struct records){.directory = -1, .file = -1};
}

void records_open(struct records *records, int directory)
{
	records->directory = directory;
}

static void close_file(struct records *records)
{
	if (records->file >= 0)
		close(records->file);
	records->file = -1;
	for (size_t i = 0; i < records->count; i++)
		free(records->chunks[i]);
	free(records->chunks);
	records->chunks = NULL;
	records->count = 0;
	records->unused = NULL;
	memset(records->roomy, 0, sizeof(records->roomy));
}

/* Whatever else goes wrong, a successor must not take what is there for the truth. */
static void clear(struct records *records)
{
	if (records->file >= 0 && ftruncate(records->file, 0))
		log_line("can't empty %s: %s", RECORDS_FILE, strerror(errno));
	unlinkat(records->directory, RECORDS_NEW, 0);
	unlinkat(records->directory, RECORDS_SPARE, 0);
	unlinkat(records->directory, RECORDS_FILE, 0);
}

void records_close(struct records *records, bool keep)
{
	if (records->directory < 0)
		return;
	if (!keep)
		clear(records);
	close_file(records);
	close(records->directory);
	records->directory = -1;
}

static bool fail(struct records *records, int error)
{
	if (!records->retry_ns)
		log_line("can't write %s: %s; a restart of the registry would lose what is shared",
			 RECORDS_FILE, strerror(error));
	clear(records);
	close_file(records);
	records->retry_ns = clock_ns() + RECORDS_RETRY_S * NS_PER_S;
	return false;
}

bool records_wants_all(const struct records *records)
{
	return records->directory >= 0 && records->file < 0 && clock_ns() >= records->retry_ns;
}

bool records_begin(struct records *records)
{
	close_file(records);
	/* Never through a link, and never into a file that somebody has open. */
	unlinkat(records->directory, RECORDS_NEW, 0);
	records->file = openat(records->directory, RECORDS_NEW,
			       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return records->file >= 0 || fail(records, errno);
}

void records_commit(struct records *records)
{
	if (records->file < 0)
		return;
	if (renameat(records->directory, RECORDS_NEW, records->directory, RECORDS_FILE)) {
		fail(records, errno);
		return;
	}
	records->retry_ns = 0;
	unlinkat(records->directory, RECORDS_SPARE, 0);
	records_tend(records);
}

void records_tend(struct records *records)
{
	int at = records->directory;
	struct stat is;

	if (records->file < 0 || fstat(records->file, &is) || is.st_nlink > 1)
		return;
	(void)linkat(at, RECORDS_SPARE, at, RECORDS_FILE, 0);
	(void)linkat(at, RECORDS_FILE, at, RECORDS_SPARE, 0);
}

static bool write_at(struct records *records, const void *from, size_t size, off_t at)
{
	ssize_t wrote = pwrite(records->file, from, size, at);

	return wrote == (ssize_t)size || fail(records, wrote < 0 ? errno : ENOSPC);
}

static uint32_t slots_of(const struct records_chunk *chunk)
{
	return chunk->units ? (RECORDS_UNITS - 1) / chunk->units : 0;
}

/* One more, of no size; NULL: out of memory. */
static struct records_chunk *chunk_new(struct records *records)
{
	struct records_chunk *chunk, **grown = records->chunks;

	if ((records->count & (records->count - 1)) == 0) {
		size_t room = records->count ? 2 * records->count : 1;

		grown = realloc(records->chunks, room * sizeof(struct records_chunk *));
		if (!grown)
			return NULL;
		records->chunks = grown;
	}
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return NULL;
	chunk->number = (uint32_t)records->count;
	grown[records->count++] = chunk;
	DL_APPEND(records->unused, chunk);
	return chunk;
}

/* As DL_DELETE() does, in words that the analyzer follows. */
static void unlist(struct records_chunk **list, struct records_chunk *chunk)
{
	if (chunk->next)
		chunk->next->prev = chunk->prev;
	else
		(*list)->prev = chunk->prev;
	if (*list == chunk)
		*list = chunk->next;
	else
		chunk->prev->next = chunk->next;
}

/* It is one of such slots, all of them free. */
static void chunk_cut(struct records *records, struct records_chunk *chunk, uint32_t units)
{
	unlist(&records->unused, chunk);
	chunk->units = units;
	DL_APPEND(records->roomy[units], chunk);
}

static unsigned int chunk_take(struct records *records, struct records_chunk *chunk, uint32_t index)
{
	chunk->taken[index / 64] |= UINT64_C(1) << index % 64;
	if (++chunk->used == slots_of(chunk))
		unlist(&records->roomy[chunk->units], chunk);
	return chunk->number * RECORDS_UNITS + 1 + index * chunk->units;
}

/* One with a free slot of that size, as the file has it; NULL: there is no memory, or no file any more. */
static struct records_chunk *chunk_for(struct records *records, uint32_t units)
{
	struct records_chunk *chunk = records->roomy[units];

	if (chunk)
		return chunk;
	chunk = records->unused ? records->unused : chunk_new(records);
	if (!chunk) {
		fail(records, ENOMEM);
		return NULL;
	}
	if (!write_at(records, &units, sizeof(units), place_of(chunk->number * RECORDS_UNITS)))
		return NULL;
	chunk_cut(records, chunk, units);
	return chunk;
}

static uint32_t first_free(const struct records_chunk *chunk)
{
	uint32_t word = 0;

	while (!~chunk->taken[word])
		word++;
	return word * 64 + (uint32_t)__builtin_ctzll(~chunk->taken[word]);
}

/* What is empty gives its room back, where another one has some of that size. Where that can't be done it
 * stays what it is: what was in its slots must not be read in others. */
static void chunk_give_back(struct records *records, struct records_chunk *chunk)
{
	struct records_chunk **roomy = &records->roomy[chunk->units];

	if ((*roomy == chunk && !chunk->next) ||
	    fallocate(records->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      place_of(chunk->number * RECORDS_UNITS), CHUNK_SIZE))
		return;
	unlist(roomy, chunk);
	chunk->units = 0;
	DL_APPEND(records->unused, chunk);
}

void records_drop(struct records *records, unsigned int *slot)
{
	static const struct records_head none;
	struct records_chunk *chunk;
	unsigned int was = *slot;
	uint32_t index;

	*slot = 0;
	if (!was || was / RECORDS_UNITS >= records->count)
		return;
	chunk = records->chunks[was / RECORDS_UNITS];
	index = (was % RECORDS_UNITS - 1) / chunk->units;
	if (!write_at(records, &none, sizeof(none), place_of(was)))
		return;
	chunk->taken[index / 64] &= ~(UINT64_C(1) << index % 64);
	if (chunk->used-- == slots_of(chunk))
		DL_APPEND(records->roomy[chunk->units], chunk);
	if (!chunk->used)
		chunk_give_back(records, chunk);
}

void records_put(struct records *records, const gpushare_State *what, unsigned int *slot)
{
	uint8_t frame[RECORDS_FRAME_MAX];
	struct records_chunk *chunk;
	unsigned int was = *slot, is;
	size_t size;

	*slot = 0;
	if (records->file < 0)
		return;
	size = records_frame(what, ++records->stamp, frame);
	chunk = chunk_for(records, (uint32_t)((size + RECORDS_UNIT - 1) / RECORDS_UNIT));
	if (!chunk)
		return;
	is = chunk_take(records, chunk, first_free(chunk));
	if (!write_at(records, frame, size, place_of(is)))
		return;
	records_drop(records, &was);
	*slot = is;
}

void records_boot(char out_boot[sizeof(((gpushare_Begin *)0)->boot)])
{
	int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length = -1;

	if (file >= 0) {
		length = read(file, out_boot, sizeof(((gpushare_Begin *)0)->boot) - 1);
		close(file);
	}
	out_boot[length < 0 ? 0 : length] = '\0';
}

/* One that was found, in the order in which it is to be read. */
struct found {
	uint64_t stamp;
	uint32_t slot;
	uint16_t kind;
};

struct list {
	struct found *found;
	size_t count, room;
};

static bool list_add(struct list *list, const struct found *found)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 1024;
		struct found *grown = realloc(list->found, room * sizeof(*grown));

		if (!grown)
			return false;
		list->found = grown;
		list->room = room;
	}
	list->found[list->count++] = *found;
	return true;
}

static int compare(const void *one, const void *other)
{
	const struct found *a = one, *b = other;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->stamp < b->stamp ? -1 : a->stamp > b->stamp;
}

/* Its records, and which of its slots they are in. false: out of memory. */
static bool scan_chunk(struct records *records, struct list *list, uint8_t bytes[CHUNK_SIZE])
{
	struct records_chunk *chunk = chunk_new(records);
	uint32_t units;

	memcpy(&units, bytes, sizeof(units));
	if (!chunk || !units || units >= RECORDS_CLASSES)
		return chunk;
	chunk_cut(records, chunk, units);
	for (uint32_t index = 0; index < slots_of(chunk); index++) {
		const uint8_t *frame = bytes + (1 + index * units) * RECORDS_UNIT;
		struct records_head head;
		struct found found;

		memcpy(&head, frame, HEAD);
		if (!head.size)
			continue;
		if (HEAD + head.size > units * RECORDS_UNIT || head.stamp > STAMP_SANE ||
		    sum_of(frame, head.size) != head.sum) {
			log_line("a record of %s is not whole, and left out", RECORDS_FILE);
			continue;
		}
		found = (struct found){head.stamp, chunk_take(records, chunk, index), head.kind};
		if (!list_add(list, &found))
			return false;
		if (head.stamp > records->stamp)
			records->stamp = head.stamp;
	}
	return true;
}

static bool scan(struct records *records, struct list *list)
{
	uint8_t *bytes = malloc(CHUNK_SIZE);
	bool well = bytes;
	ssize_t got;

	for (off_t at = 0; well; at += CHUNK_SIZE) {
		got = pread(records->file, bytes, CHUNK_SIZE, at);
		if (got <= 0)
			break;
		memset(bytes + got, 0, CHUNK_SIZE - (size_t)got);
		well = scan_chunk(records, list, bytes);
	}
	free(bytes);
	return well;
}

static bool read_slot(const struct records *records, unsigned int slot, gpushare_State *out_what)
{
	uint8_t frame[RECORDS_FRAME_MAX];
	ssize_t got = pread(records->file, frame, sizeof(frame), place_of(slot));
	struct records_head head;
	pb_istream_t stream;

	if (got < (ssize_t)HEAD)
		return false;
	memcpy(&head, frame, HEAD);
	if (HEAD + head.size > (size_t)got)
		return false;
	stream = pb_istream_from_buffer(frame + HEAD, head.size);
	*out_what = (gpushare_State){0};
	if (!pb_decode(&stream, gpushare_State_fields, out_what))
		out_what->which_change = 0;
	return true;
}

static int open_left(const struct records *records)
{
	int fd =
	    openat(records->directory, RECORDS_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat is;

	if (fd < 0) {
		if (errno != ENOENT)
			log_line("can't read %s: %s", RECORDS_FILE, strerror(errno));
		return -1;
	}
	if (!fstat(fd, &is) && S_ISREG(is.st_mode) && is.st_uid == geteuid())
		return fd;
	log_line("%s is no file of ours, and not read", RECORDS_FILE);
	close(fd);
	return -1;
}

bool records_read(struct records *records,
		  bool (*each)(void *context, const gpushare_State *what, unsigned int slot),
		  void *context)
{
	struct list list = {0};
	gpushare_State what;
	bool well;

	records->file = open_left(records);
	well = records->file >= 0 && scan(records, &list);
	if (list.count)
		qsort(list.found, list.count, sizeof(*list.found), compare);
	for (size_t i = 0; well && i < list.count; i++)
		well = read_slot(records, list.found[i].slot, &what) &&
		       each(context, &what, list.found[i].slot);
	if (!well || !list.count)
		close_file(records);
	free(list.found);
	return records->file >= 0;
}
