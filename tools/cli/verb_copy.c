/* SPDX-License-Identifier: MIT */
/* get, put, save, restore, diff, follow; and gpushare-attach, where an option chooses the verb. */
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "data/analysis.h"
#include "options.h"
#include "usage.h"
#include "verbs.h"

static int parse(int argc, char **argv, struct options *out)
{
	int code;

	signal(SIGXFSZ, SIG_IGN); /* write() then fails with EFBIG at the file size limit */
	code = options_parse(argc, argv, out);
	out->copy.registry = out->directory;
	out->copy.names = argv + optind;
	out->copy.name_count = argc - optind;
	out->copy.query.name = argv[optind];
	return code;
}

/* Run a verb. Refuse an option that is in neither of the two usage texts; in that message, `what`
 * names the request. */
static int run_with(const struct options *options, const char *usage, const char *also,
		    const char *what, int (*verb)(const struct options *))
{
	for (const struct option_line *one = option_lines; one->name; one++)
		if (options_have(options, one->name) && !usage_find(usage, one->name, NULL) &&
		    !usage_find(also, one->name, NULL))
			return tool_usage("%s does not go with %s", one->name, what);
	return verb(options);
}

static int with_session(const struct copy_request *request, bool start,
			int (*copy)(const struct copy_request *, struct gpushare_session *))
{
	_tool_session_ struct gpushare_session *session = tool_open(request->registry, start);

	return session ? copy(request, session) : TOOL_FAILED;
}

/* Start a registry only with --wait: otherwise the buffer must exist already. */
static int with_buffer(const struct copy_request *request, bool write,
		       int (*copy)(const struct copy_request *, struct gpushare_buffer *))
{
	const char *name = request->query.name;
	_tool_session_ struct gpushare_session *session =
	    tool_check_name(name) ? tool_open(request->registry, request->wait_ms) : NULL;
	struct gpushare_buffer *buffer =
	    session ? copy_attach(session, name, request->wait_ms, write) : NULL;

	return buffer ? copy(request, buffer) : TOOL_FAILED;
}

/* The exit codes of cmp: 1 for a difference, 2 for a failure. */
static int as_cmp(int code)
{
	return code == ANALYSIS_DIFFERS ? 1 : code == TOOL_FAILED ? 2 : code;
}

static int run_view(const struct copy_request *given,
		    int (*copy)(const struct copy_request *, struct gpushare_buffer *))
{
	struct copy_request request = *given;
	struct query *query = &request.query;
	int code;

	/* on a terminal, --dtype without --format means text */
	if (query->dtype && !query->format && !request.output && !analysis_wanted(query) &&
	    isatty(STDOUT_FILENO))
		query->format = FORMAT_TEXT;
	if (request.output && !strcmp(request.output, "-") && analysis_wanted(query))
		return tool_usage("with -o -, the bytes and the results would both go to standard "
				  "output");
	code = with_buffer(&request, false, copy);
	return query->diff ? as_cmp(code) : code;
}

static int run_get(const struct options *options)
{
	return run_view(&options->copy, copy_dump);
}

static int run_follow(const struct options *options)
{
	return run_view(&options->copy, copy_follow);
}

static bool is_for_files(enum format format)
{
	return format == FORMAT_NONE || format == FORMAT_RAW || format == FORMAT_NPY;
}

static int run_put(const struct options *options)
{
	return is_for_files(options->copy.query.format)
		   ? with_buffer(&options->copy, true, copy_put)
		   : tool_usage("put accepts only --format raw or npy");
}

static int run_save(const struct options *options)
{
	const struct copy_request *request = &options->copy;

	return is_for_files(request->query.format)
		   ? with_session(request, request->wait_ms, copy_save)
		   : tool_usage("save accepts only --format raw or npy");
}

static int run_restore(const struct options *options)
{
	return with_session(&options->copy, true, copy_restore);
}

static int run_diff_of_set(const struct options *options)
{
	const struct copy_request *request = &options->copy;

	return as_cmp(with_session(request, request->wait_ms, copy_diff_set));
}

static int run_diff(const struct options *options)
{
	if (copy_is_diff_of_set(&options->copy))
		return run_with(options, "[--diff PATH] [--wait SECONDS] [--dir DIR]", "",
				"the comparison with a set, which is of whole buffers",
				run_diff_of_set);
	return options->copy.name_count == 1 ? run_get(options)
					     : tool_usage("a file is compared with one NAME");
}

/* `first`: offset in struct copy_request of the member for the operand before the names; 0: there
 * is no such operand. `least`, `most`: how many names are allowed. */
static int run(int argc, char **argv, size_t first, int least, int most,
	       int (*verb)(const struct options *options))
{
	struct options options;
	struct copy_request *request = &options.copy;
	int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (first) {
		if (!request->name_count--)
			return tool_usage("the operands of %s are missing", argv[0]);
		*(const char **)((char *)request + first) = *request->names++;
		request->query.name = *request->names;
	}
	if (request->name_count < least)
		return tool_usage("which buffer? NAME is missing");
	if (request->name_count > most)
		return tool_usage("one NAME at a time; 'gpushare save SET NAME...' copies many");
	return verb(&options);
}

#define AT(member) offsetof(struct copy_request, member)
/* X(verb, first, least, most) */
#define COPYING(X) \
	X(get, 0, 1, 1) \
	X(put, AT(input), 1, 1) \
	X(save, AT(output), 1, INT_MAX) \
	X(restore, AT(input), 0, INT_MAX) \
	X(diff, AT(query.diff), 0, INT_MAX) \
	X(follow, 0, 1, 1)

#define X(verb, first, least, most) \
	int verb_##verb(int argc, char **argv) \
	{ \
		return run(argc, argv, first, least, most, run_##verb); \
	}
COPYING(X)
#undef X

static bool is_set(const struct copy_request *request)
{
	const char *output = request->output;

	for (int i = 0; i < request->name_count; i++)
		if (tool_is_pattern(request->names[i]))
			return true;
	return request->name_count > 1 || (output && *output && output[strlen(output) - 1] == '/');
}

static int attach_put(struct options *options, const char *option, enum format format)
{
	if (options->copy.name_count != 1)
		return tool_usage("one NAME at a time");
	options->copy.query.format = format;
	return run_with(options, "[--offset N] [--length N] [--wait SECONDS] [--dir DIR]", option,
			option, run_put);
}

static int attach_save(const struct options *options)
{
	const char *output = options->copy.output;

	if (!output || !strcmp(output, "-"))
		return tool_usage("one NAME at a time; -o DIR/ saves many");
	return run_with(options, verb_find("save")->usage, "-o", "a set, which is of whole buffers",
			run_save);
}

static int attach_view(struct options *options)
{
	if (!options->copy.name_count)
		return tool_usage("which buffer? NAME is missing");
	if (!options->follows && !options->copy.wait_for)
		return run_with(options, verb_find("get")->usage, "--diff",
				"a single copy of a buffer", run_get);
	if (!options->follows)
		options->copy.count = 1;
	return run_with(options, verb_find("follow")->usage, "--follow", "--follow and --wait-for",
			run_follow);
}

int verb_attach(int argc, char **argv)
{
	struct options options;
	int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (options_have(&options, "--restore"))
		return run_with(&options, verb_find("restore")->usage, "--restore", "--restore",
				run_restore);
	if (options_have(&options, "--into"))
		return attach_put(&options, "--into", FORMAT_RAW);
	if (options_have(&options, "--in"))
		return attach_put(&options, "--in", FORMAT_NPY);
	if (copy_is_diff_of_set(&options.copy))
		return run_diff(&options);
	return is_set(&options.copy) ? attach_save(&options) : attach_view(&options);
}
