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

bool usage_flag(const char *value, void *out)
{
	(void)value;
	*(bool *)out = true;
	return true;
}

bool usage_text(const char *value, void *out)
{
	*(const char **)out = value;
	return true;
}

bool usage_directory(const char *value, void *out)
{
	return *value && usage_text(value, out);
}

bool usage_size(const char *value, void *out)
{
	return tool_parse_size(value, out);
}

bool usage_seconds(const char *value, void *out)
{
	return tool_parse_seconds(value, out);
}

bool usage_number(const char *value, void *out)
{
	return tool_parse_size(value, out) && *(uint64_t *)out;
}

/* Make getopt_long()'s tables of the options that the usage has; their values are FIRST and the
 * index in `options`. */
static void make_table(const char *usage, const struct usage_option *options, struct option *table,
		       char *letters)
{
	if (usage_find(usage, "--", NULL))
		*letters++ = '+'; /* the operands behind are another program's */
	for (int i = 0; options[i].name; i++) {
		const char *name = options[i].name;
		struct usage_word word;
		int has;

		if (!usage_find(usage, name, &word))
			continue;
		has = *word.argument ? required_argument : no_argument;
		if (name[1] != '-')
			letters += sprintf(letters, "%c%s", name[1], has ? ":" : "");
		if (name[1] == '-' || !strcmp(name, "-o"))
			*table++ = (struct option){name[1] == '-' ? name + 2 : "output", has, NULL,
						   FIRST + i};
	}
	*table = (struct option){"help", no_argument, NULL, 'h'};
	strcpy(letters, "h");
}

int usage_parse(int argc, char **argv, const char *usage, const struct usage_option *options,
		void *out, uint32_t *given)
{
	struct option table[OPTIONS_MAX] = {{NULL, 0, NULL, 0}};
	char letters[2 * OPTIONS_MAX], *to = out;
	int option;

	make_table(usage, options, table, letters);
	while ((option = tool_getopt(argc, argv, letters, table)) != -1) {
		int i = option - FIRST;

		if (option == 'h')
			return verb_help(argv[0]);
		if (option == '?')
			return TOOL_USAGE;
		for (i = i < 0 ? 0 : i; option < FIRST && options[i].name[1] != option;)
			i++;
		if (given)
			*given |= 1u << i;
		if (options[i].mark)
			*(bool *)(to + options[i].mark) = true;
		if (!options[i].parse(optarg, to + options[i].at))
			return tool_usage("%s wants %s, not '%s'", options[i].name,
					  options[i].wants, optarg);
	}
	return -1;
}

int usage_parse_glob(int argc, char **argv, const struct usage_option *options, void *out,
		     const char **out_glob)
{
	int code = usage_parse(argc, argv, verb_usage(argv[0]), options, out, NULL);

	if (code < 0 && argc - optind > 1)
		return tool_usage(
		    "one GLOB at a time; quote it, so that the shell leaves it alone");
	*out_glob = argv[optind];
	return code;
}
