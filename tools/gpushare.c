/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "verbs.h"

static const struct {
	const char *name;
	const char *arguments;
	const char *summary;
	int (*run)(int argc, char **argv);
} verbs[] = {
#define X(verb, arguments, summary) {#verb, arguments, summary, verb_##verb},
    VERBS(X)
#undef X
};

static const char verb_names[] =
#define X(verb, arguments, summary) " " #verb
    VERBS(X)
#undef X
    ;

#define VERB_COUNT (sizeof(verbs) / sizeof(*verbs))

static int help(void)
{
	printf(
	    "usage: gpushare VERB [ARGUMENT]...\n\nGPU buffers with names, across processes.\n\n");
	for (size_t i = 0; i < VERB_COUNT; i++)
		printf("  %s %s\n      %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
	printf("\n  --help, --version\n\n"
	       "DIR is where the registry is; otherwise $GPUSHARE_DIR and so on.\n"
	       "RULES is what GPUSHARE_NAME and GPUSHARE_ATTACH hold, for example 'weights,kv' or\n"
	       "'seg%%i:size=1Mi-'. Exit: 0 done, 1 the request failed, 2 it was not understood;\n"
	       "'run' becomes the program, or exits 127 (not found) or 126 (can't be run).\n");
	return tool_flush(TOOL_DONE);
}

int verb_help(const char *verb)
{
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (!strcmp(verb, verbs[i].name))
			printf("usage: gpushare %s %s\n%s\n", verb, verbs[i].arguments,
			       verbs[i].summary);
	return tool_flush(TOOL_DONE);
}

int verb_parse(int argc, char **argv, bool json, bool limbo, struct verb_options *out)
{
	static const struct option options[] = {
	    {"dir", required_argument, NULL, 'd'},
	    {"help", no_argument, NULL, 'h'},
	    {"json", no_argument, NULL, 'j'},
	    {"limbo", no_argument, NULL, 'l'},
	    {NULL, 0, NULL, 0},
	};
	int option;

	*out = (struct verb_options){.directory = NULL};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'h')
			return verb_help(argv[0]);
		if (option == '?')
			return TOOL_USAGE;
		if (option == 'j' && !json)
			return tool_usage("'%s' has no --json", argv[0]);
		if (option == 'l' && !limbo)
			return tool_usage("'%s' has no --limbo", argv[0]);
		if (option == 'j')
			out->json = true;
		else if (option == 'l')
			out->limbo = true;
		else
			out->directory = optarg;
	}
	return -1;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;

	tool_name = "gpushare";
	signal(SIGPIPE, SIG_IGN);
	if (!verb)
		return tool_usage("which verb? one of%s", verb_names);
	if (!strcmp(verb, "--help") || !strcmp(verb, "help"))
		return help();
	if (!strcmp(verb, "--version"))
		return tool_version();
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (!strcmp(verb, verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	return tool_usage("there is no verb '%s'; the verbs are%s", verb, verb_names);
}
