/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>

#include "node/node.h"
#include "protocol.h"
#include "verbs.h"

static int help(int argc, char **argv);

static int version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return tool_version();
}

const struct verb verbs[] = {
#define X(verb, arguments, summary) {#verb, arguments, summary, verb_##verb},
    VERBS(X)
#undef X
	{"help", NULL, NULL, help},
    {"version", NULL, NULL, version},
    {ATTACH_NAME, ATTACH_USAGE,
     "copy buffers to files, or a file into a buffer: a second name of gpushare, with an option "
     "for each verb",
     verb_attach},
    {NULL, NULL, NULL, NULL},
};

static const char verb_names[] =
#define X(verb, arguments, summary) " " #verb
    VERBS(X)
#undef X
    ;

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Other words for a verb. */
static const char *const aliases[][2] = {
    {"list", "ls"},
    {"-h", "help"},
    {"--help", "help"},
    {"--version", "version"},
};

/* Words that a user may try, and the verb to suggest. */
static const char *const other_words[][2] = {
    {"attach", "get"},	{"cat", "get"},	  {"copy", "get"},     {"cp", "get"},
    {"dump", "get"},	{"write", "put"}, {"load", "restore"}, {"compare", "diff"},
    {"delete", "rm"},	{"remove", "rm"}, {"unlink", "rm"},    {"info", "stat"},
    {"show", "stat"},	{"exec", "run"},  {"check", "doctor"},
#define X(word, ...) {#word, "registry"},
    REGISTRY_ACTIONS(X)
#undef X
};

/* Whether both words have the same length and letters, as when letters were swapped in typing. */
static bool same_letters(const char *a, const char *b)
{
	size_t length = strlen(a);

	return strlen(b) == length && strspn(a, b) == length && strspn(b, a) == length;
}

const struct verb *verb_find(const char *word)
{
	const struct verb *verb = verbs;

	for (size_t i = 0; i < COUNT(aliases); i++)
		if (!strcmp(word, aliases[i][0]))
			word = aliases[i][1];
	while (verb->name && strcmp(word, verb->name) != 0)
		verb++;
	return verb->name ? verb : NULL;
}

static int help(int argc, char **argv)
{
	return argc > 1 ? verb_help(argv[1]) : verb_help_all();
}

/* Find the verb to suggest for an unknown word: by other_words, else the verb with the closest
 * name, if at most a third of the letters differ. NULL: none. */
static const struct verb *find_meant(const char *word)
{
	unsigned int most = strlen(word) < 3 ? 1 : (unsigned int)strlen(word) / 3;
	const struct verb *found = NULL;

	for (size_t i = 0; i < COUNT(other_words); i++)
		if (!strcmp(word, other_words[i][0]))
			return verb_find(other_words[i][1]);
	for (const struct verb *verb = verbs; verb->name; verb++) {
		unsigned int away =
		    same_letters(word, verb->name) ? 1 : edit_distance(word, verb->name, most);

		if (away <= most && away < strlen(word) && (!found || away < most)) {
			found = verb;
			most = away;
		}
	}
	return found;
}

static int run_verb(int argc, char **argv)
{
	const struct verb *verb = verb_find(argv[0]), *meant = verb ? verb : find_meant(argv[0]);

	if (meant && meant->usage)
		tool_verb = meant->name;
	if (verb) {
		argv[0] = (char *)verb->name;
		return verb->run(argc, argv);
	}
	if (meant)
		return tool_usage("there is no verb '%s'; did you mean '%s'?", argv[0],
				  meant->name);
	return tool_usage("there is no verb '%s'; the verbs are%s", argv[0], verb_names);
}

/* main() if the program is called gpushare-attach. */
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
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;

	signal(SIGPIPE, SIG_IGN);
	if (argc && !strcmp(slash ? slash + 1 : argv[0], ATTACH_NAME))
		return attach_main(argc, argv);
	if (argc && !strcmp(argv[0], NODE_WORKER))
		return node_worker(argc, argv);
	tool_name = "gpushare";
	if (argc < 2)
		return tool_usage("a verb is missing; the verbs are%s", verb_names);
	if (!strcmp(argv[1], "--complete"))
		return verb_complete(argc - 2, argv + 2);
	return run_verb(argc - 1, argv + 1);
}
