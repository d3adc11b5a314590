/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 80
#define INDENT 8

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
