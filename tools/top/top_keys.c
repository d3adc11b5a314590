/* SPDX-License-Identifier: MIT */
#include <string.h>

#include <curses.h>

#include "top.h"

#define ESCAPE 033
#define CTRL_L '\f'

static void scroll_by(struct top_options *options, long rows)
{
	if (rows < 0 && (size_t)-rows >= options->scroll)
		options->scroll = 0;
	else
		options->scroll += (size_t)rows;
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
			 "'%.40s' is not a number of seconds, 0.05 or more", keys->text);
	}
	keys->prompt = TOP_NO_PROMPT;
	keys->look = true;
}

static void prompt_key(struct top_keys *keys, struct top_options *options, int key)
{
	size_t length = strlen(keys->text);

	if (key == '\r' || key == '\n' || key == KEY_ENTER)
		prompt_done(keys, options);
	else if (key == ESCAPE)
		keys->prompt = TOP_NO_PROMPT;
	else if ((key == 0x7f || key == '\b' || key == KEY_BACKSPACE) && length)
		keys->text[length - 1] = '\0';
	else if (key >= ' ' && key <= '~' && length + 1 < sizeof(keys->text))
		keys->text[length] = (char)key;
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

/* Returns false if the key is not for scrolling. */
static bool scroll_key(struct top_options *options, int key, size_t room)
{
	switch (key) {
	case KEY_UP:
		scroll_by(options, -1);
		return true;
	case KEY_DOWN:
		scroll_by(options, 1);
		return true;
	case KEY_PPAGE:
		scroll_by(options, -(long)room);
		return true;
	case KEY_NPAGE:
		scroll_by(options, (long)room);
		return true;
	case KEY_HOME:
		options->scroll = 0;
		return true;
	}
	return false;
}

static void command(struct top_keys *keys, struct top_options *options, int key)
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
	case CTRL_L:
		clearok(curscr, TRUE);
		return;
	case ESCAPE: /* skip the rest of an unknown escape sequence */
		flushinp();
		return;
	case ' ':
	case '\r':
	case '\n':
	case KEY_ENTER:
		return;
	}
	if (key >= KEY_MIN) /* a function key */
		return;
	snprintf(keys->message, sizeof(keys->message), "No such key; 'h' lists the keys");
}

void top_keys_take(struct top_keys *keys, struct top_options *options, int key, size_t room)
{
	*keys->message = '\0';
	if (keys->help) {
		keys->help = false;
		keys->look = true;
	} else if (keys->prompt != TOP_NO_PROMPT) {
		prompt_key(keys, options, key);
	} else if (scroll_key(options, key, room)) {
		keys->look = true;
	} else {
		command(keys, options, key);
	}
}

void top_keys_line(const struct top_keys *keys, char out[512])
{
	if (keys->prompt == TOP_ASK_FILTER)
		snprintf(out, 512, "Only names with (empty: all): %s_", keys->text);
	else if (keys->prompt == TOP_ASK_INTERVAL)
		snprintf(out, 512, "Seconds between two readings: %s_", keys->text);
	else
		snprintf(out, 512, "%s", keys->message);
}
