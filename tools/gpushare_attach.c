/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach.h"
#include "suggest.h"

/* What keeps CUDA from starting here, or from reaching that GPU. */
static bool is_cudas(int status)
{
	return status == GPUSHARE_E_NO_DRIVER || status == GPUSHARE_E_DEVICE ||
	       status == GPUSHARE_E_CUDA || status == GPUSHARE_E_NO_MEMORY;
}

/* Through CUDA, whose copy engine is the fastest way; where there is no CUDA the CPU may still reach
 * the memory, slower. */
struct gpushare_buffer *attach_buffer(struct gpushare_session *session, const char *name,
				      unsigned int wait_ms, bool write)
{
	struct gpushare_attach_options wanted = {.wait_ms = wait_ms, .read_only = !write};
	struct gpushare_buffer *buffer = NULL;
	int status = gpushare_attach(session, name, &wanted, &buffer);

	if (!is_cudas(status)) {
		if (status)
			suggest_failed(session, name, wait_ms, status);
		return buffer;
	}
	tool_error("%s; going on without CUDA", gpushare_explain());
	wanted.host_only = 1;
	status = gpushare_attach(session, name, &wanted, &buffer);
	if (status)
		suggest_failed(session, name, wait_ms, status);
	return buffer;
}

/* Whether it is about one buffer, and not about a set of them. */
static bool is_single(const struct attach_request *request)
{
	return !request->restore && !attach_is_diff_of_set(request) && !attach_is_set(request);
}

static int run(const struct attach_request *request)
{
	/* Only a buffer that is still to come needs a registry that is still to start. */
	_tool_session_ struct gpushare_session *session =
	    is_single(request) && !tool_check_name(request->name)
		? NULL
		: tool_open(request->directory, request->wait_ms || request->restore);
	struct gpushare_buffer *buffer;

	if (!session)
		return TOOL_FAILED;

	if (request->restore)
		return attach_restore(request, session);
	if (attach_is_diff_of_set(request))
		return attach_diff_set(request, session);
	if (attach_is_set(request))
		return attach_set(request, session);
	buffer =
	    attach_buffer(session, request->name, request->wait_ms, request->in || request->into);
	if (!buffer)
		return TOOL_FAILED;
	if (request->in)
		return attach_npy(request, buffer);
	if (request->follow || request->wait_for)
		return attach_follow(request, buffer);
	return request->into ? attach_into(request, buffer) : attach_dump(request, buffer);
}

int main(int argc, char **argv)
{
	struct attach_request request = {.device = -1};
	int code;

	/* "gpushare get" is how a verb has become this program: beside_attach() */
	tool_verb = strncmp(argv[0], "gpushare ", 9) ? NULL : argv[0] + 9;
	tool_name = tool_verb ? "gpushare" : "gpushare-attach";
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of write() */
	if (argc == 3 && !strcmp(argv[1], "--complete"))
		return attach_complete(argv[2]);
	code = attach_parse(argc, argv, &request);
	if (code >= 0)
		return code;
	code = run(&request);
	if (request.diff) /* as cmp does */
		return code == ATTACH_DIFFERS ? 1 : code == TOOL_FAILED ? 2 : code;
	return code;
}
