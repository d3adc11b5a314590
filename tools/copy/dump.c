/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/terminal.h"
#include "copy.h"
#include "data/analysis.h"
#include "data/image.h"
#include "data/plot.h"
#include "data/npy.h"
#include "data/view.h"
#include "output.h"
#include "progress.h"

#define VIEW_BYTES 256 /* shown on a terminal */
#define VIEW_ELEMENTS 64

struct dump {
	const struct copy_request *request;
	const unsigned char *bytes; /* an earlier copy of the range; NULL: read the buffer */
	struct layout layout;
	enum format format;
	uint64_t whole; /* bytes of the range; layout.length is less if only a part is shown */
	bool writes;	/* the bytes are written, not only analysed */
	struct output output;
	FILE *text; /* stream into `output`, for view and image */
	struct view view;
	struct range range; /* for a plot, or a scaled image */
	struct image image;
	struct plot plot;
	struct analysis analysis;
	struct progress *progress, own;
};

static bool is_scaled(const struct dump *dump)
{
	return dump->writes && dump->format == FORMAT_PNG && image_is_scaled(dump->layout.dtype);
}

/* Choose the format. On a terminal, show only the first part, unless --head says how much. */
static void choose_format(struct dump *dump)
{
	const struct copy_request *request = dump->request;
	bool terminal = !request->output && isatty(STDOUT_FILENO);
	struct layout *layout = &dump->layout;
	size_t each = dtype_traits(layout->dtype)->size;
	uint64_t most;

	dump->writes = request->output || !analysis_wanted(&request->query);
	dump->format = request->query.format;
	if (!dump->format)
		dump->format = terminal ? FORMAT_HEX : FORMAT_RAW;
	dump->whole = layout->length;
	most = dump->format == FORMAT_HEX ? VIEW_BYTES : VIEW_ELEMENTS * each;
	if (dump->writes && terminal && !request->query.has_head && layout->length > most &&
	    (dump->format == FORMAT_HEX || dump->format == FORMAT_TEXT))
		layout->length = most;
}

static bool is_text(const struct dump *dump)
{
	return dump->format == FORMAT_HEX || dump->format == FORMAT_TEXT;
}

/* The write function of dump->text. Returns 0 on failure. After a signal it fails, so that libpng
 * stops. */
static ssize_t put_text(void *user, const char *data, size_t size)
{
	struct dump *dump = user;

	return !copy_caught && output_write(&dump->output, data, size) ? (ssize_t)size : 0;
}

/* If a step failed and the output has no error, the cause is a lack of memory. */
static bool result(struct dump *dump, bool good)
{
	if (!good && !dump->output.error)
		dump->output.error = ENOMEM;
	return !dump->output.error;
}

static bool begin_text(struct dump *dump)
{
	const struct layout *layout = &dump->layout;

	dump->text = fopencookie(dump, "w", (cookie_io_functions_t){.write = put_text});
	if (!dump->text)
		return false;
	if (dump->format == FORMAT_HEX)
		view_hex(&dump->view, layout->offset, dump->text);
	else if (dump->format == FORMAT_TEXT)
		view_values(&dump->view, layout->dtype, &layout->shape, dump->text);
	else
		return image_begin(&dump->image, layout->dtype, &layout->shape, &dump->range);
	return true;
}

/* Write the header, or prepare the view. */
static bool dump_begin(struct dump *dump)
{
	const struct layout *layout = &dump->layout;
	char header[NPY_FORMAT_MAX];
	size_t size = 0;

	if (is_text(dump) || dump->format == FORMAT_PNG)
		return result(dump, begin_text(dump));
	if (dump->format == FORMAT_NPY) /* align a large file's data for O_DIRECT */
		size = npy_format(layout->dtype, &layout->shape,
				  layout->length < OUTPUT_LARGE ? 64 : OUTPUT_ALIGN, header);
	return output_reserve(&dump->output, size + layout->length) &&
	       output_write(&dump->output, header, size);
}

static bool dump_put(struct dump *dump, const void *data, size_t size)
{
	if (is_text(dump))
		view_feed(&dump->view, data, size);
	else if (dump->format == FORMAT_PNG)
		image_feed(&dump->image, data, size);
	else
		return output_start(&dump->output, data, size);
	return !ferror(dump->text);
}

/* For a large file, output_start()'s threads write while this thread analyses the chunk. */
static int dump_chunk(const void *data, size_t size, void *user)
{
	struct dump *dump = user;
	bool good;

	if (copy_caught || (dump->writes && !dump_put(dump, data, size)))
		return 1;
	if (dump->request->query.plot)
		plot_add(&dump->plot, data, size);
	good = analysis_add(&dump->analysis, data, size);
	if (dump->writes && !output_wait(&dump->output))
		return 1;
	progress_add(dump->progress, size);
	return !good || copy_caught;
}

static int measure_chunk(const void *data, size_t size, void *user)
{
	struct dump *dump = user;

	range_add(&dump->range, dump->layout.dtype, data, size);
	if (dump->progress == &dump->own) /* a shared progress counts only the second pass */
		progress_add(dump->progress, size);
	return copy_caught != 0;
}

/* Pass the copied bytes to `chunk` in blocks, as gpushare_read() does. */
static int dump_copied(struct dump *dump, int (*chunk)(const void *, size_t, void *))
{
	uint64_t left = dump->layout.length;
	const unsigned char *at = dump->bytes;

	while (left) {
		size_t size = left < OUTPUT_BLOCK ? (size_t)left : OUTPUT_BLOCK;

		if (chunk(at, size, dump))
			return GPUSHARE_E_CANCELLED;
		at += size;
		left -= size;
	}
	return GPUSHARE_OK;
}

static int dump_range(struct dump *dump, struct gpushare_buffer *buffer,
		      int (*chunk)(const void *, size_t, void *))
{
	const struct layout *layout = &dump->layout;

	return dump->bytes ? dump_copied(dump, chunk)
			   : gpushare_read(buffer, layout->offset, layout->length, chunk, dump);
}

static bool dump_end(struct dump *dump)
{
	FILE *text = dump->text;
	bool good = true;

	if (is_text(dump))
		view_end(&dump->view);
	if (dump->format == FORMAT_PNG)
		good = image_end(&dump->image, text);
	dump->text = NULL;
	return result(dump, (!text || !fclose(text)) && good);
}

/* For plots and scaled images, a first pass finds the extremes. */
static unsigned int passes(const struct dump *dump)
{
	return dump->request->query.plot || is_scaled(dump) ? 2 : 1;
}

/* Write everything. The file gets its name later, by output_commit(). */
static int dump_bytes(struct dump *dump, struct gpushare_buffer *buffer)
{
	bool plots = dump->request->query.plot;
	int status = GPUSHARE_OK;

	if (dump->writes && !dump_begin(dump))
		return GPUSHARE_E_CANCELLED;
	if (dump->progress == &dump->own)
		progress_begin(&dump->own, passes(dump), dump->layout.length);
	dump->range = RANGE_EMPTY;
	if (passes(dump) > 1)
		status = dump_range(dump, buffer, measure_chunk);
	if (plots)
		plot_begin(&dump->plot, dump->layout.dtype, &dump->layout.shape, &dump->range,
			   terminal_columns());
	if (!status)
		status = dump_range(dump, buffer, dump_chunk);
	if (!dump->request->in_set)
		progress_end(dump->progress);
	if (!status && dump->writes && !dump_end(dump))
		return GPUSHARE_E_CANCELLED;
	return copy_caught ? GPUSHARE_E_CANCELLED : status;
}

/* The pipe's reader has closed it: end by SIGPIPE, like programs that don't ignore SIGPIPE. */
static void die_of_pipe(void)
{
	signal(SIGPIPE, SIG_DFL);
	raise(SIGPIPE);
}

/* The final path of the output. A file of a set has another path until the set is complete. */
static const char *path(const struct dump *dump)
{
	return dump->request->in_set ? dump->request->in_set : dump->output.path;
}

/* End by the caught signal. Within a set only return, because save removes the set first. */
static int die(const struct dump *dump, const char *words)
{
	if (!dump->request->in_set)
		copy_die(words);
	return TOOL_FAILED;
}

static int dump_failed(struct dump *dump, int status)
{
	bool removed = dump->writes && output_abandon(&dump->output);
	const char *gone = dump->request->in_set ? "; the incomplete set is removed"
			   : removed		 ? "; the partial file was removed"
						 : "";

	progress_end(dump->progress);
	if (copy_caught)
		return die(dump, removed ? "interrupted; the partial file was removed" : "");
	if (dump->writes && dump->output.error) {
		if (dump->output.error == EPIPE)
			die_of_pipe();
		tool_error("writing '%s' failed after %" PRIu64 " bytes: %s%s", path(dump),
			   dump->output.written, strerror(dump->output.error), gone);
		return TOOL_FAILED;
	}
	if (dump->analysis.error) {
		tool_error("%s '%s' failed: %s%s",
			   dump->request->query.diff ? "comparing with" : "analysing",
			   dump->request->query.diff ? dump->request->query.diff
						     : dump->request->query.name,
			   strerror(dump->analysis.error), gone);
		return TOOL_FAILED;
	}
	return tool_failed(status);
}

static int pass_by(const void *data, size_t size, void *user)
{
	(void)data;
	(void)size;
	(void)user;
	return 0;
}

/* Pinning memory takes as long as copying half a GiB, and --rate must not count it. So read one
 * block before: that pins memory, which the session keeps. */
static int warm_up(const struct layout *layout, struct gpushare_buffer *buffer)
{
	uint64_t size = layout->length < OUTPUT_BLOCK ? layout->length : OUTPUT_BLOCK;

	return gpushare_read(buffer, layout->offset, size, pass_by, NULL);
}

static void say_rate(const struct dump *dump, double began)
{
	char text[PROGRESS_TEXT];

	progress_rate(dump->layout.length, progress_seconds() - began, text);
	tool_error("%s", text);
}

static void say_scale(const struct dump *dump)
{
	const struct range *range = &dump->range;
	const char *nans = range->nans ? ", NaN as 0" : "";

	if (range->least > range->most)
		tool_error("'%s' has no finite value: all pixels are 0", dump->request->query.name);
	else
		tool_error("'%s' scaled %g..%g to 0..255%s", dump->request->query.name,
			   range->least, range->most, nans);
}

static int dump_run(struct dump *dump, struct gpushare_buffer *buffer)
{
	const struct copy_request *request = dump->request;
	double began;
	int status;

	if (dump->writes && !output_open(&dump->output, request->output, &copy_caught)) {
		output_abandon(&dump->output);
		if (copy_caught)
			return die(dump, "");
		progress_end(dump->progress);
		tool_error("'%s' can't be opened for writing: %s%s", path(dump),
			   strerror(dump->output.error),
			   request->in_set ? "; the incomplete set is removed" : "");
		return TOOL_FAILED;
	}
	status = request->rate ? warm_up(&dump->layout, buffer) : GPUSHARE_OK;
	began = progress_seconds();
	if (!status)
		status = dump_bytes(dump, buffer);
	if (status || (dump->writes && !output_commit(&dump->output)))
		return dump_failed(dump, status);
	if (request->rate)
		say_rate(dump, began);
	if (is_scaled(dump))
		say_scale(dump);
	if (dump->writes && dump->layout.length < dump->whole)
		tool_error("%" PRIu64 " of %" PRIu64
			   " bytes shown; -o FILE or a pipe gets them all",
			   dump->layout.length, dump->whole);
	if (request->query.plot)
		plot_print(&dump->plot, terminal_style(STYLE_GREEN), terminal_style(STYLE_PLAIN),
			   stdout);
	return analysis_report(&dump->analysis);
}

int copy_dump(const struct copy_request *request, struct gpushare_buffer *buffer)
{
	return copy_dump_bytes(request, buffer, NULL);
}

int copy_dump_bytes(const struct copy_request *request, struct gpushare_buffer *buffer,
		    const void *bytes)
{
	static struct dump dump; /* too large for the stack */
	struct gpushare_info info;
	int status = gpushare_buffer_info(buffer, &info);
	int code = TOOL_FAILED;

	if (status)
		return tool_failed(status);
	memset(&dump, 0, sizeof(dump));
	dump.request = request;
	dump.bytes = bytes;
	dump.progress = request->progress ? request->progress : &dump.own;
	if (!layout_find(&request->query, &info, &dump.layout))
		return TOOL_FAILED;
	choose_format(&dump);
	copy_catch_signals();
	if (analysis_begin(&dump.analysis, &request->query, &dump.layout))
		code = dump_run(&dump, buffer);
	analysis_end(&dump.analysis);
	image_free(&dump.image);
	if (dump.text)
		fclose(dump.text);
	return code;
}
