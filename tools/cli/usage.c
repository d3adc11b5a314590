/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "verbs.h"

#define OPTIONS_MAX 32
#define WIDTH 80
#define INDENT 8
#define FIRST 256 /* getopt_long()'s value for the first option, above all letters */

static size_t copy_word(const char *from, size_t length, char out[USAGE_WORD_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < length && used + 1 < USAGE_WORD_MAX; i++)
		if (!strchr("[].", from[i]))
			out[used++] = from[i];
	out[used] = '\0';
	return length;
}

const char *usage_next(const char *at, struct usage_word *word)
{
	size_t length;

	at += strspn(at, " |");
	length = strcspn(at, " ");
	if (!length)
		return NULL;
	*word = (struct usage_word){.again = length > 3 && !strncmp(at + length - 3, "...", 3)};
	copy_word(at, length, word->text);
	word->option = word->text[0] == '-' && word->text[1];
	if (word->option && at[length] == ' ' && !memchr(at, ']', length))
		length +=
		    1 + copy_word(at + length + 1, strcspn(at + length + 1, " "), word->argument);
	return at + length;
}

bool usage_find(const char *usage, const char *option, struct usage_word *word)
{
	struct usage_word found;

	if (!strcmp(option, "--output"))
		option = "-o";
	while ((usage = usage_next(usage, &found)) && strcmp(found.text, option) != 0)
		;
	if (usage && word)
		*word = found;
	return usage && found.option;
}

void usage_print(const char *begin, const char *usage)
{
	size_t column = strlen(begin);

	fputs(begin, stdout);
	while (*usage) {
		/* keep an option and its argument together */
		size_t length = *usage == '[' ? strcspn(usage, "]") : 0;

		length += strcspn(usage + length, " ");
		if (column + 1 + length >= WIDTH) {
			printf("\n%*s", INDENT - 1, "");
			column = INDENT - 1;
		}
		printf(" %.*s", (int)length, usage);
		column += 1 + length;
		usage += length;
		usage += strspn(usage, " ");
	}
	putchar('\n');
}

/* Return how many options the usage has. */
static size_t make_table(const char *usage, struct usage_word words[OPTIONS_MAX],
			 struct option table[OPTIONS_MAX + 3], char letters[2 * OPTIONS_MAX])
{
	size_t count = 0, longs = 0;

	for (const char *at = usage; count < OPTIONS_MAX && (at = usage_next(at, &words[count]));) {
		struct usage_word *word = &words[count];
		int has = *word->argument ? required_argument : no_argument;

		if (!word->option)
			continue;
		if (word->text[1] == '-')
			table[longs++] =
			    (struct option){word->text + 2, has, NULL, FIRST + (int)count};
		else
			letters += sprintf(letters, "%c%s", word->text[1], has ? ":" : "");
		if (!strcmp(word->text, "-o"))
			table[longs++] = (struct option){"output", has, NULL, 'o'};
		count++;
	}
	table[longs] = (struct option){"help", no_argument, NULL, 'h'};
	strcpy(letters, "h");
	return count;
}

int usage_parse(int argc, char **argv, const char *usage,
		int (*take)(const char *option, const char *value, void *user), void *user)
{
	struct usage_word words[OPTIONS_MAX];
	struct option table[OPTIONS_MAX + 3] = {{NULL, 0, NULL, 0}};
	char letters[2 * OPTIONS_MAX];
	size_t count = make_table(usage, words, table, letters);
	int option, code;

	while ((option = tool_getopt(argc, argv, letters, table)) != -1) {
		size_t i = option >= FIRST ? (size_t)(option - FIRST) : 0;

		if (option == 'h')
			return verb_help(argv[0]);
		if (option == '?')
			return TOOL_USAGE;
		while (option < FIRST && i < count &&
		       (words[i].text[1] != option || words[i].text[2]))
			i++;
		code = take(words[i].text, optarg, user);
		if (code)
			return code;
	}
	return -1;
}
