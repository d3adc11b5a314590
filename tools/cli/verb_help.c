/* SPDX-License-Identifier: MIT */
/* --help for the list of verbs and for each verb, and the options that verbs share. */
#include <stdio.h>
#include <string.h>

#include "usage.h"
#include "verbs.h"

/* X(option, its argument, help text); printed for each verb whose arguments have the option */
#define OPTIONS(X) \
	X("--name", "RULES", "names for its buffers, as GPUSHARE_NAME has them") \
	X("--attach", "RULES", \
	  "buffers of others in place of its own, as GPUSHARE_ATTACH has them") \
	X("-l", "", "the GPU's UUID in place of its index and model") \
	X("-q", "", "the names alone") \
	X("-o", "COLUMNS", "these columns, such as NAME,SIZE; in this order") \
	X("--sort", "COLUMN", "by this column; from the largest down if '-' stands before it") \
	X("--bytes", "", "sizes in bytes on a terminal too") \
	X("--no-headers", "", "without the line of titles") \
	X("--deferred", "", "what was freed by its owner and is held for who has it attached") \
	X("--events", "", "named events in place of buffers") \
	X("-d", "SECONDS", "between two looks; default: 1") \
	X("-n", "N", "that many looks as plain text, then end; without a terminal, default: 1") \
	X("--sort", "KEY", "by size, age, attached, rate or name; default: size") \
	X("--count", "N", "that many, then end") \
	X("-o", "FILE", "to FILE; '-' is standard output, raw on a terminal too") \
	X("--format", "FORMAT", \
	  "raw, hex, npy (NumPy's file), text (values with their index), or png") \
	X("--dtype", "TYPE", \
	  "f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool; else the tag dtype, or u8") \
	X("--shape", "SHAPE", "2x3 or 2,3; else the tag shape, or one dimension") \
	X("--head", "N", "only the first N elements; of raw and hex, bytes") \
	X("--offset", "N", \
	  "begin N bytes into the buffer; K M G T are powers of 1000, Ki of 1024") \
	X("--length", "N", "only N bytes; else up to the end") \
	X("--stats", "", "print least, most, mean, zeros and NaNs") \
	X("--plot", "", "draw a histogram, and the means along the first axis") \
	X("--sha256", "", "print the SHA-256 of the bytes") \
	X("--rate", "", "say how long the copy took, without CUDA's start") \
	X("--wait", "SECONDS", "wait that long for NAME to appear") \
	X("--wait-for", "SEQ", "begin with publication SEQ, or a later one") \
	X("--timeout", "SECONDS", "wait no longer than that for a publication") \
	X("--device", "N", "to that GPU") \
	X("--mode", "OCTAL", "permission bits, such as 640; else as it was saved") \
	X("--group", "GROUP", "for that group, by its name or number") \
	X("--diff", "PATH", "compare with a file, or with a set: 'gpushare diff'") \
	X("--follow", "", "get each publication: 'gpushare follow'") \
	X("--into", "FILE", "copy FILE into the buffer as it is: 'gpushare put'") \
	X("--in", "FILE", "the same with the array in a .npy file") \
	X("--restore", "PATH", "make buffers of a set or a file: 'gpushare restore'") \
	X("--force", "", "stop it although kept buffers are lost") \
	X("--json", "", "as JSON, with every field") \
	X("--dir", "DIR", "where the registry is; else $GPUSHARE_DIR and so on")

/* X(verb, command line, explanation) */
#define EXAMPLES(X) \
	X("run", "gpushare run --name weights,kv -- ./serve", \
	  "the first two buffers that it allocates are 'weights' and 'kv'") \
	X("run", "gpushare run --name 'seg%i:size=64Mi-' -- python3 train.py", \
	  "each of 64 MiB and more is seg0, seg1, ...") \
	X("run", "gpushare run --attach weights:wait=30 -- ./other", \
	  "its allocation of that size is the buffer 'weights', once that is there") \
	X("ls", "gpushare ls", "all names") \
	X("ls", "gpushare ls 'llama/*'", "those below llama; quoted, so that the shell leaves it") \
	X("ls", "gpushare ls --sort -SIZE -o NAME,SIZE,OWNER", \
	  "the largest first, in three columns") \
	X("ls", "gpushare ls --json | jq '.[] | select(.attachments == 0).name'", \
	  "names that nobody has attached") \
	X("ls", "gpushare ls --deferred", "memory that is freed and not free yet") \
	X("stat", "gpushare stat weights", "its owner, its size, and who has it attached") \
	X("stat", "gpushare stat", "the registry's numbers") \
	X("top", "gpushare top", "all buffers, the largest first; 'h' there tells the keys") \
	X("top", "gpushare top --sort attached 'llama/*'", "those below llama, by attachments") \
	X("top", "gpushare top -n 1 | head", "once, as plain text") \
	X("watch", "gpushare watch 'llama/*'", "a line for whatever happens to those below llama") \
	X("watch", "gpushare watch --count 1 weights && ./reader", \
	  "start it once something happens") \
	X("events", "gpushare events", "all events that have a name, and whose they are") \
	X("get", "gpushare get weights", "its first bytes in hex, on a terminal") \
	X("get", "gpushare get weights -o weights.bin", "all of it to a file") \
	X("get", "gpushare get weights | sha256sum", "all of it into a pipe") \
	X("put", "gpushare put weights.bin weights", \
	  "the file into the buffer, which is as large") \
	X("put", "head -c 4096 /dev/zero | gpushare put - weights --offset 1Mi", \
	  "a part of it, from standard input") \
	X("get", "gpushare get weights --format text --dtype f32 --head 8", \
	  "its first values; the tag dtype would do as well") \
	X("get", "gpushare get weights --plot", "what its values look like") \
	X("get", "gpushare get weights --stats", "least, most, mean, zeros and NaNs") \
	X("get", "gpushare get weights --format npy -o w.npy", "for numpy.load()") \
	X("get", "gpushare get frame --format png --shape 480x640x3 -o f.png", "a picture") \
	X("save", "gpushare save saved/ 'llama/*' kv", "a file for each, and a manifest.json") \
	X("restore", "gpushare restore saved/", "the same buffers again, kept") \
	X("restore", "gpushare restore w.npy weights", \
	  "a buffer of one file, tagged as that says") \
	X("diff", "gpushare diff w.npy weights", "has it changed since?") \
	X("diff", "gpushare diff saved/", "which of them have changed since?") \
	X("follow", "gpushare follow frame -o frame.%s", \
	  "each publication to a file; %s is its number, see GPUSHARE_PUBLISH") \
	X("follow", "gpushare follow frame --count 1 --wait-for 3 --timeout 60 -o frame.bin", \
	  "the third one, or a later one, once it is there") \
	X(ATTACH_NAME, "gpushare-attach weights -o weights.bin", "'gpushare get'") \
	X(ATTACH_NAME, "gpushare-attach 'llama/*' -o saved/", "'gpushare save'") \
	X("tag", "gpushare tag weights", "its tags") \
	X("tag", "gpushare tag weights dtype=f16 shape=4096,4096", "say what it holds") \
	X("tag", "gpushare tag weights step=7 -draft", "set one, take another away") \
	X("rm", "gpushare rm weights", "nobody can attach it by that name any more") \
	X("rm", "gpushare rm 'llama/*' kv", "all below llama, and kv") \
	X("registry", "gpushare registry status || gpushare registry start", \
	  "one that is there before the first program") \
	X("registry", "gpushare registry stop", "end it, unless kept buffers would be lost") \
	X("metrics", "gpushare metrics >new; mv new /var/lib/node_exporter/gpushare.prom", \
	  "for node_exporter's textfile collector, from a timer") \
	X("metrics", "gpushare metrics --json", "the same numbers as JSON") \
	X("doctor", "gpushare doctor", "driver, GPUs, registry, Vulkan: what works here") \
	X("doctor", "gpushare doctor ./app", "and whether names would work for ./app") \
	X("doctor", "gpushare doctor --json | jq '.checks[] | select(.status != \"ok\")'", \
	  "only what is amiss")

static const struct line {
	const char *verb, *words, *text;
} examples[] = {
#define X(verb, words, text) {verb, words, text},
    EXAMPLES(X)
#undef X
};

static const struct option_line {
	const char *name, *argument, *text;
} options_known[] = {
#define X(name, argument, text) {name, argument, text},
    OPTIONS(X)
#undef X
};

static const struct line verbs[] = {
#define X(verb, arguments, summary) {#verb, arguments, summary},
    VERBS(X)
#undef X
	{ATTACH_NAME, ATTACH_USAGE,
	 "copy buffers out, or a file into one: the second name of gpushare, with options for "
	 "verbs"},
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct line *find_verb(const char *verb)
{
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verb, verbs[i].verb))
			return &verbs[i];
	return NULL;
}

const char *verb_usage(const char *verb)
{
	const struct line *found = find_verb(verb);

	return found ? found->words : NULL;
}

static void help_options(const char *arguments)
{
	char words[64];

	printf("\n");
	for (size_t i = 0; i < COUNT(options_known); i++) {
		const struct option_line *one = &options_known[i];
		struct usage_word word;

		if (!usage_find(arguments, one->name, &word) ||
		    strcmp(word.argument, one->argument))
			continue;
		snprintf(words, sizeof(words), "%s %s", one->name, one->argument);
		printf("  %-18s %s\n", words, one->text);
	}
	printf("  %-18s %s\n", "--help", "this");
}

int verb_help(const char *verb)
{
	const struct line *found = find_verb(verb);
	const char *begin = "\nFor example\n";
	char usage[64];

	if (!found)
		return tool_usage("there is no verb '%s'", verb);
	snprintf(usage, sizeof(usage), "usage: %s%s", !strcmp(verb, ATTACH_NAME) ? "" : "gpushare ",
		 verb);
	usage_print(usage, found->words);
	puts(found->text);
	help_options(found->words);
	for (size_t i = 0; i < COUNT(examples); i++) {
		if (strcmp(verb, examples[i].verb) != 0)
			continue;
		printf("%s  %s\n      %s\n", begin, examples[i].words, examples[i].text);
		begin = "";
	}
	return tool_flush(TOOL_DONE);
}

/* What follows the options in a verb's arguments, with a blank before it, if there is anything. */
static const char *operands(const char *arguments)
{
	const char *at = arguments;

	while (!strncmp(at + (*at == ' '), "[-", 2))
		at = strchr(at, ']') + 1;
	return at;
}

int verb_help_all(void)
{
	printf(
	    "usage: gpushare VERB [ARGUMENT]...\n\nGPU buffers with names, across processes.\n\n");
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (strcmp(verbs[i].verb, ATTACH_NAME) != 0)
			printf("  %s [OPTION]...%s\n      %s\n", verbs[i].verb,
			       operands(verbs[i].words), verbs[i].text);
	printf("\n  --help, --version; 'gpushare VERB --help' has options and examples\n\n"
	       "DIR is where the registry is; otherwise $GPUSHARE_DIR and so on.\n"
	       "RULES is what GPUSHARE_NAME and GPUSHARE_ATTACH hold, for example 'weights,kv' or\n"
	       "'seg%%i:size=1Mi-'. Exit: 0 done, 1 the request failed, 2 it was not understood;\n"
	       "'run' becomes the program, or exits 127 (not found) or 126 (can't be run).\n");
	return tool_flush(TOOL_DONE);
}

int verb_parse(int argc, char **argv, struct verb_options *out)
{
	static const struct usage_option options[] = {
	    {"--dir", usage_directory, offsetof(struct verb_options, directory), "a directory", 0},
	    {"--json", usage_flag, offsetof(struct verb_options, json), NULL, 0},
	    {NULL, NULL, 0, NULL, 0},
	};

	*out = (struct verb_options){.directory = NULL};
	return usage_parse(argc, argv, verb_usage(argv[0]), options, out, NULL);
}
