/* SPDX-License-Identifier: MIT */
/* --help for the list of verbs and for each verb, and the options that verbs share. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "verbs.h"

/* X(option, its argument, help text); printed for each verb whose arguments have the option */
#define OPTIONS(X) \
	X("--name", "RULES", "names for its buffers, as GPUSHARE_NAME has them") \
	X("--attach", "RULES", \
	  "buffers of others in place of its own, as GPUSHARE_ATTACH has them") \
	X("--deferred", "", "what was freed by its owner and is held for who has it attached") \
	X("-d", "SECONDS", "between two looks; 1 unless told") \
	X("-n", "N", "that many looks as plain text, then end; on no terminal 1 unless told") \
	X("--sort", "KEY", "by size, age, attached, rate or name; size unless told") \
	X("--count", "N", "that many lines, then end") \
	X("-o", "FILE", "to FILE; '-' is standard output, raw on a terminal too") \
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
	X("ls", "gpushare ls --json | jq '.[] | select(.attachers == 0).name'", \
	  "names that nobody has attached") \
	X("ls", "gpushare ls --deferred", "memory that is freed and not free yet") \
	X("stat", "gpushare stat weights", "its owner, its size, and who has it attached") \
	X("stat", "gpushare stat", "what the registry has to do") \
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
	X("tag", "gpushare tag weights", "its tags") \
	X("tag", "gpushare tag weights dtype=f16 shape=4096,4096", "say what it holds") \
	X("tag", "gpushare tag weights step=7 -draft", "set one, take another away") \
	X("rm", "gpushare rm weights", "nobody can attach it by that name any more") \
	X("rm", "gpushare rm 'llama/*' kv", "all below llama, and kv") \
	X("metrics", "gpushare metrics >/var/lib/node_exporter/gpushare.prom", \
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
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Whether the arguments have the option: "[--dir DIR]" has "--dir", "[--directory X]" hasn't. */
static bool names_option(const char *arguments, const char *option)
{
	char wanted[64];
	const char *at;

	snprintf(wanted, sizeof(wanted), "[%s", option);
	at = strstr(arguments, wanted);
	return at && strchr(" ]", at[strlen(wanted)]);
}

static void help_options(const char *arguments)
{
	char words[64];

	printf("\n");
	for (size_t i = 0; i < COUNT(options_known); i++) {
		const struct option_line *one = &options_known[i];

		if (!names_option(arguments, one->name))
			continue;
		snprintf(words, sizeof(words), "%s %s", one->name, one->argument);
		printf("  %-16s %s\n", words, one->text);
	}
	printf("  %-16s %s\n", "--help", "this");
	if (strstr(arguments, "[OPTION]"))
		printf("\nThe other options are gpushare-attach's: 'gpushare-attach --help'.\n");
}

int verb_help(const char *verb)
{
	const struct line *found = NULL;
	const char *begin = "\nFor example\n";

	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verb, verbs[i].verb))
			found = &verbs[i];
	if (!found)
		return tool_usage("there is no verb '%s'", verb);
	printf("usage: gpushare %s %s\n%s\n", verb, found->words, found->text);
	help_options(found->words);
	for (size_t i = 0; i < COUNT(examples); i++) {
		if (strcmp(verb, examples[i].verb) != 0)
			continue;
		printf("%s  %s\n      %s\n", begin, examples[i].words, examples[i].text);
		begin = "";
	}
	return tool_flush(TOOL_DONE);
}

int verb_help_all(void)
{
	printf(
	    "usage: gpushare VERB [ARGUMENT]...\n\nGPU buffers with names, across processes.\n\n");
	for (size_t i = 0; i < COUNT(verbs); i++)
		printf("  %s %s\n      %s\n", verbs[i].verb, verbs[i].words, verbs[i].text);
	printf("\n  --help, --version; 'gpushare VERB --help' has examples\n\n"
	       "DIR is where the registry is; otherwise $GPUSHARE_DIR and so on.\n"
	       "RULES is what GPUSHARE_NAME and GPUSHARE_ATTACH hold, for example 'weights,kv' or\n"
	       "'seg%%i:size=1Mi-'. Exit: 0 done, 1 the request failed, 2 it was not understood;\n"
	       "'run' becomes the program, or exits 127 (not found) or 126 (can't be run).\n");
	return tool_flush(TOOL_DONE);
}

int verb_parse(int argc, char **argv, bool json, bool deferred, struct verb_options *out)
{
	static const struct option options[] = {
	    {"dir", required_argument, NULL, 'd'},
	    {"help", no_argument, NULL, 'h'},
	    {"json", no_argument, NULL, 'j'},
	    {"deferred", no_argument, NULL, 'l'},
	    {NULL, 0, NULL, 0},
	};
	int option;

	*out = (struct verb_options){.directory = NULL};
	while ((option = tool_getopt(argc, argv, "h", options)) != -1) {
		if (option == 'h')
			return verb_help(argv[0]);
		if (option == '?')
			return TOOL_USAGE;
		if (option == 'j' && !json)
			return tool_usage("'%s' has no --json", argv[0]);
		if (option == 'l' && !deferred)
			return tool_usage("'%s' has no --deferred", argv[0]);
		if (option == 'j')
			out->json = true;
		else if (option == 'l')
			out->deferred = true;
		else if (tool_take_directory(optarg, &out->directory))
			return TOOL_USAGE;
	}
	return -1;
}
