/* SPDX-License-Identifier: MIT */
#include "persist/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"

#define JOURNAL_NEW JOURNAL_FILE ".new"
#define JOURNAL_HEAD (2 * sizeof(uint32_t))

/* FNV-1a, with the size first: a file that ends in zeros holds no empty States. */
static uint32_t checksum(uint32_t size, const uint8_t *bytes)
{
	uint32_t sum = 2166136261u ^ size;

	for (uint32_t i = 0; i < size; i++)
		sum = (sum ^ bytes[i]) * 16777619u;
	return sum;
}

size_t journal_encode(const gpushare_State *what, uint8_t to[JOURNAL_FRAME_MAX])
{
	pb_ostream_t stream = pb_ostream_from_buffer(to + JOURNAL_HEAD, gpushare_State_size);
	uint32_t head[2];

	if (!pb_encode(&stream, gpushare_State_fields, what))
		return 0;
	head[0] = (uint32_t)stream.bytes_written;
	head[1] = checksum(head[0], to + JOURNAL_HEAD);
	memcpy(to, head, sizeof(head));
	return JOURNAL_HEAD + head[0];
}

void journal_init(struct journal *journal)
{
	*journal = (struct journal){.directory = -1, .file = -1};
}

void journal_open(struct journal *journal, int directory)
{
	journal->directory = directory;
}

/* Whatever else goes wrong, a successor must not take what is there for the truth. */
static void clear(struct journal *journal)
{
	if (journal->file >= 0 && ftruncate(journal->file, 0))
		log_line("can't empty %s: %s", JOURNAL_FILE, strerror(errno));
	unlinkat(journal->directory, JOURNAL_NEW, 0);
	unlinkat(journal->directory, JOURNAL_FILE, 0);
}

static void close_file(struct journal *journal)
{
	if (journal->file >= 0)
		close(journal->file);
	journal->file = -1;
	journal->used = 0;
	journal->dirty = false;
}

void journal_close(struct journal *journal, bool keep)
{
	if (journal->directory < 0)
		return;
	if (!keep)
		clear(journal);
	close_file(journal);
	close(journal->directory);
	journal->directory = -1;
}

static bool fail(struct journal *journal)
{
	int error = errno;

	if (!journal->retry_ns)
		log_line("can't write %s: %s; a restart of the registry would lose what is shared",
			 JOURNAL_FILE, strerror(error));
	clear(journal);
	close_file(journal);
	journal->retry_ns = clock_ns() + JOURNAL_RETRY_S * NS_PER_S;
	return false;
}

unsigned int journal_put(struct journal *journal, const gpushare_State *what)
{
	size_t size;

	if (journal->used + JOURNAL_FRAME_MAX > sizeof(journal->buffer))
		journal_write(journal);
	size = journal_encode(what, journal->buffer + journal->used);
	journal->used += size;
	journal->dirty = true;
	return (unsigned int)size;
}

bool journal_write(struct journal *journal)
{
	const uint8_t *from = journal->buffer;

	while (journal->file >= 0 && journal->used) {
		ssize_t wrote = write(journal->file, from, journal->used);

		if (wrote < 0)
			return fail(journal);
		from += wrote;
		journal->used -= (size_t)wrote;
		journal->size += (uint64_t)wrote;
	}
	journal->used = 0;
	return journal->file >= 0;
}

bool journal_is_deleted(const struct journal *journal)
{
	struct stat is;

	return !fstat(journal->file, &is) && !is.st_nlink;
}

bool journal_is_long(const struct journal *journal)
{
	return journal->size > JOURNAL_SMALL && journal->size > JOURNAL_SLACK * journal->live &&
	       clock_ns() >= journal->put_off_ns;
}

/* The old file says all that the new one would. */
static bool put_off(struct journal *journal)
{
	log_line("can't make a new %s: %s; the old one stays", JOURNAL_FILE, strerror(errno));
	journal->put_off_ns = clock_ns() + JOURNAL_RETRY_S * NS_PER_S;
	return false;
}

bool journal_begin(struct journal *journal, bool compacts)
{
	int file;

	journal->used = 0;
	/* Never through a link, and never into a file that somebody has open. */
	unlinkat(journal->directory, JOURNAL_NEW, 0);
	file = openat(journal->directory, JOURNAL_NEW,
		      O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return compacts && journal->file >= 0 ? put_off(journal) : fail(journal);
	if (journal->file >= 0)
		close(journal->file);
	journal->file = file;
	journal->size = journal->live = 0;
	return true;
}

bool journal_commit(struct journal *journal)
{
	if (!journal_write(journal))
		return false;
	if (renameat(journal->directory, JOURNAL_NEW, journal->directory, JOURNAL_FILE))
		return fail(journal);
	journal->dirty = false;
	journal->retry_ns = 0;
	return true;
}

void journal_boot(char out_boot[sizeof(((gpushare_Begin *)0)->boot)])
{
	int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length = -1;

	if (file >= 0) {
		length = read(file, out_boot, sizeof(((gpushare_Begin *)0)->boot) - 1);
		close(file);
	}
	out_boot[length < 0 ? 0 : length] = '\0';
}

/* The next one of the file; false: there is none that is whole. */
static bool read_one(FILE *file, gpushare_State *out_what)
{
	uint8_t bytes[gpushare_State_size];
	uint32_t head[2];
	pb_istream_t stream;

	if (fread(head, sizeof(head), 1, file) != 1)
		return false;
	if (head[0] <= sizeof(bytes) && fread(bytes, 1, head[0], file) == head[0] &&
	    checksum(head[0], bytes) == head[1]) {
		stream = pb_istream_from_buffer(bytes, head[0]);
		if (!pb_decode(&stream, gpushare_State_fields, out_what))
			out_what->which_change = 0;
		return true;
	}
	log_line("%s ends in the middle of a change, which is left out", JOURNAL_FILE);
	return false;
}

void journal_read(int directory, bool (*each)(void *context, const gpushare_State *what),
		  void *context)
{
	int fd = openat(directory, JOURNAL_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat is;
	FILE *file;
	gpushare_State what;

	if (fd < 0) {
		if (errno != ENOENT)
			log_line("can't read %s: %s", JOURNAL_FILE, strerror(errno));
		return;
	}
	if (fstat(fd, &is) || !S_ISREG(is.st_mode) || is.st_uid != geteuid() ||
	    !(file = fdopen(fd, "re"))) {
		log_line("%s is no file of ours, and not read", JOURNAL_FILE);
		close(fd);
		return;
	}
	do
		what = (gpushare_State){0};
	while (read_one(file, &what) && each(context, &what));
	fclose(file);
}
