/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TOP_H
#define GPUSHARE_TOOLS_TOP_H
/* gpushare top: data (top_view.c), display (top_screen.c), keys (top_keys.c) and terminal modes
 * and signals (top_terminal.c). */
#include <signal.h>
#include <stdio.h>

#include "common/show.h"
#include "common/tool.h"

/* X(name, value of --sort, key that selects it) */
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
	/* publications a second since the last reading; below 0: unknown, or there are none */
	double rate;
	char holders[TOP_HOLDERS_MAX];
};

/* One reading of the registry's state. */
struct top_view {
	struct top_row *rows;
	size_t count, room;
	struct gpushare_registry_info registry;
	uint64_t at_ms;
	double requests; /* per second; below 0: unknown */
	int status;	 /* GPUSHARE_OK, or the error of the reading */
	char why[512];
};

struct top_options {
	const char *directory;
	const char *glob; /* NULL: all */
	enum top_sort sort;
	bool reverse, hide_deferred;
	/* "": none; without '*', '?' and '[': a part of the name */
	char filter[GPUSHARE_NAME_MAX + 1];
	unsigned int interval_ms;
	size_t scroll; /* number of rows above the first one shown */
};

/* Read the registry's state into `view`. If that fails, only view->status and view->why are
 * valid. */
void top_view_read(struct top_view *view, struct gpushare_session **session,
		   const struct top_options *options);
/* Compute the rates from the reading before. `before` may be empty; its rows get sorted. */
void top_view_rates(struct top_view *view, const struct top_view *before);
void top_view_arrange(struct top_view *view, const struct top_options *options);
/* Fill in the `holders` texts of `count` rows from `first` on. */
void top_view_holders(struct top_view *view, struct gpushare_session *session, size_t first,
		      size_t count);
json_t *top_view_json(const struct top_view *view, struct gpushare_session *session);
void top_view_finish(struct top_view *view);
const char *top_sort_text(enum top_sort sort);
bool top_sort_parse(const char *text, enum top_sort *out_sort);

/* Number of lines above the rows, the column titles included. */
#define TOP_HEAD_LINES 6
/* How many rows fit into `lines` lines. */
size_t top_screen_room(int lines);
/*
 * Print the view: `room` rows from options->scroll on, lines of `width` columns at most. Before
 * each newline it prints `end`. `message` takes the line above the titles. Returns false if memory
 * didn't suffice for all rows.
 */
bool top_screen_print(FILE *to, const struct top_view *view, const struct top_options *options,
		      size_t room, int width, const char *message, const char *end);
void top_screen_help(FILE *to, const char *end);

enum top_prompt { TOP_NO_PROMPT, TOP_ASK_FILTER, TOP_ASK_INTERVAL };
struct top_keys {
	enum top_prompt prompt;
	char text[GPUSHARE_NAME_MAX + 1]; /* typed so far */
	char message[128];		  /* answer to the latest key; "": none */
	bool quit, help;
	bool look; /* read the registry now, not at the end of the interval */
};
/* Handle `size` typed bytes. `room` is the number of rows on the screen, for paging. */
void top_keys_take(struct top_keys *keys, struct top_options *options, const char *typed,
		   size_t size, size_t room);
/* The message line: the open prompt with its text, else `message`. */
void top_keys_line(const struct top_keys *keys, char out[512]);

/* Switch the terminal to single keys without echo, the alternate screen and no cursor, and block
 * signals. Returns false if standard output is no terminal; then nothing has changed. */
bool top_terminal_begin(void);
/* Restore the terminal. If a signal ended top (SIGHUP: the input ended), raise it again with its
 * default action. */
void top_terminal_end(void);
/* Wait for a key, a signal or the deadline (top_now_ms()). Returns the number of bytes typed; 0:
 * none. */
size_t top_terminal_wait(uint64_t deadline_ms, char *typed, size_t room);
/*
 * top_terminal_redraw(): the size changed or the process was continued, so the screen must be drawn
 * again. Reports each change once, and sets the modes again after SIGCONT. top_terminal_ended(): a
 * signal or the end of the input ends top.
 */
bool top_terminal_redraw(void);
bool top_terminal_ended(void);
void top_terminal_write(const char *text, size_t size);

uint64_t top_now_ms(void);

#endif
