/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"
#include "hexview.h"
#include "output.h"
#include "progress.h"

#define VIEW_SIZE 256 /* bytes shown on a terminal */

struct dump {
	struct output output;
	struct progress progress;
};

static volatile sig_atomic_t caught; /* the signal that asks to stop; 0: none */

static void catch_signal(int number)
{
	caught = number;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	/* The second one of a kind ends us at once, should the first come just before a write
	 * waits. */
	struct sigaction action = {.sa_handler = catch_signal, .sa_flags = SA_RESETHAND};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct sigaction before;

		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

static int dump_view(const struct attach_request *request, struct gpushare_buffer *buffer)
{
	unsigned char bytes[VIEW_SIZE];
	size_t size = request->length < VIEW_SIZE ? request->length : VIEW_SIZE;
	int status = gpushare_copy_from(buffer, request->offset, bytes, size);

	if (status)
		return tool_failed(status);
	hexview_print(stdout, bytes, size, request->offset);
	if (request->length > size)
		tool_error("%zu of %" PRIu64 " bytes shown; -o FILE or a pipe gets them all", size,
			   request->length);
	return tool_flush(TOOL_DONE);
}

static int dump_chunk(const void *data, size_t size, void *user)
{
	struct dump *dump = user;

	if (caught || !output_write(&dump->output, data, size))
		return 1;
	progress_add(&dump->progress, size);
	return caught != 0;
}

/* A pipe's reader that has had enough is no news to anybody. */
static int dump_output_failed(const struct output *output, bool removed)
{
	if (output->error != EPIPE)
		tool_error("writing '%s' failed after %" PRIu64 " bytes: %s%s", output->path,
			   output->written, strerror(output->error),
			   removed ? "; the partial file was removed" : "");
	return TOOL_FAILED;
}

/* Die of the signal that was caught, so that whoever waits for us sees it. */
static void dump_die(bool removed)
{
	if (removed)
		tool_error("interrupted; the partial file was removed");
	signal(caught, SIG_DFL);
	raise(caught);
}

int attach_dump(const struct attach_request *request, struct gpushare_buffer *buffer)
{
	struct dump dump;
	bool removed;
	int status;

	if (!request->output && isatty(STDOUT_FILENO))
		return dump_view(request, buffer);
	catch_signals();
	if (!output_open(&dump.output, request->output, &caught)) {
		output_abandon(&dump.output);
		if (caught)
			dump_die(false);
		tool_error("'%s' can't be opened for writing: %s", dump.output.path,
			   strerror(dump.output.error));
		return TOOL_FAILED;
	}
	progress_begin(&dump.progress, request->length);
	status = gpushare_read(buffer, request->offset, request->length, dump_chunk, &dump);
	progress_end(&dump.progress);
	if (!status && !caught && output_commit(&dump.output))
		return TOOL_DONE;
	removed = *dump.output.partial;
	output_abandon(&dump.output);
	if (caught)
		dump_die(removed);
	if (dump.output.error)
		return dump_output_failed(&dump.output, removed);
	return tool_failed(status);
}
