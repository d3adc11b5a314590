/* SPDX-License-Identifier: MIT */
/* gpushare node, nodes and pull: names and bytes between hosts. */
#include <stdio.h>
#include <string.h>

#include "common/columns.h"
#include "common/show.h"
#include "node/node.h"
#include "options.h"
#include "verbs.h"

int verb_node(int argc, char **argv)
{
	struct options options;
	int code = options_parse(argc, argv, &options);
	const struct node_listen listen = {.address = options.listen,
					   .folder = options.tls,
					   .interface = options.trusted,
					   .registry = options.directory,
					   .announce = options.announce,
					   .as = options.as};

	if (code >= 0)
		return code;
	if (argc > optind)
		return tool_usage("node takes options only, not '%s'", argv[optind]);
	return node_serve(&listen);
}

int verb_pull(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct options options;
	struct pull pull;
	const char *name;
	int code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (argc - optind != 1)
		return tool_usage("pull wants one NODE:NAME; quote a pattern, such as 'a:llama/*'");
	/* only NAME may be a pattern: in NODE, '[' begins an IPv6 address */
	name = strrchr(argv[optind], ':');
	if (options.as && name && tool_is_pattern(name))
		return tool_usage("--as is for one NAME, not for a pattern");
	if (options.follows && name && tool_is_pattern(name))
		return tool_usage("--follow is for one NAME, not for a pattern");
	if (options.follows && options.via)
		return tool_usage("--via does not go with --follow");
	if (options.as && !tool_check_name(options.as))
		return TOOL_FAILED;
	pull = (struct pull){.copy = options.copy,
			     .as = options.as,
			     .folder = options.tls,
			     .via = options.via,
			     .follows = options.follows,
			     .interface = options.trusted,
			     .tag_count = options.tag_count};
	memcpy(pull.tags, options.tags, sizeof(pull.tags));
	pull.copy.names = argv + optind;
	session = tool_open(options.directory, true);
	return session ? node_pull(&pull, session) : TOOL_FAILED;
}

/* X(title, flags of the column, text for the node `one`) */
#define NODES_COLUMNS(X) \
	X("NODE", 0, one->node->name) \
	X("ADDRESS", 0, one->node->address.text) \
	X("STATE", 0, one->status ? "down" : "up") \
	X("VERSION", 0, one->version) \
	X("ROUND-TRIP", SCOLS_FL_RIGHT, time) \
	X("ENGINES", 0, engines)

static int print_nodes(const struct nodes *nodes, const struct node_answers *answers)
{
	struct libscols_table *table = columns_new();
	char time[TOOL_TEXT_MAX], engines[TOOL_TEXT_MAX];

#define X(title, right, text) scols_table_new_column(table, title, 0, right);
	if (table) {
		NODES_COLUMNS(X)
	}
#undef X
	for (size_t i = 0; table && i < nodes->count; i++) {
		const struct node_answers *one = &answers[i];
		struct libscols_line *line = scols_table_new_line(table, NULL);
		size_t column = 0;

		snprintf(time, sizeof(time), "%.1f ms", 1000 * one->round_trip_s);
		if (one->status)
			*time = '\0';
		snprintf(engines, sizeof(engines), "%s%s%s", one->status ? "" : "stream",
			 *one->ucx ? ", ucx " : "", one->ucx);
#define X(title, right, text) scols_line_set_data(line, column++, text);
		if (line) {
			NODES_COLUMNS(X)
		}
#undef X
	}
	return columns_print(table);
}

static json_t *node_json(const struct node_answers *one)
{
	const char *name = one->node->name, *address = one->node->address.text;

	if (one->status)
		return json_pack("{s:s, s:s, s:b, s:s}", "node", name, "address", address, "up", 0,
				 "why", one->why);
	return json_pack("{s:s, s:s, s:b, s:s, s:f, s:s}", "node", name, "address", address, "up",
			 1, "version", one->version, "round_trip_ms", 1000 * one->round_trip_s,
			 "ucx", one->ucx);
}

static int print_nodes_json(const struct nodes *nodes, const struct node_answers *answers)
{
	json_t *all = json_array();
	int code = TOOL_DONE, printed;

	for (size_t i = 0; i < nodes->count; i++)
		if (json_array_append_new(all, node_json(&answers[i])))
			code = TOOL_FAILED;
	if (code)
		tool_error("a node's name or address in the list of nodes isn't UTF-8");
	printed = show_dump(all);
	return code ? code : printed;
}

int verb_nodes(int argc, char **argv)
{
	char why[NODES_WHY_MAX];
	struct node_answers *answers;
	struct options options;
	struct nodes nodes;
	int code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (argc > optind)
		return tool_usage("nodes takes options only, not '%s'", argv[optind]);
	if (!nodes_read(&nodes, why)) {
		tool_error("%s", why);
		return TOOL_FAILED;
	}
	answers = nodes_ask(&nodes, options.tls, false, NULL);
	code = !answers	      ? TOOL_FAILED
	       : options.json ? print_nodes_json(&nodes, answers)
			      : print_nodes(&nodes, answers);
	if (answers)
		code = nodes_report(&nodes, answers, code);
	nodes_free_answers(&nodes, answers);
	return code;
}
