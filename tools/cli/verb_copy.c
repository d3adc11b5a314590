/* SPDX-License-Identifier: MIT */
/* get, put, save, restore, diff and follow; and gpushare-attach, whose options choose one of them. */
#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "copy_options.h"
#include "data/analysis.h"
#include "usage.h"
#include "verbs.h"

/* Parse options and operands: `first`, and then names. `names`: the most; 0: any number, none too.
 * Return -1 to go on, else the exit code. */
static int parse(int argc, char **argv, const char **first, int names, struct copy_options *out)
{
	struct copy_request *request = &out->request;
	int code;

	signal(SIGXFSZ, SIG_IGN); /* write() then reports a file over the size limit */
	*out = (struct copy_options){.request.device = -1};
	code = usage_parse(argc, argv, verb_usage(argv[0]), copy_option_take, out);
	if (code >= 0)
		return code;
	if (first) {
		if (optind == argc)
			return tool_usage("%s what?", argv[0]);
		*first = argv[optind++];
	}
	request->names = argv + optind;
	request->name_count = argc - optind;
	request->query.name = request->names[0];
	if (names && !request->name_count)
		return tool_usage("which buffer? NAME is missing");
	if (names && request->name_count > names)
		return tool_usage("one NAME at a time; 'gpushare save DIR NAME...' copies many");
	return -1;
}

static int with_session(const struct copy_request *request, bool start,
			int (*copy)(const struct copy_request *, struct gpushare_session *))
{
	_tool_session_ struct gpushare_session *session = tool_open(request->registry, start);

	return session ? copy(request, session) : TOOL_FAILED;
}

/* --wait starts a registry: without it, the buffer must exist already. */
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

static int run_view(const struct copy_request *request,
		    int (*copy)(const struct copy_request *, struct gpushare_buffer *))
{
	const struct query *query = &request->query;

	if (request->output && !strcmp(request->output, "-") &&
	    (query->stats || query->sha256 || query->diff))
		return tool_usage("-o - and what is found would both be on standard output");
	return query->diff ? as_cmp(with_buffer(request, false, copy))
			   : with_buffer(request, false, copy);
}

static int run_get(const struct copy_request *request)
{
	return run_view(request, copy_dump);
}

static int run_follow(const struct copy_request *request)
{
	return run_view(request, copy_follow);
}

static int run_put(const struct copy_request *request)
{
	if (request->query.format == FORMAT_HEX || request->query.format == FORMAT_TEXT)
		return tool_usage("a file to put is raw or npy");
	return with_buffer(request, true, copy_put);
}

static int run_save(const struct copy_request *request)
{
	if (request->query.format == FORMAT_HEX || request->query.format == FORMAT_TEXT)
		return tool_usage("what is saved is raw or npy");
	return with_session(request, request->wait_ms, copy_save);
}

static int run_restore(const struct copy_request *request)
{
	return with_session(request, true, copy_restore);
}

static int run_diff_set(const struct copy_request *request)
{
	return as_cmp(with_session(request, request->wait_ms, copy_diff_set));
}

int verb_get(int argc, char **argv)
{
	struct copy_options options;
	int code = parse(argc, argv, NULL, 1, &options);

	return code >= 0 ? code : run_get(&options.request);
}

int verb_follow(int argc, char **argv)
{
	struct copy_options options;
	int code = parse(argc, argv, NULL, 1, &options);

	return code >= 0 ? code : run_follow(&options.request);
}

int verb_put(int argc, char **argv)
{
	struct copy_options options;
	int code = parse(argc, argv, &options.request.input, 1, &options);

	return code >= 0 ? code : run_put(&options.request);
}

int verb_save(int argc, char **argv)
{
	struct copy_options options;
	int code = parse(argc, argv, &options.request.output, INT_MAX, &options);

	return code >= 0 ? code : run_save(&options.request);
}

int verb_restore(int argc, char **argv)
{
	struct copy_options options;
	int code = parse(argc, argv, &options.request.input, 0, &options);

	return code >= 0 ? code : run_restore(&options.request);
}

#define SET_OPTIONS "[--diff PATH] [--wait SECONDS] [--dir DIR]"

static int check(const struct copy_options *options, const char *usage, const char *also,
		 const char *what)
{
	const char *const usages[] = {usage, also, NULL};
	const char *beyond = copy_option_beyond(options, usages);

	return beyond ? tool_usage("%s does not go with %s", beyond, what) : -1;
}

int verb_diff(int argc, char **argv)
{
	struct copy_options options;
	const struct copy_request *request = &options.request;
	int code = parse(argc, argv, &options.request.query.diff, 0, &options);

	if (code >= 0)
		return code;
	if (copy_is_diff_of_set(request)) {
		code = check(&options, SET_OPTIONS, "", "a directory, whose buffers are whole");
		return code >= 0 ? code : run_diff_set(request);
	}
	return request->name_count == 1 ? run_get(request)
					: tool_usage("a file is compared with one NAME");
}

/* --format also takes an element's type: text of that type. */
static int attach_take(const char *option, const char *value, void *user)
{
	if (strcmp(option, "--format") != 0 || !dtype_parse(value))
		return copy_option_take(option, value, user);
	copy_option_take(option, "text", user);
	return copy_option_take("--dtype", value, user);
}

static bool is_set(const struct copy_request *request)
{
	const char *output = request->output;

	for (int i = 0; i < request->name_count; i++)
		if (copy_is_pattern(request->names[i]))
			return true;
	return request->name_count > 1 || (output && *output && output[strlen(output) - 1] == '/');
}

static int attach_put(struct copy_options *options, const char *option, enum format format)
{
	int code = check(options, "[--offset N] [--length N] [--wait SECONDS] [--dir DIR]", option,
			 option);

	options->request.query.format = format;
	if (code < 0 && options->request.name_count != 1)
		code = tool_usage("one NAME at a time");
	return code >= 0 ? code : run_put(&options->request);
}

static int attach_save(const struct copy_options *options)
{
	const char *output = options->request.output;
	int code = check(options, verb_usage("save"), "[-o FILE]", "a set, of whole buffers");

	if (code < 0 && (!output || !strcmp(output, "-")))
		code = tool_usage("one NAME at a time, or -o DIR for them");
	return code >= 0 ? code : run_save(&options->request);
}

static int attach_view(struct copy_options *options)
{
	struct copy_request *request = &options->request;
	bool follows = copy_option_given(options, "--follow");
	int code;

	if (!request->name_count)
		return tool_usage("which buffer? NAME is missing");
	if (!follows && !request->wait_for) {
		code = check(options, verb_usage("get"), "[--diff PATH]", "one copy of a buffer");
		return code >= 0 ? code : run_get(request);
	}
	code = check(options, verb_usage("follow"), "[--follow]", "--follow and --wait-for");
	if (!follows)
		request->count = 1;
	return code >= 0 ? code : run_follow(request);
}

int verb_attach(int argc, char **argv)
{
	struct copy_options options = {.request.device = -1};
	struct copy_request *request = &options.request;
	int code = usage_parse(argc, argv, ATTACH_USAGE, attach_take, &options);

	signal(SIGXFSZ, SIG_IGN);
	if (code >= 0)
		return code;
	request->names = argv + optind;
	request->name_count = argc - optind;
	request->query.name = request->names[0];
	if (copy_option_given(&options, "--restore")) {
		code = check(&options, verb_usage("restore"), "[--restore PATH]", "--restore");
		return code >= 0 ? code : run_restore(request);
	}
	if (copy_option_given(&options, "--into"))
		return attach_put(&options, "--into", FORMAT_RAW);
	if (copy_option_given(&options, "--in"))
		return attach_put(&options, "--in", FORMAT_NPY);
	if (copy_is_diff_of_set(request)) {
		code = check(&options, SET_OPTIONS, "", "--diff of a set");
		return code >= 0 ? code : run_diff_set(request);
	}
	return is_set(request) ? attach_save(&options) : attach_view(&options);
}
