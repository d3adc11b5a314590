/* SPDX-License-Identifier: MIT */
/* Which options may be combined. */
#include <string.h>

#include "attach.h"

static bool is_pattern(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

bool attach_is_set(const struct attach_request *request)
{
	size_t length = request->output ? strlen(request->output) : 0;

	for (int i = 0; i < request->name_count; i++)
		if (is_pattern(request->names[i]))
			return true;
	return request->name_count > 1 || (length && request->output[length - 1] == '/');
}

static bool is_looked_at(const struct attach_request *request)
{
	return request->query.stats || request->query.sha256 || request->query.diff ||
	       request->query.has_head || request->query.has_shape || request->query.dtype ||
	       request->query.format;
}

static int check_set(const struct attach_request *request)
{
	if (!request->output || !strcmp(request->output, "-"))
		return tool_usage("one NAME at a time, or -o DIR for them");
	if (request->query.has_length || request->query.offset || request->query.stats ||
	    request->query.sha256 || request->query.diff || request->query.has_head ||
	    request->query.has_shape || request->query.dtype ||
	    request->query.format == FORMAT_HEX || request->query.format == FORMAT_TEXT)
		return tool_usage("a set is of whole buffers, raw or --format npy");
	return -1;
}

static bool is_followed(const struct attach_request *request)
{
	return request->follow || request->wait_for;
}

static int check_followed(const struct attach_request *request)
{
	if (request->name_count != 1 || attach_is_set(request) || request->into || request->in ||
	    request->restore || request->query.diff || request->rate)
		return tool_usage("--follow and --wait-for are of one NAME, and go without --into, "
				  "--in, --restore, --diff and --rate");
	if (request->count && !request->follow)
		return tool_usage("--count is how many --follow dumps");
	return -1;
}

static int check_diff_of_set(const struct attach_request *request, int writes)
{
	struct attach_request others = *request;

	others.query.diff = NULL;
	if (request->output || writes || is_looked_at(&others) || request->query.has_offset ||
	    request->query.has_length || request->rate || request->has_timeout || request->count ||
	    is_followed(request))
		return tool_usage("--diff with a set's directory is of whole buffers, and goes "
				  "with nothing but NAMEs");
	return -1;
}

int attach_check(const struct attach_request *request)
{
	int writes = !!request->into + !!request->in + !!request->restore;

	if (request->output && writes)
		return tool_usage("-o and --%s go opposite ways: give one of them",
				  request->into ? "into"
				  : request->in ? "in"
						: "restore");
	if (writes > 1 || (writes && is_looked_at(request)))
		return tool_usage("--into, --in and --restore go without each other, and without "
				  "what looks at the bytes");
	if ((request->mode || request->group) && !request->restore)
		return tool_usage("--mode and --group are of --restore");
	if (request->restore && !is_followed(request))
		return -1;
	if (attach_is_diff_of_set(request))
		return check_diff_of_set(request, writes);
	if (!request->name_count)
		return tool_usage("which buffer? NAME is missing");
	if (request->has_timeout && !is_followed(request))
		return tool_usage("--timeout is of --follow and --wait-for");
	if ((is_followed(request) || request->count) && check_followed(request) != -1)
		return TOOL_USAGE;
	if (writes)
		return request->name_count == 1 ? -1 : tool_usage("one NAME at a time");
	if (attach_is_set(request))
		return check_set(request);
	if (request->output && !strcmp(request->output, "-") &&
	    (request->query.stats || request->query.sha256 || request->query.diff))
		return tool_usage("-o - and what is found would both be on standard output");
	return -1;
}
