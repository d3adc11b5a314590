/* SPDX-License-Identifier: MIT */
/* Dump publications. If one is overwritten before it is copied, none of it is dumped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copy.h"
#include "base/cleanup.h"
#include "data/layout.h"
#include "progress.h"

#define SLICE_MS 100 /* between two checks for a signal */
#define PASSES 3     /* copy, check, dump */

struct follow {
	const struct copy_request *request;
	struct gpushare_buffer *buffer;
	struct layout layout;
	unsigned char *bytes; /* copy of one publication */
	uint64_t done;	      /* publications that were dumped */
	uint64_t missed;
	uint64_t next; /* sequence of the next publication to dump */
	struct progress progress;
};

/* Wait until the newest publication has the number `at_least` or a higher one. *out_sequence: its
 * number. Returns GPUSHARE_OK, or the error that ended the wait. */
static int wait_for(struct follow *follow, uint64_t at_least, uint64_t *out_sequence)
{
	unsigned int left = follow->request->timeout_ms;
	bool ends = follow->request->has_timeout;

	for (;;) {
		unsigned int slice = ends && left < SLICE_MS ? left : SLICE_MS;
		int status =
		    gpushare_acquire_host(follow->buffer, at_least, (int)slice, out_sequence);

		if (status != GPUSHARE_E_TIMED_OUT)
			return status;
		if (copy_caught)
			return GPUSHARE_E_CANCELLED;
		progress_add(&follow->progress, 0);
		left -= ends ? slice : 0;
		if (ends && !left)
			return status;
	}
}

struct part {
	unsigned char *at;
	bool compares, differs;
	struct progress *progress;
};

static int take_part(const void *data, size_t size, void *user)
{
	struct part *part = user;

	if (part->compares)
		part->differs = memcmp(part->at, data, size) != 0;
	else
		memcpy(part->at, data, size);
	part->at += size;
	progress_add(part->progress, size);
	return part->differs || copy_caught;
}

/* Copy the range to follow->bytes, or if `compares`, compare the range with that copy. *out_whole:
 * no byte differs, and nothing was published since `sequence`. */
static int take_once(struct follow *follow, uint64_t sequence, bool compares, bool *out_whole)
{
	struct part part = {
	    .at = follow->bytes, .compares = compares, .progress = &follow->progress};
	int status = gpushare_read(follow->buffer, follow->layout.offset, follow->layout.length,
				   take_part, &part);
	uint64_t now = 0;

	*out_whole = false;
	if (copy_caught)
		return GPUSHARE_E_CANCELLED;
	if (part.differs)
		return GPUSHARE_OK;
	if (!status)
		status = gpushare_sequence(follow->buffer, &now);
	*out_whole = !status && now == sequence;
	return status;
}

/* Copy a publication, and check the copy. A publisher that uses gpushare_reclaim() does not
 * overwrite the buffer before gpushare_release_host() below. An unmodified program
 * (GPUSHARE_PUBLISH) may write at any time. So read the buffer twice: if the bytes differ, the
 * program has written. */
static int take(struct follow *follow, uint64_t sequence, bool *out_whole)
{
	int status, released;

	follow->progress.done = follow->done * PASSES * follow->layout.length;
	status = take_once(follow, sequence, false, out_whole);
	if (!status && *out_whole)
		status = take_once(follow, sequence, true, out_whole);
	released = gpushare_release_host(follow->buffer, sequence);
	return status ? status : released;
}

/* Return `pattern` with the sequence in place of each %s. The caller frees it. NULL: no memory. */
static char *name_output(const char *pattern, uint64_t sequence)
{
	char *name = NULL;
	size_t size;
	FILE *text = open_memstream(&name, &size);

	for (; text && *pattern; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 's') {
			fprintf(text, "%" PRIu64, sequence);
			pattern++;
		} else {
			putc(*pattern, text);
		}
	}
	if (text && !fclose(text))
		return name;
	free(name);
	return NULL;
}

static int put(struct follow *follow, uint64_t sequence)
{
	struct copy_request request = *follow->request;
	_cleanup_free_ char *name = NULL;

	request.progress = &follow->progress;
	if (request.output) {
		name = name_output(request.output, sequence);
		if (!name)
			return tool_failed(GPUSHARE_E_NO_MEMORY);
		request.output = name;
	}
	progress_end(&follow->progress);
	return copy_dump_bytes(&request, follow->buffer, follow->bytes);
}

static bool is_enough(const struct follow *follow)
{
	return follow->request->count && follow->done >= follow->request->count;
}

/* Dump each publication from `follow->next` on. Returns a status. *out_code: the exit code of the
 * last dump. */
static int follow_from(struct follow *follow, int *out_code)
{
	uint64_t sequence = 0;
	bool whole;

	while (!*out_code && !is_enough(follow)) {
		int status = wait_for(follow, follow->next, &sequence);

		if (!status)
			status = take(follow, sequence, &whole);
		if (status)
			return status;
		if (whole) {
			*out_code = put(follow, sequence);
			follow->done += !*out_code;
		}
		follow->missed += sequence - follow->next + !whole;
		follow->next = sequence + 1;
	}
	return GPUSHARE_OK;
}

/* Report that no publication came within --timeout. The message of gpushare_acquire_host() would
 * name only the last slice of that time. */
static int say_late(const struct follow *follow)
{
	const struct copy_request *request = follow->request;
	uint64_t last = 0;

	(void)gpushare_sequence(follow->buffer, &last);
	tool_error("publication %" PRIu64 " of '%s' did not come within %g s; the last was %" PRIu64
		   "%s",
		   follow->next, request->query.name, request->timeout_ms / 1000.0, last,
		   last ? ""
			: ": nothing is published before its owner runs with "
			  "GPUSHARE_PUBLISH=sync, or calls gpushare_publish()");
	return TOOL_FAILED;
}

static int conclude(const struct follow *follow, int status)
{
	const struct copy_request *request = follow->request;
	/* With --wait-for and --count, the owner's end is an error if no publication came. */
	bool lacking = request->wait_for && request->count && !follow->done;
	bool gone = status == GPUSHARE_E_OWNER_GONE && !lacking;

	if (status == GPUSHARE_E_CANCELLED && copy_caught) {
		copy_die("");
		return TOOL_FAILED;
	}
	if (follow->missed && request->count != 1)
		tool_error("missed %" PRIu64
			   " publication%s of '%s': %s overwritten before %s copied",
			   follow->missed, follow->missed == 1 ? "" : "s", request->query.name,
			   follow->missed == 1 ? "it was" : "they were",
			   follow->missed == 1 ? "it was" : "they were");
	if (status == GPUSHARE_E_TIMED_OUT)
		return say_late(follow);
	return status && !gone ? tool_failed(status) : TOOL_DONE;
}

static int begin(struct follow *follow)
{
	const struct copy_request *request = follow->request;
	int status = gpushare_join(follow->buffer, &follow->next);

	progress_begin(&follow->progress, PASSES, follow->layout.length * request->count);
	follow->progress.visible &= request->output || !isatty(STDOUT_FILENO);
	if (!status && request->wait_for > follow->next)
		follow->next = request->wait_for;
	return status;
}

int copy_follow(const struct copy_request *request, struct gpushare_buffer *buffer)
{
	struct follow follow = {.request = request, .buffer = buffer};
	struct gpushare_info info;
	int status = gpushare_buffer_info(buffer, &info), code = TOOL_DONE;
	size_t size;

	if (status)
		return tool_failed(status);
	if (!layout_find(&request->query, &info, &follow.layout))
		return TOOL_FAILED;
	size = follow.layout.length ? follow.layout.length : 1;
	follow.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (follow.bytes == MAP_FAILED) {
		tool_error("no memory for %zu bytes of '%s'", size, request->query.name);
		return TOOL_FAILED;
	}
	copy_catch_signals();
	status = begin(&follow);
	if (!status)
		status = follow_from(&follow, &code);
	progress_end(&follow.progress);
	munmap(follow.bytes, size);
	return code ? code : conclude(&follow, status);
}
