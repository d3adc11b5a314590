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
	  "./serve's first two allocations get the names 'weights' and 'kv'") \
	X("run", "gpushare run --name 'seg%i:size=64Mi-' -- python3 train.py", \
	  "allocations of 64 MiB and more get the names seg0, seg1, ...") \
	X("run", "gpushare run --attach weights:wait=30 -- ./other", \
	  "./other's first allocation is the buffer 'weights', after a wait of up to 30 s") \
	X("ls", "gpushare ls", "all names") \
	X("ls", "gpushare ls 'llama/*'", \
	  "names below llama; quoted, so that the shell does not expand the pattern") \
	X("ls", "gpushare ls --sort -SIZE -o NAME,SIZE,OWNER", \
	  "the largest first, in three columns") \
	X("ls", "gpushare ls --json | jq '.[] | select(.attachments == 0).name'", \
	  "names that nobody has attached") \
	X("ls", "gpushare ls --deferred", "freed buffers that are held for their attachers") \
	X("stat", "gpushare stat weights", "its owner, its size, and who has it attached") \
	X("stat", "gpushare stat", "the registry's numbers") \
	X("top", "gpushare top", "all buffers, the largest first; 'h' lists the keys") \
	X("top", "gpushare top --sort attached 'llama/*'", "names below llama, by attachments") \
	X("top", "gpushare top -n 1 | head", "once, as plain text") \
	X("watch", "gpushare watch 'llama/*'", "a line for each change of names below llama") \
	X("watch", "gpushare watch --count 1 weights && ./reader", \
	  "start the reader after the first change of 'weights'") \
	X("watch", \
	  "gpushare watch --json | jq -r 'select(.kind == \"owner-gone\") | .buffer.name'", \
	  "buffers whose owners have ended") \
	X("events", "gpushare events", "all named events and their owners") \
	X("get", "gpushare get weights", "on a terminal, its first bytes in hex") \
	X("get", "gpushare get weights -o weights.bin", "all bytes to a file") \
	X("get", "gpushare get weights | sha256sum", "all bytes into a pipe") \
	X("put", "gpushare put weights.bin weights", \
	  "copy the file into the buffer; both have the same size") \
	X("put", "head -c 4096 /dev/zero | gpushare put - weights --offset 1Mi", \
	  "fill a part of the buffer from standard input") \
	X("get", "gpushare get weights --format text --dtype f32 --head 8", \
	  "its first values; if it has a tag dtype, --dtype is not needed") \
	X("get", "gpushare get weights --plot", "a histogram of its values") \
	X("get", "gpushare get weights --stats", "minimum, maximum, mean, zeros and NaNs") \
	X("get", "gpushare get weights --format npy -o w.npy", "for numpy.load()") \
	X("get", "gpushare get frame --format png --shape 480x640x3 -o f.png", "a picture") \
	X("save", "gpushare save saved/ 'llama/*' kv", "a file for each, and a manifest.json") \
	X("restore", "gpushare restore saved/", "create the same buffers again, as kept ones") \
	X("restore", "gpushare restore w.npy weights", \
	  "create a buffer from one file, with dtype and shape of the file as tags") \
	X("diff", "gpushare diff w.npy weights", "does the buffer differ from the file?") \
	X("diff", "gpushare diff saved/", "which buffers differ from the saved set?") \
	X("follow", "gpushare follow frame -o frame.%s", \
	  "each publication to its own file; %s is its number, see GPUSHARE_PUBLISH") \
	X("follow", "gpushare follow frame --count 1 --wait-for 3 --timeout 60 -o frame.bin", \
	  "the third publication, or a later one; wait for it up to 60 s") \
	X(ATTACH_NAME, "gpushare-attach weights -o weights.bin", "the same as 'gpushare get'") \
	X(ATTACH_NAME, "gpushare-attach 'llama/*' -o saved/", "the same as 'gpushare save'") \
	X("pull", "gpushare pull a:weights --as weights-of-a", "a copy of node a's 'weights'") \
	X("pull", "gpushare pull 'a:llama/*'", "all buffers below llama, or none of them") \
	X("pull", "gpushare pull 'a:llama/*' --via b", \
	  "the same, but read b's copies of a's buffers") \
	X("pull", "gpushare pull a:frame --follow", \
	  "pull it, and then each publication, until a signal") \
	X("pull", "gpushare pull a:weights --trusted-network eth1", \
	  "the bytes by UCX, unencrypted, if node a offers UCX") \
	X("nodes", "gpushare nodes", "which nodes there are, which answer, and how fast") \
	X("ls", "gpushare ls --nodes 'weights*'", "the buffers with such names on all nodes") \
	X("node", "gpushare node --tls ~/certificates", \
	  "for pullers with a certificate that the CA in ~/certificates has signed") \
	X("node", "gpushare node --listen tcp://10.0.0.1:7411 --trusted-network eth1", \
	  "without TLS: anybody on eth1's network can read all that you may read") \
	X("node", "GPUSHARE_NODES=etcd://etcd.lab:2379/me gpushare node", \
	  "registered in the etcd by the host's name, for pullers with the same GPUSHARE_NODES") \
	X("tag", "gpushare tag weights", "its tags") \
	X("tag", "gpushare tag weights dtype=f16 shape=4096,4096", "describe its elements") \
	X("tag", "gpushare tag weights step=7 -draft", "set the tag step, remove the tag draft") \
	X("rm", "gpushare rm weights", "nobody can attach it by that name any more") \
	X("rm", "gpushare rm 'llama/*' kv", "all below llama, and kv") \
	X("registry", "gpushare registry status || gpushare registry start", \
	  "start a registry if none runs") \
	X("registry", "gpushare registry stop", "stop it, unless kept buffers would be lost") \
	X("metrics", "gpushare metrics >new; mv new /var/lib/node_exporter/gpushare.prom", \
	  "for node_exporter's textfile collector, from a timer") \
	X("metrics", "gpushare metrics --json", "the same numbers as JSON") \
	X("doctor", "gpushare doctor", "driver, GPUs, registry, Vulkan: what works here") \
	X("doctor", "gpushare doctor ./app", "the same, and whether ./app can have named buffers") \
	X("doctor", "gpushare doctor --json | jq '.checks[] | select(.status != \"ok\")'", \
	  "only the warnings and failures")

static const struct {
	const char *verb, *words, *text;
} examples[] = {
#define X(verb, words, text) {verb, words, text},
    EXAMPLES(X)
#undef X
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

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
	printf("  %-18s %s\n", "--help", "print this help");
}

int verb_help(const char *verb)
{
	const struct verb *found = verb_find(verb);
	const char *begin = "\nFor example\n";
	char usage[64];

	if (!found || !found->usage)
		return tool_usage("there is no verb '%s'", verb);
	snprintf(usage, sizeof(usage), "usage: %s%s", found->run == verb_attach ? "" : "gpushare ",
		 found->name);
	usage_print(usage, found->usage);
	puts(found->summary);
	help_options(found->usage);
	for (size_t i = 0; i < COUNT(examples); i++) {
		if (strcmp(found->name, examples[i].verb) != 0)
			continue;
		printf("%s  %s\n      %s\n", begin, examples[i].words, examples[i].text);
		begin = "";
	}
	return tool_flush(TOOL_DONE);
}

/* Return the part of a usage text after the options: " NAME..." for example, or "". */
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
	for (const struct verb *verb = verbs; verb->usage; verb++)
		printf("  %s [OPTION]...%s\n      %s\n", verb->name, operands(verb->usage),
		       verb->summary);
	printf(
	    "\n  --help, --version; 'gpushare VERB --help' has options and examples\n\n"
	    "DIR is the registry's directory; default: $GPUSHARE_DIR, else see gpushare(7).\n"
	    "RULES are those of GPUSHARE_NAME and GPUSHARE_ATTACH, for example 'weights,kv' or\n"
	    "'seg%%i:size=1Mi-'. Exit status: 0 done, 1 the request failed, 2 the command line is\n"
	    "wrong. 'run' ends with the program's status, or 127 (not found) or 126 (can't be "
	    "run).\n");
	return tool_flush(TOOL_DONE);
}
