/* SPDX-License-Identifier: MIT */
/* --help for the list of verbs and for each verb. */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "usage.h"
#include "verbs.h"

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
	X("watch", \
	  "gpushare watch --json | jq -r 'select(.kind == \"owner-gone\") | .buffer.name'", \
	  "buffers whose owners have ended") \
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
	for (const struct option_line *one = option_lines; one->name; one++) {
		if (!option_is_of(one, arguments))
			continue;
		snprintf(words, sizeof(words), "%s %s", one->name, one->argument);
		printf("  %-18s %s\n", words, one->help);
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
