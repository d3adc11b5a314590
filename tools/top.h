/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TOP_H
#define GPUSHARE_TOOLS_TOP_H
/* gpushare top: what there is (top_view.c), how it is shown (top_screen.c), keys (top_keys.c), and the
 * terminal that is used for that (top_terminal.c). */
#include <signal.h>
#include <stdio.h>

#include "show.h"
#include "tool.h"

/* X(name, as --sort says it, its key) */
#define TOP_SORTS(X) \
	X(SIZE, "size", 'M') \
	X(AGE, "age", 'T') \
	X(ATTACHED, "attached", 'A') \
	X(RATE, "rate", 'P') \
	X(NAME, "name", 'N')

enum top_sort {
#define X(name, text, key) TOP_##name,
	TOP_SORTS(X)
#undef X
	    TOP_SORT_COUNT,
};

#define TOP_HOLDERS_MAX 160

struct top_row {
	struct gpushare_info info;
	double
	    rate; /* of what is published, since the look before; below 0: not known, or nothing is */
	char holders[TOP_HOLDERS_MAX];
};

/* One look at the registry. */
struct top_view {
	struct top_row *rows;
	size_t count, room;
	struct gpushare_registry_info registry;
	uint64_t at_ms;
	double requests; /* a second; below 0: not known */
	int status;	 /* GPUSHARE_OK, or what the look met */
	char why[512];
};

struct top_options {
	const char *directory;
	const char *glob; /* NULL: all */
	enum top_sort sort;
	bool reverse, hide_deferred;
	char filter[GPUSHARE_NAME_MAX + 1]; /* "": none; without '*' and '?': a part of the name */
	unsigned int interval_ms;
	size_t scroll; /* rows above the first that is shown */
};

/* Nothing in `view` is of use where that fails: view->status and view->why say it. */
void top_view_read(struct top_view *view, struct gpushare_session **session,
		   const struct top_options *options);
/* By what was there before; `before` may be empty. */
void top_view_rates(struct top_view *view, const struct top_view *before);
void top_view_arrange(struct top_view *view, const struct top_options *options);
/* Of the rows from `first` on, `count` of them: who holds what. */
void top_view_holders(struct top_view *view, struct gpushare_session *session, size_t first,
		      size_t count);
json_t *top_view_json(const struct top_view *view, struct gpushare_session *session);
void top_view_finish(struct top_view *view);
const char *top_sort_text(enum top_sort sort);
bool top_sort_parse(const char *text, enum top_sort *out_sort);

/* Lines above the rows, the titles' among them. */
#define TOP_HEAD_LINES 6
/* How many rows `lines` have room for. */
size_t top_screen_room(int lines);
/* At most that wide; `room` rows from options->scroll on. `end` is what ends each line. `message`
 * stands where else nothing does. false: there was no memory for all rows. */
bool top_screen_print(FILE *to, const struct top_view *view, const struct top_options *options,
		      size_t room, int width, const char *message, const char *end);
void top_screen_help(FILE *to, const char *end);

enum top_prompt { TOP_NO_PROMPT, TOP_ASK_FILTER, TOP_ASK_INTERVAL };
struct top_keys {
	enum top_prompt prompt;
	char text[GPUSHARE_NAME_MAX + 1]; /* typed so far */
	char message[128];		  /* what came of the latest key; "": nothing to say */
	bool quit, help;
	bool look; /* now, rather than when the interval is over */
};
/* What was typed, `size` bytes; `room` is that of the screen. */
void top_keys_take(struct top_keys *keys, struct top_options *options, const char *typed,
		   size_t size, size_t room);
/* The line for the prompt that is open, else the message. */
void top_keys_line(const struct top_keys *keys, char out[512]);

/* Raw, on another page, without a cursor. false: standard output or input is no terminal. */
bool top_terminal_begin(void);
/* As it was; then a signal that ended us ends us. */
void top_terminal_end(void);
/* Until a key, a signal or the deadline. What was typed, 0: nothing. */
size_t top_terminal_wait(uint64_t deadline_ms, char *typed, size_t room);
/* The terminal is to be drawn anew, for its size or after a stop; or we are to end. */
bool top_terminal_redraw(void);
bool top_terminal_ended(void);
void top_terminal_write(const char *text, size_t size);

uint64_t top_now_ms(void);

#endif
