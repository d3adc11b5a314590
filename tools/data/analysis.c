/* SPDX-License-Identifier: MIT */
#include "analysis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source.h"

#define PIECE ((size_t)256 << 10) /* bytes that one thread analyses at a time */
#define THREADS 7		  /* in addition to the caller's */
#define BLOCK ((size_t)4096)	  /* bytes of one memcmp(); only blocks that differ are searched */

bool analysis_wanted(const struct query *query)
{
	return query->stats || query->sha256 || query->diff || query->plot;
}

/* Open the file of --diff, and seek to its data. Refuse a .npy file whose type isn't --dtype's. */
static bool open_theirs(struct analysis *analysis)
{
	const char *path = analysis->query->diff;
	enum dtype dtype = analysis->query->dtype;
	struct source source;

	if (!source_open(&source, path, false, !analysis->query->diff_in_set)) {
		tool_error("'%s' can't be compared: %s", path, source.why);
		return false;
	}
	analysis->fd = source.fd;
	analysis->theirs = source.size;
	if (source.is_npy && dtype && dtype != source.npy.dtype) {
		tool_error("'%s' holds %s, but --dtype is %s", path,
			   dtype_traits(source.npy.dtype)->name, dtype_traits(dtype)->name);
		return false;
	}
	dtype = source.is_npy ? source.npy.dtype : analysis->layout->dtype;
	if (analysis->layout->length % dtype_traits(dtype)->size)
		dtype = DTYPE_U8;
	analysis->compare.dtype = dtype;
	return true;
}

bool analysis_begin(struct analysis *analysis, const struct query *query,
		    const struct layout *layout)
{
	*analysis = (struct analysis){.query = query, .layout = layout, .fd = -1};
	stats_begin(&analysis->stats, layout->dtype);
	sha256_init(&analysis->digest);
	return !query->diff || open_theirs(analysis);
}

static void compare_element(struct compare *compare, const unsigned char *ours,
			    const unsigned char *theirs, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (ours[i] == theirs[i])
			continue;
		if (!compare->bytes) {
			compare->first = compare->done + i;
			memcpy(compare->ours, ours, size);
			memcpy(compare->theirs, theirs, size);
		}
		compare->bytes++;
	}
	compare->elements++;
}

/* Compare the next `size` bytes. All sizes but the last must be multiples of the element size. */
static void compare_add(struct compare *compare, const void *ours, const void *theirs, size_t size)
{
	const unsigned char *a = ours, *b = theirs;
	size_t step = dtype_traits(compare->dtype)->size;

	for (size_t block; size; size -= block, a += block, b += block) {
		block = size < BLOCK ? size : BLOCK;
		if (memcmp(a, b, block) != 0)
			for (size_t at = 0, part; at < block; at += part) {
				part = block - at < step ? block - at : step;
				if (memcmp(a + at, b + at, part) != 0) {
					compare->done += at;
					compare_element(compare, a + at, b + at, part);
					compare->done -= at;
				}
			}
		compare->done += block;
	}
}

static bool compare_chunk(struct analysis *analysis, const void *data, size_t size)
{
	uint64_t done = analysis->compare.done;
	size_t there = size;
	ssize_t got;

	if (done >= analysis->theirs)
		return true;
	if (there > analysis->theirs - done)
		there = (size_t)(analysis->theirs - done);
	if (analysis->room_size < there) {
		free(analysis->room);
		analysis->room = malloc(there);
		analysis->room_size = analysis->room ? there : 0;
	}
	if (!analysis->room) {
		analysis->error = ENOMEM;
		return false;
	}
	got = source_read(analysis->fd, analysis->room, there);
	if (got != (ssize_t)there) {
		analysis->error = got < 0 ? errno : EIO;
		return false;
	}
	compare_add(&analysis->compare, data, analysis->room, there);
	return true;
}

static void stats_piece(void *user, size_t piece)
{
	struct analysis *analysis = user;
	size_t from = piece * PIECE;
	size_t size = analysis->size - from < PIECE ? analysis->size - from : PIECE;

	stats_begin(&analysis->parts[piece], analysis->layout->dtype);
	stats_add(&analysis->parts[piece], analysis->data + from,
		  size / dtype_traits(analysis->layout->dtype)->size);
}

/* Piece boundaries depend only on the position of the bytes, not on the number of threads. So the
 * same bytes always give the same floating-point sum. */
static bool stats_chunk(struct analysis *analysis, const void *data, size_t size)
{
	size_t pieces = (size + PIECE - 1) / PIECE;

	if (!analysis->crew) {
		int cpus = crew_cpus();

		analysis->crew = crew_new(cpus > THREADS ? THREADS : cpus - 1);
	}
	if (analysis->part_room < pieces) {
		free(analysis->parts);
		analysis->parts = calloc(pieces, sizeof(*analysis->parts));
		analysis->part_room = analysis->parts ? pieces : 0;
	}
	if (!analysis->crew || !analysis->parts) {
		analysis->error = ENOMEM;
		return false;
	}
	analysis->data = data;
	analysis->size = size;
	crew_start(analysis->crew, stats_piece, analysis, pieces);
	crew_wait(analysis->crew);
	for (size_t i = 0; i < pieces; i++)
		stats_merge(&analysis->stats, &analysis->parts[i]);
	return true;
}

bool analysis_add(struct analysis *analysis, const void *data, size_t size)
{
	const struct query *query = analysis->query;

	if (query->sha256)
		sha256_update(&analysis->digest, size, data);
	if (query->stats && !stats_chunk(analysis, data, size))
		return false;
	return !query->diff || compare_chunk(analysis, data, size);
}

static void report_stats(const struct analysis *analysis)
{
	const struct stats *stats = &analysis->stats;
	char shape[SHAPE_TEXT_MAX], least[DTYPE_TEXT_MAX], most[DTYPE_TEXT_MAX],
	    mean[DTYPE_TEXT_MAX];

	shape_text(&analysis->layout->shape, shape);
	stats_extremes(stats, least, most);
	printf("dtype  %s\nshape  %s\ncount  %" PRIu64 "\n", dtype_traits(stats->dtype)->name,
	       shape, stats->count);
	dtype_text(DTYPE_F64, &(double){stats_mean(stats)}, mean);
	printf("min    %s\nmax    %s\nmean   %s\n", least, most, mean);
	printf("zeros  %" PRIu64 "\n", stats->zeros);
	if (dtype_traits(stats->dtype)->kind == DTYPE_REAL)
		printf("nan    %" PRIu64 "\ninf    %" PRIu64 "\n", stats->nans,
		       stats->infinities[0] + stats->infinities[1]);
}

static int report_difference(const struct analysis *analysis)
{
	const struct compare *compare = &analysis->compare;
	const struct layout *layout = analysis->layout;
	size_t each = dtype_traits(compare->dtype)->size;
	char index[SHAPE_TEXT_MAX], ours[DTYPE_TEXT_MAX], theirs[DTYPE_TEXT_MAX];
	const char *name = analysis->query->name, *path = analysis->query->diff;
	struct shape line = shape_line(layout->length / each);

	if (compare->bytes) {
		shape_index(compare->dtype == layout->dtype ? &layout->shape : &line,
			    compare->first / each, index);
		dtype_text(compare->dtype, compare->ours, ours);
		dtype_text(compare->dtype, compare->theirs, theirs);
		printf("%s %s differ: byte %" PRIu64 ", element %s: %s, %s\n", name, path,
		       layout->offset + compare->first, index, ours, theirs);
		printf("%" PRIu64 " of %" PRIu64 " elements, %" PRIu64 " bytes\n",
		       compare->elements, compare->done / each, compare->bytes);
	}
	if (analysis->theirs != layout->length)
		printf("%s ends first: %" PRIu64 " bytes of the buffer, %" PRIu64 " of the file\n",
		       analysis->theirs < layout->length ? path : name, layout->length,
		       analysis->theirs);
	return compare->bytes || analysis->theirs != layout->length ? ANALYSIS_DIFFERS : TOOL_DONE;
}

int analysis_report(struct analysis *analysis)
{
	const struct query *query = analysis->query;
	char text[DIGEST_TEXT_MAX];
	int code = TOOL_DONE;

	if (query->sha256)
		digest_end(&analysis->digest, query->out_sha256 ? query->out_sha256 : text);
	if (query->sha256 && !query->out_sha256)
		printf("%s  %s\n", text, query->name);
	if (query->stats)
		report_stats(analysis);
	if (query->diff)
		code = report_difference(analysis);
	return tool_flush(code);
}

void analysis_end(struct analysis *analysis)
{
	if (analysis->fd >= 0)
		close(analysis->fd);
	analysis->fd = -1;
	free(analysis->room);
	analysis->room = NULL;
	free(analysis->parts);
	analysis->parts = NULL;
	crew_free(analysis->crew);
	analysis->crew = NULL;
}
