/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TOP_H
#define GPUSHARE_TOOLS_TOP_H
/* gpushare top: data (top_view.c), memory of the GPUs (top_memory.c), display (top_screen.c), keys
 * (top_keys.c), and ncurses with signals (top_terminal.c). */
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
	/* publications per second since the previous reading; negative: unknown, or none yet */
	double rate;
	char holders[TOP_HOLDERS_MAX];
};

#define TOP_GPUS_MAX 32

/* Memory of a GPU that has named buffers, in bytes. */
struct top_gpu {
	unsigned char uuid[GPUSHARE_UUID_SIZE]; /* must be first: see by_uuid() */
	uint64_t names;	      /* held by the named buffers that this user may see */
	uint64_t total, free; /* of the GPU; total 0: unknown */
};

/* One reading of the registry's state. */
struct top_view {
	struct top_row *rows;
	size_t count, room;
	struct top_gpu gpus[TOP_GPUS_MAX];
	size_t gpu_count;
	struct gpushare_registry_info registry;
	uint64_t at_ms;
	double requests; /* per second; negative: unknown */
	int status;	 /* GPUSHARE_OK, or the error of the reading */
	char why[512];
};

struct top_options {
	const char *directory;
	const char *glob; /* NULL: all */
	enum top_sort sort;
	bool reverse, hide_deferred;
	/* Which names to show: a pattern if it contains '*', '?' or '[', else a part of the name.
	 * "": all. */
	char filter[GPUSHARE_NAME_MAX + 1];
	unsigned int interval_ms;
	size_t scroll; /* number of rows above the first one shown */
};

/* Read the registry's state into `view`. If that fails, only view->status and view->why are
 * valid. */
void top_view_read(struct top_view *view, struct gpushare_session **session,
		   const struct top_options *options);
/* Compute the rates since the previous reading, `before`, which may be empty. Sorts before->rows by
 * generation. */
void top_view_rates(struct top_view *view, const struct top_view *before);
void top_view_arrange(struct top_view *view, const struct top_options *options);
/* Fill in the `holders` texts of `count` rows from `first` on. */
void top_view_holders(struct top_view *view, struct gpushare_session *session, size_t first,
		      size_t count);
json_t *top_view_json(const struct top_view *view, struct gpushare_session *session);
void top_view_finish(struct top_view *view);
const char *top_sort_text(enum top_sort sort);
bool top_sort_parse(const char *text, enum top_sort *out_sort);

/* Add a buffer's memory to `names` of its GPU. */
void top_memory_add(struct top_view *view, const struct gpushare_info *info);
/* Sort the GPUs, and ask NVML for their total and free memory. Without NVML these stay 0. */
void top_memory_ask(struct top_view *view);

/* How many rows fit on the terminal below the lines about the registry and the GPUs. */
size_t top_screen_room(const struct top_view *view);
/* Print the view with all its rows as text on standard output. */
void top_screen_print(const struct top_view *view, const struct top_options *options);
/* Draw the view on the terminal, from row options->scroll on, with `message` in the line above the
 * titles. */
void top_screen_draw(const struct top_view *view, const struct top_options *options,
		     const char *message);
void top_screen_help(void);

enum top_prompt { TOP_NO_PROMPT, TOP_ASK_FILTER, TOP_ASK_INTERVAL };
struct top_keys {
	enum top_prompt prompt;
	char text[GPUSHARE_NAME_MAX + 1]; /* typed so far */
	char message[128];		  /* about the latest key; "": none */
	bool quit, help;
	bool look; /* read the registry now, not at the end of the interval */
};
/* Handle a key from getch(). `room`: the number of rows on the screen, for paging. */
void top_keys_take(struct top_keys *keys, struct top_options *options, int key, size_t room);
/* The message line: the open prompt with its text, else `message`. */
void top_keys_line(const struct top_keys *keys, char out[512]);

/* Start ncurses and block signals. If standard output is no terminal, or ncurses can't start, block
 * none and return false. */
bool top_terminal_begin(void);
/* Restore the terminal. If a signal ended top, raise the signal again with its default action. The
 * end of the input counts as SIGHUP. */
void top_terminal_end(void);
/* Return the next key, as getch() does. If none was typed yet, wait for a key, a signal or the
 * deadline (by tool_now_ms()). ERR: no key. KEY_RESIZE: the screen must be drawn again. */
int top_terminal_key(uint64_t deadline_ms);
/* Whether a signal or the end of the input ends top. */
bool top_terminal_ended(void);

#endif
