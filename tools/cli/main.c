/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>

#include "node/node.h"
#include "protocol.h"
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

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* X(word that a user may try, the verb to suggest) */
#define MEANT(X) \
	X("attach", "get") \
	X("cat", "get") \
	X("copy", "get") \
	X("cp", "get") \
	X("dump", "get") \
	X("write", "put") \
	X("load", "restore") \
	X("compare", "diff") \
	X("delete", "rm") \
	X("remove", "rm") \
	X("unlink", "rm") \
	X("info", "stat") \
	X("show", "stat") \
	X("exec", "run") \
	X("check", "doctor")

static const char *const other_words[][2] = {
#define X(word, verb) {word, verb},
    MEANT(X)
#undef X
#define X(word, ...) {#word, "registry"},
	REGISTRY_ACTIONS(X)
#undef X
};

/* Whether both words have the same length and letters, as if keys were typed in the wrong order. */
static bool same_letters(const char *a, const char *b)
{
	size_t length = strlen(a);

	return strlen(b) == length && strspn(a, b) == length && strspn(b, a) == length;
}

/* Find the verb to suggest for a word that is no verb: from the list above, else the closest verb,
 * "help" or "version", if at most a third of the letters differ. NULL: none. */
static const char *find_meant(const char *word)
{
	static const char *const near[] = {
#define X(verb, arguments, summary) #verb,
	    VERBS(X)
#undef X
		"help",
	    "version",
	};
	unsigned int most = strlen(word) < 3 ? 1 : (unsigned int)strlen(word) / 3;
	const char *found = NULL;

	for (size_t i = 0; i < COUNT(other_words); i++)
		if (!strcmp(word, other_words[i][0]))
			return other_words[i][1];
	for (size_t i = 0; i < COUNT(near); i++) {
		unsigned int away =
		    same_letters(word, near[i]) ? 1 : edit_distance(word, near[i], most);

		if (away <= most && away < strlen(word) && (!found || away < most)) {
			found = near[i];
			most = away;
		}
	}
	return found;
}

static int run_verb(int argc, char **argv)
{
	const char *meant;

	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(argv[0], verbs[i].name)) {
			tool_verb = verbs[i].name;
			return verbs[i].run(argc, argv);
		}
	meant = find_meant(argv[0]);
	if (meant && verb_usage(meant))
		tool_verb = meant;
	if (meant)
		return tool_usage("there is no verb '%s'; did you mean '%s'?", argv[0], meant);
	return tool_usage("there is no verb '%s'; the verbs are%s", argv[0], verb_names);
}

/* main() under this program's second name. */
static int attach_main(int argc, char **argv)
{
	tool_name = argv[0] = (char *)ATTACH_NAME;
	if (argc == 2 && !strcmp(argv[1], "--version"))
		return tool_version();
	if (argc > 1 && !strcmp(argv[1], "--complete")) {
		argv[1] = argv[0];
		return verb_complete(argc - 1, argv + 1);
	}
	return verb_attach(argc, argv);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;

	signal(SIGPIPE, SIG_IGN);
	if (argc && !strcmp(slash ? slash + 1 : argv[0], ATTACH_NAME))
		return attach_main(argc, argv);
	if (argc && !strcmp(argv[0], NODE_WORKER))
		return node_worker(argc, argv);
	tool_name = "gpushare";
	if (!verb)
		return tool_usage("a verb is missing; the verbs are%s", verb_names);
	if (!strcmp(verb, "help") && argc > 2)
		return verb_help(strcmp(argv[2], "list") ? argv[2] : "ls");
	if (!strcmp(verb, "--help") || !strcmp(verb, "-h") || !strcmp(verb, "help"))
		return verb_help_all();
	if (!strcmp(verb, "--version") || !strcmp(verb, "version"))
		return tool_version();
	if (!strcmp(verb, "--complete"))
		return verb_complete(argc - 2, argv + 2);
	if (!strcmp(verb, "list"))
		argv[1] = (char *)"ls";
	return run_verb(argc - 1, argv + 1);
}
