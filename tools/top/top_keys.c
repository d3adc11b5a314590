/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "top.h"

#define ESCAPE '\033'
#define CTRL_L '\f'

/* X(bytes that a terminal sends after ESC, rows to scroll down) */
#define MOVES(X) \
	X("[A", -1) \
	X("[B", 1) \
	X("OA", -1) \
	X("OB", 1) \
	X("[5~", -(long)room) \
	X("[6~", (long)room) \
	X("[H", -(1L << 30)) \
	X("[1~", -(1L << 30)) \
	X("OH", -(1L << 30))

static void scroll(struct top_options *options, long rows)
{
	if (rows < 0 && (size_t)-rows >= options->scroll)
		options->scroll = 0;
	else
		options->scroll += (size_t)rows;
}

/* Handle an escape sequence. Returns its length in bytes. */
static size_t take_escape(struct top_options *options, const char *typed, size_t size, size_t room)
{
#define X(text, rows) \
	if (size > strlen(text) && !memcmp(typed + 1, text, strlen(text))) { \
		scroll(options, rows); \
		return 1 + strlen(text); \
	}
	MOVES(X)
#undef X
	/* Skip an unknown sequence, up to the letter or '~' that ends it. */
	for (size_t i = 2; i < size && typed[1] == '['; i++)
		if (typed[i] >= '@' && typed[i] <= '~')
			return i + 1;
	return size;
}

static void prompt_done(struct top_keys *keys, struct top_options *options)
{
	unsigned int ms;

	if (keys->prompt == TOP_ASK_FILTER) {
		strcpy(options->filter, keys->text);
		options->scroll = 0;
	} else if (tool_parse_seconds(keys->text, &ms) && ms >= 50) {
		options->interval_ms = ms;
	} else {
		snprintf(keys->message, sizeof(keys->message),
			 "'%.40s' is no number of seconds, 0.05 or more", keys->text);
	}
	keys->prompt = TOP_NO_PROMPT;
	keys->look = true;
}

static void prompt_key(struct top_keys *keys, struct top_options *options, char key)
{
	size_t length = strlen(keys->text);

	if (key == '\r' || key == '\n')
		prompt_done(keys, options);
	else if (key == ESCAPE)
		keys->prompt = TOP_NO_PROMPT;
	else if ((key == 0x7f || key == '\b') && length)
		keys->text[length - 1] = '\0';
	else if (key >= ' ' && key <= '~' && length + 1 < sizeof(keys->text))
		keys->text[length] = key;
}

static void prompt_open(struct top_keys *keys, enum top_prompt prompt)
{
	keys->prompt = prompt;
	memset(keys->text, 0, sizeof(keys->text));
}

static void sort_by(struct top_options *options, int sort)
{
	options->sort = (enum top_sort)((sort + TOP_SORT_COUNT) % TOP_SORT_COUNT);
	options->scroll = 0;
}

static void command(struct top_keys *keys, struct top_options *options, char key)
{
	keys->look = true;
	switch (key) {
#define X(name, text, letter) \
	case letter: \
		sort_by(options, TOP_##name); \
		return;
		TOP_SORTS(X)
#undef X
	case '<':
		sort_by(options, (int)options->sort - 1);
		return;
	case '>':
		sort_by(options, (int)options->sort + 1);
		return;
	case 'R':
		options->reverse = !options->reverse;
		return;
	case 'l':
		options->hide_deferred = !options->hide_deferred;
		return;
	case '=':
		*options->filter = '\0';
		return;
	case 'o':
	case '/':
		prompt_open(keys, TOP_ASK_FILTER);
		return;
	case 'd':
	case 's':
		prompt_open(keys, TOP_ASK_INTERVAL);
		return;
	case 'h':
	case '?':
		keys->help = true;
		return;
	case 'q':
		keys->quit = true;
		return;
	case ' ':
	case '\r':
	case '\n':
	case CTRL_L:
		return;
	}
	snprintf(keys->message, sizeof(keys->message), "No such key; 'h' tells of those there are");
}

void top_keys_take(struct top_keys *keys, struct top_options *options, const char *typed,
		   size_t size, size_t room)
{
	*keys->message = '\0';
	if (keys->help) {
		keys->help = false;
		keys->look = true;
		return;
	}
	for (size_t i = 0; i < size;) {
		if (typed[i] == ESCAPE && size - i > 1 && keys->prompt == TOP_NO_PROMPT) {
			i += take_escape(options, typed + i, size - i, room);
			keys->look = true;
		} else if (keys->prompt != TOP_NO_PROMPT) {
			prompt_key(keys, options, typed[i++]);
		} else {
			command(keys, options, typed[i++]);
		}
	}
}

void top_keys_line(const struct top_keys *keys, char out[512])
{
	if (keys->prompt == TOP_ASK_FILTER)
		snprintf(out, 512, "Only names with (nothing: all): %s_", keys->text);
	else if (keys->prompt == TOP_ASK_INTERVAL)
		snprintf(out, 512, "Seconds between two looks: %s_", keys->text);
	else
		snprintf(out, 512, "%s", keys->message);
}
