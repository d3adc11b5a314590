/* SPDX-License-Identifier: MIT */
/* gpushare-attach's command line. Each option is a row of OPTIONS and a take_ function. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"

/* Each take_ function returns a tool_exit. */
static int take_output(struct attach_request *request, const char *value)
{
	request->output = value;
	return TOOL_DONE;
}

static int take_format(struct attach_request *request, const char *value)
{
	static const char *const names[] = {
#define X(name, text) [FORMAT_##name] = text,
	    FORMATS(X)
#undef X
	};
	enum dtype dtype = dtype_parse(value);

	for (size_t i = FORMAT_NONE + 1; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(value, names[i])) {
			request->query.format = (enum format)i;
			return TOOL_DONE;
		}
	if (!dtype)
		return tool_usage("--format is raw, hex, npy, text or an element's type, not '%s'",
				  value);
	if (request->query.dtype && request->query.dtype != dtype)
		return tool_usage("--format and --dtype tell of two types: give one of them");
	request->query.format = FORMAT_TEXT;
	request->query.dtype = dtype;
	return TOOL_DONE;
}

static int take_dtype(struct attach_request *request, const char *value)
{
	enum dtype dtype = dtype_parse(value);

	if (!dtype)
		return tool_usage("--dtype is one of the types of --help, not '%s'", value);
	if (request->query.dtype && request->query.dtype != dtype)
		return tool_usage("--format and --dtype tell of two types: give one of them");
	request->query.dtype = dtype;
	return TOOL_DONE;
}

static int take_shape(struct attach_request *request, const char *value)
{
	uint64_t count;

	request->query.has_shape = true;
	if (shape_parse(value, &request->query.shape) && shape_count(&request->query.shape, &count))
		return TOOL_DONE;
	return tool_usage("--shape wants extents, as in 2x3 or 2,3, not '%s'", value);
}

static int take_head(struct attach_request *request, const char *value)
{
	request->query.has_head = true;
	if (tool_parse_size(value, &request->query.head))
		return TOOL_DONE;
	return tool_usage("--head wants a number, not '%s'", value);
}

static int take_offset(struct attach_request *request, const char *value)
{
	request->query.has_offset = true;
	if (tool_parse_size(value, &request->query.offset))
		return TOOL_DONE;
	return tool_usage("--offset wants bytes, not '%s'", value);
}

static int take_length(struct attach_request *request, const char *value)
{
	request->query.has_length = true;
	if (tool_parse_size(value, &request->query.length))
		return TOOL_DONE;
	return tool_usage("--length wants bytes, not '%s'", value);
}

static int take_wait(struct attach_request *request, const char *value)
{
	if (tool_parse_seconds(value, &request->wait_ms))
		return TOOL_DONE;
	return tool_usage("--wait wants seconds, not '%s'", value);
}

static int take_stats(struct attach_request *request, const char *value)
{
	(void)value;
	request->query.stats = true;
	return TOOL_DONE;
}

static int take_sha256(struct attach_request *request, const char *value)
{
	(void)value;
	request->query.sha256 = true;
	return TOOL_DONE;
}

static int take_rate(struct attach_request *request, const char *value)
{
	(void)value;
	request->rate = true;
	return TOOL_DONE;
}

static int take_diff(struct attach_request *request, const char *value)
{
	request->query.diff = value;
	return TOOL_DONE;
}

static int take_follow(struct attach_request *request, const char *value)
{
	(void)value;
	request->follow = true;
	return TOOL_DONE;
}

static int take_count(struct attach_request *request, const char *value)
{
	if (tool_parse_size(value, &request->count) && request->count)
		return TOOL_DONE;
	return tool_usage("--count wants a number from 1 on, not '%s'", value);
}

static int take_wait_for(struct attach_request *request, const char *value)
{
	if (tool_parse_size(value, &request->wait_for) && request->wait_for &&
	    request->wait_for < ATTACH_SEQUENCE_MAX)
		return TOOL_DONE;
	return tool_usage("--wait-for wants a publication's number, from 1 on, not '%s'", value);
}

static int take_timeout(struct attach_request *request, const char *value)
{
	request->has_timeout = true;
	if (tool_parse_seconds(value, &request->timeout_ms))
		return TOOL_DONE;
	return tool_usage("--timeout wants seconds, not '%s'", value);
}

static int take_into(struct attach_request *request, const char *value)
{
	request->into = value;
	return TOOL_DONE;
}

static int take_in(struct attach_request *request, const char *value)
{
	request->in = value;
	return TOOL_DONE;
}

static int take_restore(struct attach_request *request, const char *value)
{
	request->restore = value;
	return TOOL_DONE;
}

static int take_device(struct attach_request *request, const char *value)
{
	uint64_t device;

	if (!tool_parse_size(value, &device) || device > 1023)
		return tool_usage("--device wants the number of a GPU, not '%s'", value);
	request->device = (int)device;
	return TOOL_DONE;
}

static int take_mode(struct attach_request *request, const char *value)
{
	char *end;
	unsigned long mode = strtoul(value, &end, 8);

	if (*value < '0' || *value > '7' || *end || !mode || mode & ~0666ul)
		return tool_usage("--mode wants octal digits of read and write bits, such as 640, "
				  "not '%s'",
				  value);
	request->mode = (uint32_t)mode;
	return TOOL_DONE;
}

static int take_group(struct attach_request *request, const char *value)
{
	request->group = value;
	return TOOL_DONE;
}

static int take_dir(struct attach_request *request, const char *value)
{
	return tool_take_directory(value, &request->directory);
}

/* X(name, letter or 0, argument or NULL, suffix of its take_ function, help text) */
#define OPTIONS(X) \
	X("output", 'o', "FILE", output, \
	  "write to FILE; '-' is standard output, raw on a terminal too; DIR/, and what\n" \
	  "many NAMEs go to, is a directory") \
	X("format", 0, "FORMAT", format, \
	  "raw, hex, npy (NumPy's file), text (values with their index), or text of\n" \
	  "the type that is named: f32 and so on") \
	X("dtype", 0, "TYPE", dtype, \
	  "what the elements are; otherwise the tag dtype says, or bytes") \
	X("shape", 0, "SHAPE", shape, \
	  "2x3 or 2,3; otherwise the tag shape says, or one dimension") \
	X("head", 0, "N", head, "only the first N elements; of raw and hex, bytes") \
	X("offset", 0, "N", offset, "begin N bytes into the buffer") \
	X("length", 0, "N", length, "only N bytes; otherwise up to the end") \
	X("stats", 0, NULL, stats, "print least, most, mean, zeros and NaNs") \
	X("sha256", 0, NULL, sha256, "print the bytes' SHA-256") \
	X("diff", 0, "FILE", diff, \
	  "compare with FILE, raw or .npy: say where they differ first and in how\n" \
	  "many elements; exit 0 the same, 1 they differ, 2 trouble. A set's\n" \
	  "directory: each buffer in there, or those of NAME...") \
	X("rate", 0, NULL, rate, \
	  "say how long the copy took, without CUDA's start and the pinning of memory") \
	X("wait", 0, "SECONDS", wait, "wait that long for NAME to appear") \
	X("follow", 0, NULL, follow, \
	  "dump each publication, until the owner has gone; %s in FILE is its number") \
	X("count", 0, "N", count, "end --follow after N of them") \
	X("wait-for", 0, "SEQ", wait_for, "wait until publication SEQ, or a later one, is there") \
	X("timeout", 0, "SECONDS", timeout, "wait no longer than that for a publication") \
	X("into", 0, "FILE", into, "copy FILE into the buffer instead; '-' is standard input") \
	X("in", 0, "FILE.npy", in, "the same with the array in it, which must fit size and tags") \
	X("restore", 0, "PATH", restore, \
	  "put the set in the directory PATH back as kept buffers, all or those of\n" \
	  "NAME...; or the file PATH, .npy or raw, as one called NAME") \
	X("device", 0, "N", device, "restore to that GPU") \
	X("mode", 0, "OCTAL", mode, \
	  "restore for users as these bits say, 640; otherwise as it was saved") \
	X("group", 0, "NAME", group, "restore for that group, by its name or number") \
	X("dir", 0, "DIR", dir, "of the registry; otherwise $GPUSHARE_DIR and so on")

static const struct {
	const char *name;
	int letter;
	const char *argument; /* NULL: the option takes none */
	int (*take)(struct attach_request *request, const char *value);
	const char *text;
} options[] = {
#define X(name, letter, argument, function, text) {name, letter, argument, take_##function, text},
    OPTIONS(X)
#undef X
};

#define COUNT (sizeof(options) / sizeof(*options))
#define FIRST 256 /* getopt_long()'s value for the first option, above all letters */
#define HELP (FIRST + (int)COUNT)
#define VERSION (HELP + 1)

static const char usage[] =
    "usage: gpushare-attach [OPTION]... NAME\n"
    "       gpushare-attach [OPTION]... -o DIR/ NAME|PATTERN...\n"
    "       gpushare-attach --restore PATH [NAME|PATTERN]...\n"
    "       gpushare-attach --diff DIR [NAME|PATTERN]...\n"
    "\n"
    "Attach the GPU buffer NAME of another process and copy its bytes to the host.\n"
    "On a terminal the first 256 bytes are shown in hex; a file or a pipe gets them all.\n"
    "\n"
    "  gpushare-attach weights -o weights.bin         all of its bytes\n"
    "  gpushare-attach weights --format f32 --head 8  [0] 0.5 -1.25 ...\n"
    "  gpushare-attach weights --stats --dtype bf16   min, max, mean, NaNs\n"
    "  gpushare-attach weights --format npy -o w.npy  for numpy.load(), as it is tagged\n"
    "  gpushare-attach weights --diff w.npy           has it changed since?\n"
    "  gpushare-attach weights --follow -o w.%s       each publication, see GPUSHARE_PUBLISH\n"
    "  gpushare-attach 'llama/*' -o saved/            a set, with a manifest.json\n"
    "  gpushare-attach --diff saved/                  which of them have changed since?\n"
    "  gpushare-attach --restore saved/               the same buffers again, kept\n"
    "\n";

static const char notes[] =
    "      --help, --version\n"
    "\n"
    "Types: f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool, or float16 and so on. Tags are\n"
    "set by their owner or by 'gpushare tag NAME dtype=float16 shape=2x3'. A .npy file has\n"
    "bfloat16 as '<V2': numpy.load(FILE).view(ml_dtypes.bfloat16).\n"
    "--stats, --sha256 and --diff print what they find; the bytes only go where -o says.\n"
    "N takes K M G T (powers of 1000) and Ki Mi Gi Ti (of 1024).\n"
    "Where CUDA can't be used, a buffer of a rule with 'map', 'keep', 'readonly' or 'vmm' is\n"
    "reached by the CPU itself, through Vulkan.\n"
    "Exit: 0 done, 1 the request failed, 2 it was not understood.\n";

static int print_help(void)
{
	fputs(usage, stdout);
	for (size_t i = 0; i < COUNT; i++) {
		char left[64];
		const char *text = options[i].text;
		int length;

		snprintf(left, sizeof(left), "  %c%c%c --%s%s%s", options[i].letter ? '-' : ' ',
			 options[i].letter ? options[i].letter : ' ', options[i].letter ? ',' : ' ',
			 options[i].name, options[i].argument ? " " : "",
			 options[i].argument ? options[i].argument : "");
		for (; *text; text += length + (text[length] == '\n')) {
			length = (int)strcspn(text, "\n");
			printf("%-23s %.*s\n", left, length, text);
			*left = '\0';
		}
	}
	return tool_print(notes);
}

int attach_parse(int argc, char **argv, struct attach_request *request)
{
	struct option table[COUNT + 3] = {
	    [COUNT] = {"help", no_argument, NULL, HELP},
	    [COUNT + 1] = {"version", no_argument, NULL, VERSION},
	};
	int option, code;

	for (size_t i = 0; i < COUNT; i++)
		table[i] = (struct option){options[i].name,
					   options[i].argument ? required_argument : no_argument,
					   NULL, FIRST + (int)i};
	while ((option = tool_getopt(argc, argv, "o:h", table)) != -1) {
		if (option == HELP || option == 'h')
			return print_help();
		if (option == VERSION)
			return tool_version();
		if (option == '?') /* getopt_long() has printed the error */
			return TOOL_USAGE;
		code = options[option == 'o' ? 0 : option - FIRST].take(request, optarg);
		if (code)
			return code;
	}
	request->names = argv + optind;
	request->name_count = argc - optind;
	request->query.name = request->name_count ? argv[optind] : NULL;
	return attach_check(request);
}
