/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>

#include "top/top.h"
#include "options.h"
#include "verbs.h"

struct top {
	struct top_options options;
	struct gpushare_session *session;
	struct top_view view, before;
	uint64_t looks;
};

/* Read the registry's state. The previous reading becomes `before`, for the rates. */
static void look(struct top *top)
{
	struct top_view old = top->before;

	top->before = top->view;
	top->view = old;
	top_view_read(&top->view, &top->session, &top->options);
	top_view_rates(&top->view, &top->before);
}

static int failed(const struct top_view *view)
{
	tool_error("%s", *view->why ? view->why : gpushare_status_text(view->status));
	return TOOL_FAILED;
}

static int print_json(struct top *top)
{
	look(top);
	if (top->view.status)
		return failed(&top->view);
	top_view_arrange(&top->view, &top->options);
	return show_dump(top_view_json(&top->view, top->session));
}

/* Print `looks` readings as plain text, for a pipe or a file. */
static int print_looks(struct top *top)
{
	int code = TOOL_DONE;

	for (uint64_t i = 0; i < top->looks && code == TOOL_DONE; i++) {
		if (i) {
			poll(NULL, 0, (int)top->options.interval_ms);
			putchar('\n');
		}
		look(top);
		if (top->view.status)
			return failed(&top->view);
		top_view_arrange(&top->view, &top->options);
		top_view_holders(&top->view, top->session, 0, top->view.count);
		top_screen_print(&top->view, &top->options);
		code = tool_flush(TOOL_DONE);
	}
	return code;
}

static void draw(struct top *top, const struct top_keys *keys)
{
	size_t room = top_screen_room(&top->view);
	size_t last = top->view.count > room ? top->view.count - room : 0;
	char message[512];

	if (keys->help) {
		top_screen_help();
		return;
	}
	if (top->options.scroll > last)
		top->options.scroll = last;
	if (!top->view.status)
		top_view_holders(&top->view, top->session, top->options.scroll, room);
	top_keys_line(keys, message);
	top_screen_draw(&top->view, &top->options, message);
}

/* Handle keys and signals until the next reading is due. */
static void attend(struct top *top, struct top_keys *keys, uint64_t deadline_ms)
{
	/* Wait at least once, because signals are unblocked only in the wait. */
	do {
		int key = top_terminal_key(deadline_ms);
		bool changed = key != ERR;

		for (; key != ERR; key = top_terminal_key(0))
			if (key != KEY_RESIZE)
				top_keys_take(keys, &top->options, key,
					      top_screen_room(&top->view));
		if (changed)
			draw(top, keys);
	} while (!keys->quit && !keys->look && !top_terminal_ended() &&
		 tool_now_ms() < deadline_ms);
}

static int live(struct top *top)
{
	struct top_keys keys = {.quit = false};

	while (!keys.quit && !top_terminal_ended()) {
		look(top);
		top_view_arrange(&top->view, &top->options);
		draw(top, &keys);
		keys.look = false;
		attend(top, &keys, top->view.at_ms + top->options.interval_ms);
	}
	top_terminal_end();
	return TOOL_DONE;
}

int verb_top(int argc, char **argv)
{
	struct options options;
	int code = options_parse_glob(argc, argv, &options);
	struct top top = {.options = options.top, .looks = options.looks};

	if (code >= 0)
		return code;
	top.options.directory = options.directory;
	top.options.glob = options.glob;
	if (options.json)
		code = print_json(&top);
	else if (!top.looks && top_terminal_begin())
		code = live(&top);
	else {
		top.looks += !top.looks;
		code = print_looks(&top);
	}
	top_view_finish(&top.view);
	top_view_finish(&top.before);
	tool_close(&top.session);
	return code;
}
