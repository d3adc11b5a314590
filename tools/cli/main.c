/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>

#include "verbs.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
#define X(verb, arguments, summary) {#verb, verb_##verb},
    VERBS(X)
#undef X
};

static const char verb_names[] =
#define X(verb, arguments, summary) " " #verb
    VERBS(X)
#undef X
    ;

#define VERB_COUNT (sizeof(verbs) / sizeof(*verbs))

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;

	tool_name = "gpushare";
	signal(SIGPIPE, SIG_IGN);
	if (!verb)
		return tool_usage("which verb? one of%s", verb_names);
	if (!strcmp(verb, "help") && argc > 2)
		return verb_help(argv[2]);
	if (!strcmp(verb, "--help") || !strcmp(verb, "-h") || !strcmp(verb, "help"))
		return verb_help_all();
	if (!strcmp(verb, "--version"))
		return tool_version();
	if (!strcmp(verb, "--complete"))
		return verb_complete(argc - 2, argv + 2);
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (!strcmp(verb, verbs[i].name)) {
			tool_verb = verbs[i].name;
			return verbs[i].run(argc - 1, argv + 1);
		}
	return tool_usage("there is no verb '%s'; the verbs are%s", verb, verb_names);
}
