/* SPDX-License-Identifier: MIT */
/* gpushare top without a registry or a terminal: order, rates, keys, and what is drawn. */
#include "unit.h"

#include "../../tools/top/top.h"

/* Add a row of that name, bytes held, attachers, second of creation, and generation. */
static void add(struct top_view *view, const char *name, uint64_t size, uint32_t attachers,
		uint64_t second, uint64_t generation)
{
	struct top_row *row;

	view->rows = realloc(view->rows, ++view->count * sizeof(*view->rows));
	row = &view->rows[view->count - 1];
	*row = (struct top_row){.rate = -1};
	strcpy(row->info.name, name);
	row->info.base_size = size;
	row->info.attachers = attachers;
	row->info.created_unix_ns = second * 1000000000;
	row->info.generation = generation;
	row->info.owner_alive = 1;
	strcpy(row->info.owner_command, "own");
}

static struct top_view *some(void)
{
	static struct top_view view;

	top_view_finish(&view);
	view.requests = -1;
	add(&view, "b", 10, 1, 30, 1);
	add(&view, "a", 20, 5, 20, 2);
	add(&view, "abc", 10, 0, 10, 3);
	return &view;
}

static void rates(void **state)
{
	struct top_view now = {.at_ms = 3000}, before = {.at_ms = 1000};

	for (uint64_t i = 1; i <= 4; i++)
		add(&now, "n", 1, 0, 1, i);
	for (uint64_t i = 4; i >= 2; i--) /* in another order; the first is new */
		add(&before, "n", 1, 0, 1, i);
	now.rows[0].info.sequence = 100;
	now.rows[1].info.sequence = 100;
	now.rows[2].info.sequence = 5;
	before.rows[2].info.sequence = 90;
	before.rows[1].info.sequence = 7; /* a lower count is of another counter */
	now.registry.requests = 50;
	before.registry.requests = 10;
	top_view_rates(&now, &before);
	assert_true(now.requests == 20);
	assert_true(now.rows[0].rate < 0);
	assert_true(now.rows[1].rate == 5);
	assert_true(now.rows[2].rate < 0);
	assert_true(now.rows[3].rate < 0); /* it has no counter */
	now.registry.started_unix_ns = 1;  /* another registry counts from 0 */
	now.requests = -1;
	top_view_rates(&now, &before);
	assert_true(now.requests < 0);
	before.status = GPUSHARE_E_NO_REGISTRY;
	now.rows[1].rate = -1;
	top_view_rates(&now, &before);
	assert_true(now.rows[1].rate < 0);
	top_view_finish(&now);
	top_view_finish(&before);
}

static void type(struct top_keys *keys, struct top_options *options, const char *typed)
{
	top_keys_take(keys, options, typed, strlen(typed), 10);
}

static void keys_change_the_options(void **state)
{
	struct top_options options = {.interval_ms = 1000};
	struct top_keys keys = {.quit = false};
	char line[512];

#define X(name, text, key) \
	type(&keys, &options, (char[]){key, '\0'}); \
	assert_int_equal(options.sort, TOP_##name);
	TOP_SORTS(X)
#undef X
	type(&keys, &options, "M<");
	assert_int_equal(options.sort, TOP_NAME);
	type(&keys, &options, ">");
	assert_int_equal(options.sort, TOP_SIZE);
	type(&keys, &options, "R");
	assert_true(options.reverse && keys.look);
	type(&keys, &options, "o");
	top_keys_line(&keys, line);
	assert_non_null(strstr(line, "Only names"));
	type(&keys, &options, "llamq\x7f");
	type(&keys, &options, "a/*\r");
	assert_string_equal(options.filter, "llama/*");
	assert_int_equal(keys.prompt, TOP_NO_PROMPT);
	type(&keys, &options, "oq\033"); /* q is a letter there; ESC leaves things as they are */
	assert_string_equal(options.filter, "llama/*");
	assert_false(keys.quit);
	type(&keys, &options, "=");
	assert_string_equal(options.filter, "");
	type(&keys, &options, "d2.5\r");
	assert_int_equal(options.interval_ms, 2500);
	type(&keys, &options, "s0\r");
	assert_int_equal(options.interval_ms, 2500);
	top_keys_line(&keys, line);
	assert_non_null(strstr(line, "no number of seconds"));
	type(&keys, &options, "x");
	assert_non_null(strstr(keys.message, "No such key"));
	type(&keys, &options, "h");
	assert_true(keys.help);
	type(&keys, &options, "q"); /* any key */
	assert_false(keys.help || keys.quit);
	type(&keys, &options, "q");
	assert_true(keys.quit);
}

static void a_prompt_takes_no_more_than_a_name(void **state)
{
	struct top_options options = {.interval_ms = 1000};
	struct top_keys keys = {.quit = false};

	type(&keys, &options, "/");
	for (int i = 0; i < 300; i++)
		type(&keys, &options, "n");
	type(&keys, &options, "\r");
	assert_int_equal(strlen(options.filter), GPUSHARE_NAME_MAX);
	type(&keys, &options, "/\x7f\x7f\r");
	assert_string_equal(options.filter, "");
}

static void arrows_scroll(void **state)
{
	struct top_options options = {.interval_ms = 1000};
	struct top_keys keys = {.quit = false};

	type(&keys, &options, "\033[B\033OB\033[B");
	assert_int_equal(options.scroll, 3);
	type(&keys, &options, "\033[A");
	assert_int_equal(options.scroll, 2);
	type(&keys, &options, "\033[6~");
	assert_int_equal(options.scroll, 12);
	type(&keys, &options, "\033[5~\033[5~");
	assert_int_equal(options.scroll, 0);
	type(&keys, &options, "\033[6~\033[H");
	assert_int_equal(options.scroll, 0);
	/* Other sequences do nothing, and are consumed whole. */
	type(&keys, &options, "\033[15~\033[1;5Aq");
	assert_true(keys.quit);
}

static char *drawn(const struct top_view *view, const struct top_options *options, size_t room,
		   int width)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_non_null(to);
	top_screen_print(to, view, options, room, width, "said", "|");
	fclose(to);
	return text;
}

static void lines_fit_the_screen(void **state)
{
	struct top_options options = {.sort = TOP_NAME, .filter = ""};
	struct top_view *view = some();

	view->rows[0].info.missing = 1;
	strcpy(view->rows[1].holders, "holder[1]");
	view->rows[2].rate = 12.34;
	top_view_arrange(view, &options);
	for (int width = 1; width < 200; width += 7) {
		for (size_t room = 0; room < 5; room++) {
			char *text = drawn(view, &options, room, width), *rest = text;
			size_t lines = 0;

			for (char *line; (line = strsep(&rest, "\n")) && *line; lines++)
				assert_in_range(strlen(line), 1, (size_t)width + 1);
			assert_int_equal(lines, TOP_HEAD_LINES + (room < 3 ? room : 3));
			free(text);
		}
	}
	assert_int_equal(top_screen_room(TOP_HEAD_LINES + 2), 2);
	assert_int_equal(top_screen_room(2), 0);
}

UNIT_MAIN(UNIT(rates), UNIT(keys_change_the_options), UNIT(a_prompt_takes_no_more_than_a_name),
	  UNIT(arrows_scroll), UNIT(lines_fit_the_screen))
