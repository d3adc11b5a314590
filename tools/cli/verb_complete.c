/* SPDX-License-Identifier: MIT */
/*
 * gpushare --complete WORD...: called by the shell scripts in completions/, so that they need no
 * list of verbs and options. The arguments are the words after "gpushare"; the last one is being
 * typed. Prints a line per candidate: "candidate<TAB>description". Other lines tell the shell to
 * complete by itself: ":files", ":dirs", ":commands". gpushare-attach --complete does the same.
 */
#include <stdio.h>
#include <string.h>

#include "data/layout.h"
#include "node/address.h"
#include "top/top.h"
#include "usage.h"
#include "listing.h"
#include "verbs.h"

#define PATIENCE_MS 500 /* short, because the user waits for the completion */

/* What to print for each placeholder in the usage texts. */
static const struct {
	const char *word, *what;
} kinds[] = {
    {"DIR", ":dirs\n"},
    {"SET", ":dirs\n"},
    {"FILE", ":files\n"},
    {"PATH", ":files\n"},
    {"APP", ":commands\n"},
    {"PROGRAM", ":commands\n"},
    {"ARG", ":files\n"},
    {"KEY", /* of top's --sort */
#define X(name, text, key) text "\n"
     TOP_SORTS(X)
#undef X
    },
    {"FORMAT",
#define X(name, text) text "\n"
     FORMATS(X)
#undef X
    },
    {"TYPE",
#define X(id, alias, name, ...) alias "\n" name "\n"
     DTYPES(X)
#undef X
    },
    {"COLUMN", /* of ls */
#define X(title, flags, number, put) #title "\n"
     LISTING_COLUMNS(X)
#undef X
    },
    {"COLUMNS",
#define X(title, flags, number, put) #title "\n"
     LISTING_COLUMNS(X)
#undef X
    },
};

static int print_name(const struct gpushare_info *info, void *user)
{
	char owner[GPUSHARE_COMMAND_MAX + 1];

	(void)user;
	tool_printable(info->owner_command, owner, sizeof(owner));
	printf("%s\t%s, of %s\n", info->name, "buffer", owner);
	return 0;
}

/* Print nothing if the registry can't be reached. */
static void offer_names(const char *directory)
{
	const struct gpushare_open_options options = {
	    .directory = directory, .timeout_ms = PATIENCE_MS, .no_autostart = 1};
	_tool_session_ struct gpushare_session *session = NULL;

	if (!gpushare_open(&options, &session))
		gpushare_list(session, NULL, print_name, NULL);
}

/* For each node in the list of nodes, print its name followed by `after`. */
static void offer_nodes(const char *after)
{
	char why[NODES_WHY_MAX];
	struct nodes nodes;

	if (!nodes_read(&nodes, why))
		return;
	for (size_t i = 0; i < nodes.count; i++)
		printf("%s%s\t%s\n", nodes.list[i].name, after, nodes.list[i].address.text);
	nodes_free(&nodes);
}

/* Print each word of a list such as "start|stop". */
static void offer_words(const char *words)
{
	for (size_t length; *words; words += length + (words[length] == '|')) {
		length = strcspn(words, "|");
		printf("%.*s\n", (int)length, words);
	}
}

static void offer(const char *what, const char *directory)
{
	if (strchr(what, '|'))
		offer_words(what);
	if (!strcmp(what, "NAME") || !strcmp(what, "GLOB"))
		offer_names(directory);
	if (!strcmp(what, "NODE:NAME"))
		offer_nodes(":");
	if (!strcmp(what, "NODE"))
		offer_nodes("");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(what, kinds[i].word))
			fputs(kinds[i].what, stdout);
}

static void offer_options(const char *arguments)
{
	struct usage_word word;

	for (const char *at = arguments; (at = usage_next(at, &word));) {
		if (word.option && strcmp(word.text, "--") != 0 && strcmp(word.text, "-KEY") != 0)
			puts(word.text);
	}
	puts("--help");
}

/* Find the placeholder of operand number `place`, counted from 0; "": there is none. */
static void find_operand(const char *arguments, int place, char out[USAGE_WORD_MAX])
{
	struct usage_word word;

	*out = '\0';
	for (const char *at = arguments; (at = usage_next(at, &word));) {
		if (!word.option && (place-- == 0 || word.again)) {
			strcpy(out, word.text);
			return;
		}
	}
}

static void complete_verb(const char *arguments, int argc, char **argv)
{
	const char *directory = NULL, *now = argv[argc - 1];
	char wanted[USAGE_WORD_MAX];
	struct usage_word word;
	int operands = 0;

	for (int i = 0; i < argc - 1; i++) {
		if (!usage_find(arguments, argv[i], &word) || !*word.argument) {
			operands += argv[i][0] != '-';
		} else if (++i == argc - 1) { /* the word being typed is this option's argument */
			offer(word.argument, directory);
			return;
		} else if (!strcmp(argv[i - 1], "--dir")) {
			directory = argv[i];
		}
	}
	find_operand(arguments, operands, wanted);
	if (*now == '-' && strcmp(wanted, "ARG") != 0)
		offer_options(arguments);
	else
		offer(wanted, directory);
}

int verb_complete(int argc, char **argv)
{
	const struct verb *verb = argc > 1 ? verb_find(argv[0]) : NULL;

	if (argc < 1)
		return tool_usage("--complete wants the words, the last one being typed");
	if (verb && verb->usage)
		complete_verb(verb->usage, argc - 1, argv + 1);
	if (argc == 1) {
		for (verb = verbs; verb->usage; verb++)
			printf("%s\t%s\n", verb->name, verb->summary);
		puts("--help\n--version");
	}
	return tool_flush(TOOL_DONE);
}
