/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common/table.h"
#include "common/terminal.h"
#include "top.h"

enum column { NAME, SIZE, GPU, OWNER, ATTACHED, RATE, AGE, STATE, HOLDERS, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [NAME] = {.title = "NAME"},
    [SIZE] = {.title = "HELD", .right = true},
    [GPU] = {.title = "GPU"},
    [OWNER] = {.title = "OWNER"},
    [ATTACHED] = {.title = "ATTACHED", .right = true},
    [RATE] = {.title = "PUBLISHED/S", .right = true, .optional = true},
    [AGE] = {.title = "AGE", .right = true},
    [STATE] = {.title = "STATE", .optional = true},
    [HOLDERS] = {.title = "HELD BY", .optional = true},
};

#define LINE_MAX_BYTES TABLE_LINE_MAX

static void print_line(FILE *to, enum style style, const char *line, int width, const char *end)
{
	fprintf(to, "%s%.*s%s%s\n", style == STYLE_PLAIN ? "" : terminal_style(style), width, line,
		style == STYLE_PLAIN ? "" : terminal_style(STYLE_PLAIN), end);
}

static void add_state(const struct top_row *row, char cell[TABLE_CELL_MAX])
{
	char state[SHOW_STATE_MAX];

	show_state(&row->info, state);
	snprintf(cell, TABLE_CELL_MAX, "%s%s%s", row->info.deferred ? "deferred" : "",
		 row->info.deferred && *state ? "," : "", state);
}

static bool add_row(struct table *table, const struct top_row *row)
{
	char(*cells)[TABLE_CELL_MAX] = table_add(table);
	char text[TOOL_TEXT_MAX];

	if (!cells)
		return false;
	snprintf(cells[NAME], TABLE_CELL_MAX, "%s", row->info.name);
	tool_format_size(row->info.base_size, cells[SIZE]);
	tool_format_uuid(row->info.device_uuid, text);
	snprintf(cells[GPU], TABLE_CELL_MAX, "%.12s", text);
	show_owner(&row->info, cells[OWNER]);
	snprintf(cells[ATTACHED], TABLE_CELL_MAX, "%" PRIu32, row->info.attachers);
	if (row->rate >= 0)
		snprintf(cells[RATE], TABLE_CELL_MAX, "%.1f", row->rate);
	tool_format_age(show_age(&row->info), cells[AGE]);
	add_state(row, cells[STATE]);
	snprintf(cells[HOLDERS], TABLE_CELL_MAX, "%s", row->holders);
	return true;
}

static enum style style_of(const struct top_row *row)
{
	if (row->info.missing)
		return STYLE_RED;
	if (row->info.deferred || !row->info.owner_alive)
		return STYLE_YELLOW;
	return STYLE_PLAIN;
}

static bool print_rows(FILE *to, const struct top_view *view, size_t first, size_t room, int width,
		       const char *end)
{
	struct table table = {.columns = columns, .count = COLUMNS};
	size_t widths[TABLE_COLUMNS_MAX];
	char line[TABLE_LINE_MAX];
	bool all = true;

	for (size_t i = first; all && i < view->count && i - first < room; i++)
		all = add_row(&table, &view->rows[i]);
	table_widths(&table, widths);
	table_line(&table, widths, -1, line);
	print_line(to, STYLE_BOLD, line, width, end);
	for (size_t i = 0; i < table.used; i++) {
		table_line(&table, widths, (long)i, line);
		print_line(to, style_of(&view->rows[first + i]), line, width, end);
	}
	table_finish(&table);
	return all;
}

static void format_head(const struct top_view *view, char out[LINE_MAX_BYTES])
{
	uint64_t now = (uint64_t)time(NULL), started = view->registry.started_unix_ns / 1000000000;
	char clock[16] = "?", up[TOOL_TEXT_MAX];
	time_t seconds = (time_t)now;
	struct tm local;

	if (localtime_r(&seconds, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	tool_format_age(now > started ? now - started : 0, up);
	if (view->status)
		snprintf(out, LINE_MAX_BYTES, "gpushare top - %s", clock);
	else
		snprintf(out, LINE_MAX_BYTES,
			 "gpushare top - %s, registry %s, pid %" PRId32 ", up %s", clock,
			 view->registry.version, view->registry.pid, up);
}

static void format_counts(const struct top_view *view, char out[LINE_MAX_BYTES])
{
	const struct gpushare_registry_info *all = &view->registry;
	int length =
	    snprintf(out, LINE_MAX_BYTES,
		     "Names: %" PRIu64 ", attachments: %" PRIu64 ", waiters: %" PRIu64
		     ", connections: %" PRIu64 ", requests: %" PRIu64,
		     all->names, all->attachments, all->waiters, all->connections, all->requests);

	if (view->requests >= 0)
		snprintf(out + length, LINE_MAX_BYTES - (size_t)length, " (%.1f/s)",
			 view->requests);
}

static void format_memory(const struct top_view *view, char out[LINE_MAX_BYTES])
{
	const struct gpushare_registry_info *all = &view->registry;
	char size[TOOL_TEXT_MAX];
	size_t length = (size_t)snprintf(out, LINE_MAX_BYTES, "Memory: ");

	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *all->by_backing[i].what; i++) {
		tool_format_size(all->by_backing[i].bytes, size);
		length += (size_t)snprintf(out + length, LINE_MAX_BYTES - length, "%s %s, ", size,
					   all->by_backing[i].what);
	}
	tool_format_size(all->kept_bytes, size);
	length += (size_t)snprintf(out + length, LINE_MAX_BYTES - length, "kept: %s, ", size);
	tool_format_size(all->deferred_bytes, size);
	snprintf(out + length, LINE_MAX_BYTES - length, "deferred: %" PRIu64 ", %s", all->deferred,
		 size);
}

static void format_order(const struct top_view *view, const struct top_options *options,
			 char out[LINE_MAX_BYTES])
{
	snprintf(out, LINE_MAX_BYTES, "%zu shown by %s%s%s%s%s", view->count,
		 top_sort_text(options->sort), options->reverse ? ", reversed" : "",
		 options->hide_deferred ? ", without deferred" : "",
		 *options->filter ? ", only " : "", options->filter);
}

size_t top_screen_room(int lines)
{
	return lines > TOP_HEAD_LINES ? (size_t)(lines - TOP_HEAD_LINES) : 0;
}

bool top_screen_print(FILE *to, const struct top_view *view, const struct top_options *options,
		      size_t room, int width, const char *message, const char *end)
{
	char line[LINE_MAX_BYTES];

	format_head(view, line);
	print_line(to, STYLE_PLAIN, line, width, end);
	if (view->status) {
		print_line(to, STYLE_RED, view->why, width, end);
		print_line(to, STYLE_PLAIN, message, width, end);
		return true;
	}
	format_counts(view, line);
	print_line(to, STYLE_PLAIN, line, width, end);
	format_memory(view, line);
	print_line(to, STYLE_PLAIN, line, width, end);
	format_order(view, options, line);
	print_line(to, STYLE_PLAIN, line, width, end);
	print_line(to, STYLE_PLAIN, message, width, end);
	return print_rows(to, view, options->scroll, room, width, end);
}

void top_screen_help(FILE *to, const char *end)
{
	static const char *const lines[] = {
	    "Keys of gpushare top",
	    "",
#define X(name, text, key) "  " #key "             sort by " text,
	    TOP_SORTS(X)
#undef X
		"  < >             sort by the one before, the next",
	    "  R               the other way round",
	    "  o  /            only names that have a part, or match a pattern with * or ?",
	    "  =               all names again",
	    "  l               without what is deferred, and with it",
	    "  d  s            seconds between two looks",
	    "  space           look now",
	    "  up down, page up, page down, home",
	    "  h  ?            this",
	    "  q               end",
	    "",
	    "Any key goes back.",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		fprintf(to, "%s%s\n", lines[i], end);
}
