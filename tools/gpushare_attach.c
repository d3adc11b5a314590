/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>

#include "attach.h"

static const char help[] =
    "usage: gpushare-attach [OPTION]... NAME\n"
    "\n"
    "Attach the GPU buffer NAME of another process and copy its bytes to the host.\n"
    "On a terminal the first 256 bytes are shown in hex; a file or a pipe gets them all.\n"
    "Where CUDA can't be used, a buffer of a rule with 'map', 'keep', 'readonly' or 'vmm' is\n"
    "reached by the CPU itself, through Vulkan.\n"
    "\n"
    "  -o, --output FILE   write to FILE; '-' is standard output, raw on a terminal too\n"
    "      --offset N      begin N bytes into the buffer\n"
    "      --length N      only N bytes; otherwise up to the end\n"
    "      --wait SECONDS  wait that long for NAME to appear\n"
    "      --into FILE     copy FILE into the buffer instead; '-' is standard input\n"
    "      --dir DIR       of the registry; otherwise $GPUSHARE_DIR and so on\n"
    "      --help, --version\n"
    "\n"
    "N takes K M G T (powers of 1000) and Ki Mi Gi Ti (of 1024).\n"
    "Exit: 0 done, 1 the request failed, 2 it was not understood.\n";

enum long_option {
	OPTION_OFFSET = 256,
	OPTION_LENGTH,
	OPTION_WAIT,
	OPTION_INTO,
	OPTION_DIR,
	OPTION_HELP,
	OPTION_VERSION,
};

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"offset", required_argument, NULL, OPTION_OFFSET},
    {"length", required_argument, NULL, OPTION_LENGTH},
    {"wait", required_argument, NULL, OPTION_WAIT},
    {"into", required_argument, NULL, OPTION_INTO},
    {"dir", required_argument, NULL, OPTION_DIR},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static int parse_option(int option, struct attach_request *request)
{
	switch (option) {
	case 'o':
		request->output = optarg;
		return TOOL_DONE;
	case OPTION_INTO:
		request->into = optarg;
		return TOOL_DONE;
	case OPTION_DIR:
		request->directory = optarg;
		return TOOL_DONE;
	case OPTION_OFFSET:
		if (tool_parse_size(optarg, &request->offset))
			return TOOL_DONE;
		return tool_usage("--offset wants bytes, not '%s'", optarg);
	case OPTION_LENGTH:
		request->has_length = true;
		if (tool_parse_size(optarg, &request->length))
			return TOOL_DONE;
		return tool_usage("--length wants bytes, not '%s'", optarg);
	case OPTION_WAIT:
		if (tool_parse_seconds(optarg, &request->wait_ms))
			return TOOL_DONE;
		return tool_usage("--wait wants seconds, not '%s'", optarg);
	default: /* getopt has said what is wrong */
		return TOOL_USAGE;
	}
}

/* -1 to go on, else the exit code. */
static int parse(int argc, char **argv, struct attach_request *request)
{
	int option, code;

	while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (option == OPTION_HELP)
			return tool_print(help);
		if (option == OPTION_VERSION)
			return tool_version();
		code = parse_option(option, request);
		if (code)
			return code;
	}
	if (argc - optind != 1)
		return tool_usage(argc == optind ? "which buffer? NAME is missing"
						 : "one NAME at a time");
	if (request->output && request->into)
		return tool_usage("-o and --into go opposite ways: give one of them");
	request->name = argv[optind];
	return -1;
}

/* From what was asked to bytes that are there. */
static bool find_range(struct attach_request *request, const struct gpushare_buffer *buffer)
{
	uint64_t size = gpushare_size(buffer);

	if (request->offset > size) {
		tool_error("offset %" PRIu64 " is past the end of '%s', which has %" PRIu64
			   " bytes",
			   request->offset, request->name, size);
		return false;
	}
	if (!request->has_length)
		request->length = size - request->offset;
	if (request->length > size - request->offset) {
		tool_error("%" PRIu64 " bytes from offset %" PRIu64
			   " run past the end of '%s', which has "
			   "%" PRIu64 " bytes",
			   request->length, request->offset, request->name, size);
		return false;
	}
	return true;
}

/* What keeps CUDA from starting here, or from reaching that GPU. */
static bool is_cudas(int status)
{
	return status == GPUSHARE_E_NO_DRIVER || status == GPUSHARE_E_DEVICE ||
	       status == GPUSHARE_E_CUDA || status == GPUSHARE_E_NO_MEMORY;
}

/* Through CUDA, whose copy engine is the fastest way; where there is no CUDA the CPU may still reach
 * the memory, slower. NULL: it was said why. */
static struct gpushare_buffer *attach(struct gpushare_session *session,
				      const struct attach_request *request)
{
	struct gpushare_attach_options wanted = {.wait_ms = request->wait_ms};
	struct gpushare_buffer *buffer = NULL;
	int status = gpushare_attach(session, request->name, &wanted, &buffer);

	if (!is_cudas(status)) {
		if (status)
			tool_failed(status);
		return buffer;
	}
	tool_error("%s; going on without CUDA", gpushare_explain());
	wanted.host_only = 1;
	status = gpushare_attach(session, request->name, &wanted, &buffer);
	if (status)
		tool_failed(status);
	return buffer;
}

int main(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct attach_request request = {.name = NULL};
	struct gpushare_buffer *buffer;
	int code;

	tool_name = "gpushare-attach";
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of write() */
	code = parse(argc, argv, &request);
	if (code >= 0)
		return code;
	session = tool_open(request.directory);
	if (!session)
		return TOOL_FAILED;
	buffer = attach(session, &request);
	if (!buffer || !find_range(&request, buffer))
		return TOOL_FAILED;
	return request.into ? attach_into(&request, buffer) : attach_dump(&request, buffer);
}
