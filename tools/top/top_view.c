/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

static const char *const sorts[] = {
#define X(name, text, key) text,
    TOP_SORTS(X)
#undef X
};

const char *top_sort_text(enum top_sort sort)
{
	return sorts[sort];
}

bool top_sort_parse(const char *text, enum top_sort *out_sort)
{
	for (int i = 0; i < TOP_SORT_COUNT; i++) {
		if (!strcmp(text, sorts[i])) {
			*out_sort = (enum top_sort)i;
			return true;
		}
	}
	return false;
}

static int visit(const struct gpushare_info *info, void *user)
{
	struct top_view *view = user;
	struct top_row *row;

	if (view->count == view->room) {
		size_t room = view->room ? 2 * view->room : 64;
		struct top_row *more = realloc(view->rows, room * sizeof(*more));

		if (!more)
			return 1;
		view->rows = more;
		view->room = room;
	}
	row = &view->rows[view->count++];
	*row = (struct top_row){.info = *info, .rate = -1};
	return 0;
}

static int visit_memory(const struct gpushare_info *info, void *view)
{
	top_memory_add(view, info);
	return 0;
}

/* Sum up the memory that names hold, including names that the pattern doesn't match. */
static int look_memory(struct top_view *view, struct gpushare_session *session, bool pattern)
{
	int status = GPUSHARE_OK;

	for (size_t i = 0; !pattern && i < view->count; i++)
		top_memory_add(view, &view->rows[i].info);
	if (pattern)
		status = gpushare_list(session, NULL, visit_memory, view);
	if (pattern && !status)
		status = gpushare_list_deferred(session, NULL, visit_memory, view);
	top_memory_ask(view);
	return status;
}

static int look(struct top_view *view, struct gpushare_session **session,
		const struct top_options *options)
{
	const struct gpushare_open_options open = {.directory = options->directory,
						   .no_autostart = 1};
	int status = *session ? GPUSHARE_OK : gpushare_open(&open, session);

	if (!status)
		status = gpushare_list(*session, options->glob, visit, view);
	if (!status)
		status = gpushare_list_deferred(*session, options->glob, visit, view);
	if (!status)
		status = look_memory(view, *session, options->glob != NULL);
	if (!status)
		status = gpushare_stat_registry(*session, &view->registry);
	return status;
}

void top_view_read(struct top_view *view, struct gpushare_session **session,
		   const struct top_options *options)
{
	view->count = view->gpu_count = 0;
	view->requests = -1;
	view->at_ms = tool_now_ms();
	view->status = look(view, session, options);
	if (!view->status)
		return;
	view->count = 0;
	snprintf(view->why, sizeof(view->why), "%s", gpushare_explain());
}

static int by_generation(const void *one, const void *other)
{
	uint64_t a = ((const struct top_row *)one)->info.generation,
		 b = ((const struct top_row *)other)->info.generation;

	return (a > b) - (a < b);
}

void top_view_rates(struct top_view *view, const struct top_view *before)
{
	double seconds = (double)(view->at_ms - before->at_ms) / 1000;
	struct top_row *old;

	if (view->status || before->status || !before->at_ms || seconds <= 0)
		return;
	if (view->registry.started_unix_ns == before->registry.started_unix_ns)
		view->requests =
		    (double)(view->registry.requests - before->registry.requests) / seconds;
	if (before->count)
		qsort(before->rows, before->count, sizeof(*before->rows), by_generation);
	for (size_t i = 0; i < view->count && before->count; i++) {
		struct top_row *row = &view->rows[i];

		old = bsearch(row, before->rows, before->count, sizeof(*row), by_generation);
		if (row->info.sequence && old && row->info.sequence >= old->info.sequence)
			row->rate = (double)(row->info.sequence - old->info.sequence) / seconds;
	}
}

static bool is_wanted(const struct top_row *row, const struct top_options *options)
{
	const char *filter = options->filter;

	if (options->hide_deferred && row->info.deferred)
		return false;
	if (!*filter)
		return true;
	return tool_is_pattern(filter) ? !fnmatch(filter, row->info.name, 0)
				       : strstr(row->info.name, filter) != NULL;
}

static int descending(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare(const void *one, const void *other, void *user)
{
	const struct top_row *a = one, *b = other;
	const struct top_options *options = user;
	int order = 0;

	if (options->sort == TOP_SIZE)
		order = descending((double)a->info.base_size, (double)b->info.base_size);
	else if (options->sort == TOP_AGE)
		order =
		    descending((double)b->info.created_unix_ns, (double)a->info.created_unix_ns);
	else if (options->sort == TOP_ATTACHED)
		order = descending(a->info.attachers, b->info.attachers);
	else if (options->sort == TOP_RATE)
		order = descending(a->rate, b->rate);
	if (!order)
		order = strcmp(a->info.name, b->info.name);
	if (!order)
		order = by_generation(a, b);
	return options->reverse ? -order : order;
}

void top_view_arrange(struct top_view *view, const struct top_options *options)
{
	size_t kept = 0;

	for (size_t i = 0; i < view->count; i++)
		if (is_wanted(&view->rows[i], options))
			view->rows[kept++] = view->rows[i];
	view->count = kept;
	if (kept)
		qsort_r(view->rows, kept, sizeof(*view->rows), compare, (void *)options);
}

struct holders {
	char *text;
	size_t length;
	unsigned int left_out;
};

static int add_holder(const struct gpushare_holder *holder, void *user)
{
	struct holders *holders = user;
	char one[SHOW_CELL_MAX];
	size_t length;

	show_holder(holder, one);
	length = strlen(one);
	/* leave room for " +4294967295" */
	if (holders->left_out || holders->length + length + 16 > TOP_HOLDERS_MAX)
		holders->left_out++;
	else
		holders->length += (size_t)sprintf(holders->text + holders->length, "%s%s",
						   holders->length ? " " : "", one);
	return 0;
}

void top_view_holders(struct top_view *view, struct gpushare_session *session, size_t first,
		      size_t count)
{
	for (size_t i = first; i < view->count && i - first < count; i++) {
		struct top_row *row = &view->rows[i];
		struct holders holders = {.text = row->holders};

		if (!row->info.attachers)
			continue;
		*row->holders = '\0';
		/* Ignore errors: a buffer that was removed meanwhile has no holders. */
		gpushare_holders(session, row->info.name, row->info.generation, add_holder,
				 &holders);
		if (holders.left_out)
			sprintf(row->holders + holders.length, " +%u", holders.left_out);
	}
}

static json_t *gpus_json(const struct top_view *view)
{
	json_t *all = json_array();
	char uuid[TOOL_TEXT_MAX];

	for (size_t i = 0; i < view->gpu_count; i++) {
		const struct top_gpu *gpu = &view->gpus[i];
		json_t *one;

		tool_format_uuid(gpu->uuid, uuid);
		one = json_pack("{s:s, s:I}", "gpu", uuid, "names", (json_int_t)gpu->names);
		if (gpu->total)
			json_object_update_new(one, json_pack("{s:I, s:I}", "total",
							      (json_int_t)gpu->total, "free",
							      (json_int_t)gpu->free));
		json_array_append_new(all, one);
	}
	return all;
}

json_t *top_view_json(const struct top_view *view, struct gpushare_session *session)
{
	json_t *buffers = json_array();

	for (size_t i = 0; i < view->count; i++)
		json_array_append_new(buffers, show_json_holders(&view->rows[i].info, session));
	return json_pack("{s:o, s:o, s:o}", "registry", show_registry_json(&view->registry), "gpus",
			 gpus_json(view), "buffers", buffers);
}

void top_view_finish(struct top_view *view)
{
	free(view->rows);
	*view = (struct top_view){.rows = NULL};
}
