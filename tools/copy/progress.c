/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/terminal.h"
#include "common/tool.h"

#define QUIET_MS 1000 /* shorter operations show nothing */
#define EVERY_MS 200
#define BAR 20 /* characters between the brackets */

double progress_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void progress_rate(uint64_t size, double seconds, char out[PROGRESS_TEXT])
{
	snprintf(out, PROGRESS_TEXT, "%" PRIu64 " bytes in %.3f s, %.2f GB/s", size, seconds,
		 seconds > 0 ? (double)size / seconds / 1e9 : 0.0);
}

void progress_begin(struct progress *progress, unsigned int passes, uint64_t size)
{
	*progress = (struct progress){
	    .passes = passes,
	    .total = passes * size,
	    .began_ms = tool_now_ms(),
	    .visible = isatty(STDERR_FILENO),
	};
	progress->colour = terminal_has_colour(STDERR_FILENO);
}

void progress_bar(uint64_t done, uint64_t total, bool colour, char out[PROGRESS_TEXT])
{
	int full = done < total ? (int)((double)done / (double)total * BAR) : BAR;

	snprintf(out, PROGRESS_TEXT, "[%s%.*s%s%*s]", colour ? "\033[32m" : "", full,
		 "====================", colour ? "\033[0m" : "", BAR - full, "");
}

void progress_format(uint64_t done, uint64_t total, uint64_t elapsed_ms, char out[PROGRESS_TEXT])
{
	double seconds = elapsed_ms ? (double)elapsed_ms / 1000 : 0.001;
	double rate = (double)done / seconds, rest = done < total ? (double)(total - done) : 0;
	char have[TOOL_TEXT_MAX], all[TOOL_TEXT_MAX], each[TOOL_TEXT_MAX],
	    left[TOOL_TEXT_MAX] = "?";

	tool_format_size(done, have);
	tool_format_size(total, all);
	tool_format_size((uint64_t)rate, each);
	if (rate >= 1)
		tool_format_age((uint64_t)(rest / rate + 0.5), left);
	if (total)
		snprintf(out, PROGRESS_TEXT, "%.16s of %.16s, %.0f%%, %.16s/s, %.24s left", have,
			 all, 100 - 100 * rest / (double)total, each, left);
	else
		snprintf(out, PROGRESS_TEXT, "%.16s, %.16s/s", have, each);
}

void progress_add(struct progress *progress, uint64_t size)
{
	uint64_t now;
	char text[PROGRESS_TEXT], bar[PROGRESS_TEXT];

	progress->done += size;
	if (!progress->visible)
		return;
	now = tool_now_ms();
	if (now - progress->began_ms < QUIET_MS ||
	    (now - progress->printed_ms < EVERY_MS && progress->done != progress->total))
		return;
	progress->printed_ms = now;
	progress->shown = true;
	progress_format(progress->done / progress->passes, progress->total / progress->passes,
			now - progress->began_ms, text);
	progress_bar(progress->done, progress->total, progress->colour, bar);
	fprintf(stderr, "\r%s: %s%s%s\033[K", tool_name, progress->total ? bar : "",
		progress->total ? " " : "", text);
	fflush(stderr);
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
