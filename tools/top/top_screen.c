/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curses.h>

#include "base/cleanup.h"
#include "common/columns.h"
#include "common/terminal.h"
#include "top.h"

#define HEAD_LINES 6 /* lines above the rows, not counting those of the GPUs */
#define BAR 20	     /* characters between the brackets */
#define GPU_LABEL 12 /* shown characters of a UUID */

/* X(title, flags, how to write the cell). A hidden column appears if a cell has text. */
#define COLUMNS(X) \
	X("NAME", 0, strcpy(cell, info->name)) \
	X("HELD", SCOLS_FL_RIGHT, tool_format_size(info->base_size, cell)) \
	X("GPU", 0, write_gpu(info, cell)) \
	X("OWNER", 0, show_owner(info, cell)) \
	X("ATTACHMENTS", SCOLS_FL_RIGHT, sprintf(cell, "%" PRIu32, info->attachers)) \
	X("PUBLISHED/S", SCOLS_FL_RIGHT | SCOLS_FL_HIDDEN, write_rate(row, cell)) \
	X("AGE", SCOLS_FL_RIGHT, tool_format_age(show_since(info->created_unix_ns), cell)) \
	X("STATE", SCOLS_FL_HIDDEN, write_state(info, cell)) \
	X("HELD BY", SCOLS_FL_HIDDEN, strcpy(cell, row->holders))

#define LINE_MAX_BYTES 4096

/* Where lines go: to the terminal, from line `next` on, or to standard output. */
struct output {
	bool terminal;
	int next;
};

static int attributes(enum style style)
{
	if (style == STYLE_PLAIN || !terminal_has_colour(STDOUT_FILENO))
		return A_NORMAL;
	return style == STYLE_BOLD ? A_BOLD : COLOR_PAIR(style);
}

__attribute__((format(printf, 3, 4))) static void put(struct output *to, enum style style,
						      const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (!to->terminal) {
		puts(line);
		return;
	}
	attrset(attributes(style));
	mvaddnstr(to->next++, 0, line, COLS);
	attrset(A_NORMAL);
}

static void write_gpu(const struct gpushare_info *info, char cell[SHOW_CELL_MAX])
{
	tool_format_uuid(info->device_uuid, cell);
	cell[GPU_LABEL] = '\0';
}

static void write_rate(const struct top_row *row, char cell[SHOW_CELL_MAX])
{
	*cell = '\0';
	if (row->rate >= 0)
		sprintf(cell, "%.1f", row->rate);
}

static void write_state(const struct gpushare_info *info, char cell[SHOW_CELL_MAX])
{
	char state[SHOW_STATE_MAX];

	show_state(info, state);
	snprintf(cell, SHOW_CELL_MAX, "%s%s%s", info->deferred ? "deferred" : "",
		 info->deferred && *state ? "," : "", state);
}

static enum style style_of(const struct top_row *row)
{
	if (row->info.missing)
		return STYLE_RED;
	if (row->info.deferred || !row->info.owner_alive)
		return STYLE_YELLOW;
	return STYLE_PLAIN;
}

static void add_row(struct libscols_table *table, const struct top_row *row)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	const struct gpushare_info *info = &row->info;
	char cell[SHOW_CELL_MAX];
	size_t column = 0;

#define X(title, flags, write) \
	write; \
	columns_set(table, line, column++, cell);
	COLUMNS(X)
#undef X
}

static void put_rows(struct output *to, const struct top_view *view, size_t first, size_t room)
{
	size_t end = first + room < view->count ? first + room : view->count;
	struct libscols_table *table = columns_new();
	_cleanup_free_ char *text = NULL;
	enum style style = STYLE_BOLD;
	char *rest, *line;

#define X(title, flags, write) scols_table_new_column(table, title, 0, flags);
	COLUMNS(X)
#undef X
	for (size_t i = first; i < end; i++)
		add_row(table, &view->rows[i]);
	text = columns_text(table);
	rest = text;
	while ((line = strsep(&rest, "\n")) && *line) {
		put(to, style, "%s", line);
		style = first < end ? style_of(&view->rows[first++]) : STYLE_PLAIN;
	}
}

static void put_head(struct output *to, const struct top_view *view)
{
	char clock[16] = "?", up[TOOL_TEXT_MAX];
	time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	tool_format_age(show_since(view->registry.started_unix_ns), up);
	if (view->status)
		put(to, STYLE_PLAIN, "gpushare top - %s", clock);
	else
		put(to, STYLE_PLAIN, "gpushare top - %s, registry %s, pid %" PRId32 ", up %s",
		    clock, view->registry.version, view->registry.pid, up);
}

static void put_counts(struct output *to, const struct top_view *view)
{
	const struct gpushare_registry_info *all = &view->registry;
	char rate[TOOL_TEXT_MAX] = "";

	if (view->requests >= 0)
		snprintf(rate, sizeof(rate), " (%.1f/s)", view->requests);
	put(to, STYLE_PLAIN,
	    "Names: %" PRIu64 ", attachments: %" PRIu64 ", waiters: %" PRIu64
	    ", connections: %" PRIu64 ", requests: %" PRIu64 "%s",
	    all->names, all->attachments, all->waiters, all->connections, all->requests, rate);
}

static void put_memory(struct output *to, const struct top_view *view)
{
	const struct gpushare_registry_info *all = &view->registry;
	char line[LINE_MAX_BYTES] = "", size[TOOL_TEXT_MAX], deferred[TOOL_TEXT_MAX];
	size_t length = 0;

	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *all->by_backing[i].what; i++) {
		tool_format_size(all->by_backing[i].bytes, size);
		length += (size_t)snprintf(line + length, sizeof(line) - length, "%s %s, ", size,
					   all->by_backing[i].what);
	}
	tool_format_size(all->kept_bytes, size);
	tool_format_size(all->deferred_bytes, deferred);
	put(to, STYLE_PLAIN,
	    "Memory: %s"
	    "kept: %s, deferred: %" PRIu64 ", %s",
	    line, size, all->deferred, deferred);
}

/* How many of the bar's characters stand for `size`: at least one, unless `size` is 0. */
static int share(uint64_t size, uint64_t total)
{
	return size < total ? (int)((size * BAR + total - 1) / total) : BAR;
}

static void colour(const struct output *to, int column, int count, enum style style)
{
	if (to->terminal && terminal_has_colour(STDOUT_FILENO))
		mvchgat(to->next - 1, column, count, A_NORMAL, (short)style, NULL);
}

/* For example "GPU-516d751a [##=====     ] names 6 MiB, others 1 GiB, free 3 GiB". */
static void put_gpu(struct output *to, const struct top_gpu *gpu)
{
	uint64_t used = gpu->total - gpu->free, other = used > gpu->names ? used - gpu->names : 0;
	char uuid[TOOL_TEXT_MAX], names[TOOL_TEXT_MAX], others[TOOL_TEXT_MAX],
	    unused[TOOL_TEXT_MAX], bar[BAR + 1] = "";
	int named, full;

	tool_format_uuid(gpu->uuid, uuid);
	tool_format_size(gpu->names, names);
	if (!gpu->total) {
		put(to, STYLE_PLAIN, "%.*s names %s", GPU_LABEL, uuid, names);
		return;
	}
	tool_format_size(other, others);
	tool_format_size(gpu->free, unused);
	named = share(gpu->names, gpu->total);
	full = share(gpu->names + other, gpu->total);
	memset(bar, '#', (size_t)named);
	memset(bar + named, '=', (size_t)(full - named));
	put(to, STYLE_PLAIN, "%.*s [%-*s] names %s, others %s, free %s", GPU_LABEL, uuid, BAR, bar,
	    names, others, unused);
	colour(to, GPU_LABEL + 2, named, STYLE_GREEN);
	colour(to, GPU_LABEL + 2 + named, full - named, STYLE_YELLOW);
}

/* How many GPUs to show. On a terminal, their lines take at most half of the space for rows. */
static size_t gpu_lines(const struct top_view *view, bool terminal)
{
	size_t most = LINES > HEAD_LINES ? (size_t)(LINES - HEAD_LINES) / 2 : 0;

	return terminal && view->gpu_count > most ? most : view->gpu_count;
}

size_t top_screen_room(const struct top_view *view)
{
	size_t above = HEAD_LINES + gpu_lines(view, true);

	return (size_t)LINES > above ? (size_t)LINES - above : 0;
}

static void put_view(struct output *to, const struct top_view *view,
		     const struct top_options *options, size_t room, const char *message)
{
	put_head(to, view);
	if (view->status) {
		put(to, STYLE_RED, "%s", view->why);
		put(to, STYLE_PLAIN, "%s", message);
		return;
	}
	put_counts(to, view);
	put_memory(to, view);
	for (size_t i = 0; i < gpu_lines(view, to->terminal); i++)
		put_gpu(to, &view->gpus[i]);
	put(to, STYLE_PLAIN, "%zu shown by %s%s%s%s%s", view->count, top_sort_text(options->sort),
	    options->reverse ? ", reversed" : "",
	    options->hide_deferred ? ", without deferred" : "", *options->filter ? ", only " : "",
	    options->filter);
	put(to, STYLE_PLAIN, "%s", message);
	put_rows(to, view, options->scroll, room);
}

void top_screen_print(const struct top_view *view, const struct top_options *options)
{
	put_view(&(struct output){.terminal = false}, view, options, view->count, "");
}

void top_screen_draw(const struct top_view *view, const struct top_options *options,
		     const char *message)
{
	erase();
	put_view(&(struct output){.terminal = true}, view, options, top_screen_room(view), message);
	refresh();
}

void top_screen_help(void)
{
	static const char *const lines[] = {
	    "Keys of gpushare top",
	    "",
#define X(name, text, key) "  " #key "             sort by " text,
	    TOP_SORTS(X)
#undef X
		"  < >             sort by the previous, the next of these",
	    "  R               reverse the order",
	    "  o  /            show only names with a given part, or a pattern with * ? [",
	    "  =               show all names again",
	    "  l               hide or show deferred frees",
	    "  d  s            set the seconds between two readings",
	    "  space           read now",
	    "  up down, page up, page down, home",
	    "  h  ?            this help",
	    "  q               quit",
	    "",
	    "Press any key to go back.",
	};

	struct output to = {.terminal = true};

	erase();
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		put(&to, STYLE_PLAIN, "%s", lines[i]);
	refresh();
}
