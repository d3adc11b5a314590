/* SPDX-License-Identifier: MIT */
/* gpushare ls, and gpushare events, which means ls --events. */
#include <glob.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listing.h"
#include "options.h"
#include "verbs.h"
#include "common/columns.h"
#include "common/show.h"
#include "node/node.h"

enum column {
#define X(title, flags, number, put) title,
	LISTING_COLUMNS(X)
#undef X
	    COLUMNS
};

static const struct {
	const char *title;
	int flags;
} known[COLUMNS] = {
#define X(title, flags, number, put) {#title, flags},
    LISTING_COLUMNS(X)
#undef X
};

struct listing {
	struct options options;
	bool human; /* standard output is a terminal */
	struct libscols_table *table;
	/* The table's columns, from left to right. If the column to sort by is not shown, it comes
	 * last, hidden. */
	enum column columns[COLUMNS + 1];
	int count, shown, sorted;
	json_t *array; /* with --json */
	/* Source of the records: list() on this host, or with --nodes the answers of all nodes. */
	int (*list)(struct gpushare_session *session, const char *glob,
		    int (*visit)(const struct gpushare_info *info, void *user), void *user);
	struct gpushare_session *session;
	struct nodes nodes;
	struct node_answers *answers;
	const char *node; /* of the current record; NULL: this host */
	bool bad_node;	  /* a node's name can't be written as JSON */
};

static void put_number(uint64_t number, char cell[SHOW_CELL_MAX])
{
	snprintf(cell, SHOW_CELL_MAX, "%" PRIu64, number);
}

static void put_size(const struct listing *listing, uint64_t size, char cell[SHOW_CELL_MAX])
{
	if (listing->human && !listing->options.bytes)
		tool_format_size(size, cell);
	else
		put_number(size, cell);
}

/* The driver has such a file for each GPU, in a folder named by the GPU's PCI bus address.
 * nvidia-smi numbers GPUs in the order of these addresses. */
#define INFORMATION "/proc/driver/nvidia/gpus/*/information"
#define GPUS_MAX 64

static struct gpu {
	char uuid[TOOL_TEXT_MAX], model[TOOL_TEXT_MAX];
} gpus[GPUS_MAX];

/* The file has lines "GPU UUID: <blanks> GPU-..." and "Model: <blanks> NVIDIA H200". */
static void read_gpu(const char *path, struct gpu *gpu)
{
	FILE *file = fopen(path, "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "GPU UUID: %63s", gpu->uuid);
		if (sscanf(line, "Model: NVIDIA %63[^\n]", gpu->model) < 1)
			sscanf(line, "Model: %63[^\n]", gpu->model);
	}
	if (file)
		fclose(file);
}

/* Returns the number of GPUs; 0 if there are none or more than GPUS_MAX, or if their models
 * differ. */
static int find_gpus(void)
{
	glob_t found = {.gl_pathc = 0};
	int count = 0;

	if (!glob(INFORMATION, 0, NULL, &found) && found.gl_pathc <= GPUS_MAX)
		count = (int)found.gl_pathc;
	for (int i = 0; i < count; i++) {
		read_gpu(found.gl_pathv[i], &gpus[i]);
		if (strcmp(gpus[i].model, gpus[0].model) != 0)
			count = 0;
	}
	globfree(&found);
	return count;
}

/*
 * Write the GPU's index in nvidia-smi and its model, such as "0 H200". Returns false if the driver
 * doesn't list the GPU (a MIG instance, a simulated GPU). Returns false, too, if the driver lists
 * several models: CUDA may then number the GPUs in another order.
 */
static bool label_gpu(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX])
{
	static int count = -1;
	char wanted[TOOL_TEXT_MAX], model[TOOL_TEXT_MAX];

	if (count < 0)
		count = find_gpus();
	tool_format_uuid(uuid, wanted);
	for (int i = 0; i < count; i++) {
		if (strcmp(gpus[i].uuid, wanted) != 0)
			continue;
		tool_printable(gpus[i].model, model, sizeof(model));
		snprintf(out, TOOL_TEXT_MAX, "%d %.40s", i, model);
		return true;
	}
	return false;
}

static void put_gpu(const struct listing *listing, const struct gpushare_info *info,
		    char cell[SHOW_CELL_MAX])
{
	if (listing->human && !listing->options.uuids && label_gpu(info->device_uuid, cell))
		return;
	tool_format_uuid(info->device_uuid, cell);
	if (listing->human && !listing->options.uuids)
		cell[12] = '\0';
}

static void put_rights(const struct listing *listing, const struct gpushare_info *info,
		       char cell[SHOW_CELL_MAX])
{
	if (listing->options.columns || show_has_rights(info))
		show_rights(info, cell);
}

/* Write a cell's text. Returns the number to sort by; cells with equal numbers sort by text. */
static uint64_t put_cell(const struct listing *listing, enum column column,
			 const struct gpushare_info *info, char cell[SHOW_CELL_MAX])
{
	*cell = '\0';
	switch (column) {
#define X(title, flags, number, put) \
	case title: \
		put; \
		return number;
		LISTING_COLUMNS(X)
#undef X
	case COLUMNS:
		break;
	}
	return 0;
}

/* Compare two cells by their numbers from put_cell(), which are their user data, then by text. */
static int compare(struct libscols_cell *a, struct libscols_cell *b, void *descending)
{
	uintptr_t left = (uintptr_t)scols_cell_get_userdata(a);
	uintptr_t right = (uintptr_t)scols_cell_get_userdata(b);
	int order = (left > right) - (left < right);

	if (!order)
		order = scols_cmpstr_cells(a, b, NULL);
	return descending ? -order : order;
}

static int add_row(const struct gpushare_info *info, void *user)
{
	struct listing *listing = user;
	struct libscols_line *line = scols_table_new_line(listing->table, NULL);
	char text[SHOW_CELL_MAX];

	for (int i = 0; i < listing->count; i++) {
		uint64_t number = put_cell(listing, listing->columns[i], info, text);

		if (!line || columns_set(listing->table, line, (size_t)i, text))
			return 1;
		scols_cell_set_userdata(scols_line_get_cell(line, (size_t)i),
					(void *)(uintptr_t)number);
	}
	return 0;
}

static int find_column(const char *title, size_t length)
{
	for (int i = 0; i < COLUMNS; i++)
		if (strlen(known[i].title) == length && !strncasecmp(known[i].title, title, length))
			return i;
	return -1;
}

static int unknown_column(const char *title, size_t length)
{
	static const char titles[] =
#define X(title, flags, number, put) " " #title
	    LISTING_COLUMNS(X)
#undef X
	    ;

	return tool_usage("there is no column '%.*s'; the columns are%s", (int)length, title,
			  titles);
}

/* Take the columns of -o, such as "NAME,SIZE". Returns -1 to continue, else the exit code. */
static int choose_columns(struct listing *listing)
{
	const char *at = listing->options.columns;

	for (;; at++) {
		size_t length = strcspn(at, ",");
		int found = find_column(at, length);

		if (found < 0)
			return unknown_column(at, length);
		if (listing->count == COLUMNS)
			return tool_usage("-o wants each column once");
		listing->columns[listing->count++] = (enum column)found;
		at += length;
		if (!*at)
			return -1;
	}
}

static void take_default(struct listing *listing)
{
	int wanted = listing->options.events ? LISTING_EVENTS : LISTING_BUFFERS;

	for (int i = 0; i < COLUMNS; i++)
		if (known[i].flags & wanted)
			listing->columns[listing->count++] = (enum column)i;
}

/* Find the column of --sort among the shown ones, or add it. Returns -1 to continue, else the exit
 * code. */
static int take_sort(struct listing *listing)
{
	const char *title = listing->options.order + (*listing->options.order == '-');
	int found = find_column(title, strlen(title));

	if (found < 0)
		return unknown_column(title, strlen(title));
	while (listing->sorted < listing->count &&
	       listing->columns[listing->sorted] != (enum column)found)
		listing->sorted++;
	if (listing->sorted == listing->count)
		listing->columns[listing->count++] = (enum column)found;
	return -1;
}

static struct libscols_table *make_table(struct listing *listing)
{
	struct libscols_table *table = columns_new();
	bool good = table && !scols_table_enable_noheadings(table, listing->options.untitled);

	for (int i = 0; i < listing->count; i++) {
		enum column column = listing->columns[i];
		int flags = known[column].flags & LISTING_NUMBER ? SCOLS_FL_RIGHT : 0;

		if (!listing->options.columns && known[column].flags & LISTING_IF_ANY)
			flags |= SCOLS_FL_HIDDEN;
		good = good && scols_table_new_column(table, known[column].title, 0, flags);
	}
	if (good)
		return table;
	scols_unref_table(table);
	return NULL;
}

static void sort(const struct listing *listing)
{
	struct libscols_column *column =
	    scols_table_get_column(listing->table, (size_t)listing->sorted);

	if (listing->sorted >= listing->shown)
		scols_column_set_flags(column, SCOLS_FL_HIDDEN);
	scols_column_set_cmpfunc(column, compare, *listing->options.order == '-' ? column : NULL);
	scols_sort_table(listing->table, column);
}

static int add_json(const struct gpushare_info *info, void *user)
{
	struct listing *listing = user;
	json_t *one = show_json(info);

	if (listing->node && json_object_set_new(one, "node", json_string(listing->node)))
		listing->bad_node = true;
	return json_array_append_new(listing->array, one);
}

/* Call add() for each record to list. Returns a status. */
static int visit(struct listing *listing, int (*add)(const struct gpushare_info *, void *))
{
	const struct node_answers *answers = listing->answers;

	if (!answers)
		return listing->list(listing->session, listing->options.glob, add, listing);
	for (size_t i = 0; i < listing->nodes.count; i++) {
		listing->node = answers[i].node->name;
		for (size_t j = 0; j < answers[i].infos.count; j++)
			if (add(&answers[i].infos.list[j], listing))
				return GPUSHARE_E_CANCELLED;
	}
	return GPUSHARE_OK;
}

static int print_json(struct listing *listing)
{
	int status, code;

	listing->array = json_array();
	status = visit(listing, add_json);
	if (status) {
		json_decref(listing->array);
		return status == GPUSHARE_E_CANCELLED ? show_dump(NULL) : tool_failed(status);
	}
	if (listing->bad_node)
		tool_error("a name in the file of nodes isn't UTF-8");
	code = show_dump(listing->array);
	return listing->bad_node ? TOOL_FAILED : code;
}

static int print_table(struct listing *listing)
{
	int status;

	listing->human = isatty(STDOUT_FILENO);
	listing->table = make_table(listing);
	status = listing->table ? visit(listing, add_row) : GPUSHARE_E_CANCELLED;
	if (status) {
		scols_unref_table(listing->table);
		return status == GPUSHARE_E_CANCELLED ? columns_print(NULL) : tool_failed(status);
	}
	if (listing->options.order)
		sort(listing);
	return columns_print(listing->table);
}

static int print(struct listing *listing)
{
	return listing->options.json ? print_json(listing) : print_table(listing);
}

static int ls_nodes(struct listing *listing)
{
	struct nodes *nodes = &listing->nodes;
	char why[NODES_WHY_MAX];
	int code = TOOL_FAILED;

	if (!nodes_read(nodes, why)) {
		tool_error("%s", why);
		return TOOL_FAILED;
	}
	listing->answers = nodes_ask(nodes, listing->options.tls, true, listing->options.glob);
	if (listing->answers)
		code = nodes_report(nodes, listing->answers, print(listing));
	nodes_free_answers(nodes, listing->answers);
	return code;
}

/* Check the combination of options, and choose the columns. Returns -1 to continue, else the exit
 * code. */
static int settle(struct listing *listing)
{
	int code = -1;

	if (listing->options.events && listing->options.deferred)
		return tool_usage("events have no --deferred: it lists buffers");
	if (listing->options.nodes && (listing->options.events || listing->options.deferred))
		return tool_usage(
		    "--nodes lists named buffers only: it excludes --events and --deferred");
	if (listing->options.json &&
	    (listing->options.columns || listing->options.order || listing->options.names))
		return tool_usage("--json prints every field: it excludes -o, -q and --sort");
	if (listing->options.names && listing->options.columns)
		return tool_usage("-q prints only the names: it excludes -o");
	if (listing->options.names) {
		listing->options.columns = known[NAME].title;
		listing->options.untitled = true;
	}
	if (listing->options.columns)
		code = choose_columns(listing);
	else
		take_default(listing);
	listing->shown = listing->count;
	return code < 0 && listing->options.order ? take_sort(listing) : code;
}

static int ls(int argc, char **argv, bool events)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct listing listing = {.count = 0};
	int code = options_parse_glob(argc, argv, &listing.options);

	listing.options.events |= events;
	if (code < 0)
		code = settle(&listing);
	if (code >= 0)
		return code;
	if (listing.options.nodes)
		return ls_nodes(&listing);
	listing.session = session = tool_open(listing.options.directory, false);
	listing.list = listing.options.events	  ? gpushare_list_events
		       : listing.options.deferred ? gpushare_list_deferred
						  : gpushare_list;
	return session ? print(&listing) : TOOL_FAILED;
}

int verb_ls(int argc, char **argv)
{
	return ls(argc, argv, false);
}

int verb_events(int argc, char **argv)
{
	return ls(argc, argv, true);
}
