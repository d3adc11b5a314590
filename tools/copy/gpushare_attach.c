/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach.h"
#include "common/suggest.h"
#include "data/analysis.h"

/* Return true for errors that mean that CUDA can't start here, or can't reach that GPU. */
static bool is_cudas(int status)
{
	return status == GPUSHARE_E_NO_DRIVER || status == GPUSHARE_E_DEVICE ||
	       status == GPUSHARE_E_CUDA || status == GPUSHARE_E_NO_MEMORY;
}

/* Prefer CUDA: its copy engine is fastest. Without CUDA the CPU may still reach the memory, but
 * slower. */
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

/* Return true if the request is for one buffer, not for a set. */
static bool is_single(const struct attach_request *request)
{
	return !request->restore && !attach_is_diff_of_set(request) && !attach_is_set(request);
}

static int run(const struct attach_request *request)
{
	/* Start a registry only for --wait and --restore: other requests need a buffer that exists
	 * already. */
	_tool_session_ struct gpushare_session *session =
	    is_single(request) && !tool_check_name(request->query.name)
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
	buffer = attach_buffer(session, request->query.name, request->wait_ms,
			       request->in || request->into);
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

	/* beside_attach() sets argv[0] to "gpushare VERB" if a verb executes this program */
	tool_verb = strncmp(argv[0], "gpushare ", 9) ? NULL : argv[0] + 9;
	tool_name = tool_verb ? "gpushare" : "gpushare-attach";
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* write() then reports a file over the size limit */
	if (argc == 3 && !strcmp(argv[1], "--complete"))
		return attach_complete(argv[2]);
	code = attach_parse(argc, argv, &request);
	if (code >= 0)
		return code;
	code = run(&request);
	if (request.query.diff) /* the exit codes of cmp */
		return code == ANALYSIS_DIFFERS ? 1 : code == TOOL_FAILED ? 2 : code;
	return code;
}
