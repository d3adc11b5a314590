/* SPDX-License-Identifier: MIT */
/*
 * gpushare --complete WORD...: called by the shell scripts in completions/, so that they need no
 * list of verbs and options. The arguments are the words after "gpushare"; the last one is being
 * typed. Prints a line per candidate: "candidate<TAB>description". Other lines tell the shell to
 * complete by itself: ":files", ":dirs", ":commands", ":attach" (the options of gpushare-attach).
 */
#include <stdio.h>
#include <string.h>

#include "top/top.h"
#include "verbs.h"

#define WORD_MAX 64
#define PATIENCE_MS 500 /* short, because the user waits for the completion */

static const struct {
	const char *name, *arguments, *summary;
} verbs[] = {
#define X(verb, arguments, summary) {#verb, arguments, summary},
    VERBS(X)
#undef X
};

#define VERB_COUNT (sizeof(verbs) / sizeof(*verbs))

/* What to print for each placeholder in the arguments of VERBS. */
static const struct {
	const char *word, *what;
} kinds[] = {
    {"DIR", ":dirs"},	      {"FILE", ":files"}, {"APP", ":commands"},
    {"PROGRAM", ":commands"}, {"ARG", ":files"},  {"OPTION", ":attach"},
};

/* The arguments of top's --sort. */
static const char sorts[] =
#define X(name, text, key) text "\n"
    TOP_SORTS(X)
#undef X
    ;

struct word {
	char text[WORD_MAX]; /* without brackets and dots */
	bool option;	     /* an option such as --dir */
	bool argument;	     /* an option with an argument, such as --dir DIR */
	bool again;	     /* ends in "...": may be repeated */
};

/* Parse the next word of a verb's arguments. Returns the position after it; NULL at the end. */
static const char *word_next(const char *at, struct word *word)
{
	size_t length, used = 0;

	at += strspn(at, " |");
	length = strcspn(at, " ");
	if (!length)
		return NULL;
	*word = (struct word){.again = length > 3 && !strncmp(at + length - 3, "...", 3)};
	for (size_t i = 0; i < length && used + 1 < WORD_MAX; i++)
		if (!strchr("[].", at[i]))
			word->text[used++] = at[i];
	word->option = word->text[0] == '-' && word->text[1];
	word->argument = word->option && at[length] == ' ' && !memchr(at, ']', length);
	return at + length;
}

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

static void offer(const char *what, const char *directory)
{
	if (!strcmp(what, "NAME") || !strcmp(what, "GLOB"))
		offer_names(directory);
	if (!strcmp(what, "KEY"))
		fputs(sorts, stdout);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(what, kinds[i].word))
			puts(kinds[i].what);
}

static void offer_options(const char *arguments)
{
	struct word word;

	for (const char *at = arguments; (at = word_next(at, &word));) {
		if (word.option && strcmp(word.text, "--") != 0 && strcmp(word.text, "-KEY") != 0)
			puts(word.text);
		if (!strcmp(word.text, "OPTION"))
			puts(":attach");
	}
	puts("--help");
}

/* Find the placeholder of the option's argument; "": it takes none. */
static void option_argument(const char *arguments, const char *option, char out[WORD_MAX])
{
	struct word word, behind;

	*out = '\0';
	for (const char *at = arguments; (at = word_next(at, &word));)
		if (word.option && word.argument && !strcmp(word.text, option) &&
		    word_next(at, &behind))
			strcpy(out, behind.text);
}

/* Find the placeholder of operand number `place`, counted from 0; "": there is none. */
static void find_operand(const char *arguments, int place, char out[WORD_MAX])
{
	bool skip = false;
	struct word word;

	*out = '\0';
	for (const char *at = arguments; (at = word_next(at, &word));) {
		if (!skip && !word.option && (place-- == 0 || word.again)) {
			strcpy(out, word.text);
			return;
		}
		skip = word.argument;
	}
}

static void complete_verb(const char *arguments, int argc, char **argv)
{
	const char *directory = NULL, *now = argv[argc - 1];
	char wanted[WORD_MAX] = "";
	int operands = 0;

	for (int i = 0; i < argc - 1; i++) {
		option_argument(arguments, argv[i], wanted);
		if (!*wanted) {
			operands += argv[i][0] != '-';
			continue;
		}
		if (++i == argc - 1)
			break; /* the word being typed is this option's argument */
		if (!strcmp(wanted, "DIR"))
			directory = argv[i];
		*wanted = '\0';
	}
	if (!*wanted) {
		find_operand(arguments, operands, wanted);
		if (*now == '-' && strcmp(wanted, "ARG") != 0) {
			offer_options(arguments);
			return;
		}
	}
	offer(wanted, directory);
}

int verb_complete(int argc, char **argv)
{
	if (argc < 1)
		return tool_usage("--complete wants the words, the last one being typed");
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (argc == 1)
			printf("%s\t%s\n", verbs[i].name, verbs[i].summary);
		else if (!strcmp(argv[0], verbs[i].name))
			complete_verb(verbs[i].arguments, argc - 1, argv + 1);
	}
	if (argc == 1)
		puts("--help\n--version");
	return tool_flush(TOOL_DONE);
}
