/* SPDX-License-Identifier: MIT */
/* The registry's numbers in Prometheus's text format. Source: prometheus.io, "Exposition
 * formats", text format 0.0.4. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/show.h"
#include "options.h"
#include "verbs.h"

/* X(name, type, field of gpushare_registry_info, help text): metrics with one number */
#define NUMBERS(X) \
	X(names, gauge, names, "Buffers that have a name.") \
	X(attachments, gauge, attachments, \
	  "Attachments; a buffer that one process attached twice counts twice.") \
	X(connections, gauge, connections, "Clients that are connected.") \
	X(waiters, gauge, waiters, "Requests that wait for a name to appear.") \
	X(deferred_buffers, gauge, deferred, \
	  "Buffers that their owners have freed, and that are held for their attachers.") \
	X(deferred_bytes, gauge, deferred_bytes, \
	  "Bytes of buffers that were freed and are held for their attachers.") \
	X(kept_bytes, gauge, kept_bytes, \
	  "Memory of kept buffers, with or without a living owner.") \
	X(kept_limit_bytes, gauge, kept_limit, "Limit of kept_bytes.") \
	X(descriptors, gauge, descriptors, "File descriptors of memory that the registry holds.") \
	X(lock_held_max_us, gauge, lock_held_max_us, \
	  "The longest time in microseconds for which the registry's lock was held.") \
	X(hidden_total, counter, hidden, "Requests for a name that the user may not see.")

/* X(name, type, array of gpushare_count, label, member that holds the value, help text): metrics
 * with one number for each value of the label */
#define FAMILIES(X) \
	X(buffers, gauge, by_backing, "backing", count, "Buffers that have a name, by backing.") \
	X(buffer_bytes, gauge, by_backing, "backing", bytes, \
	  "Memory of the allocations of named buffers, by backing.") \
	X(requests_total, counter, by_verb, "verb", count, \
	  "Requests that the registry has answered, by verb.") \
	X(refusals_total, counter, by_status, "status", count, \
	  "Requests that the registry has refused, by status.") \
	X(limits_reached_total, counter, by_limit, "limit", count, \
	  "Requests refused because a limit was reached, by its key in registry.conf.") \
	X(drops_total, counter, by_drop, "why", count, \
	  "Connections that the registry has closed or refused, by reason.") \
	X(audit_lines_total, counter, by_audit, "outcome", count, \
	  "Lines of the audit, by outcome: written, lost or left out.")

/* Escape backslashes, quotes and newlines for a label's value. `out` must be twice as large as
 * `from`, the NUL included. */
static void escape(const char *from, char *out)
{
	for (; *from; from++) {
		if (*from == '\\' || *from == '"' || *from == '\n')
			*out++ = '\\';
		*out++ = *from == '\n' ? 'n' : *from;
	}
	*out = '\0';
}

static void print_head(FILE *to, const char *name, const char *type, const char *help)
{
	fprintf(to, "# HELP gpushare_%s %s\n# TYPE gpushare_%s %s\n", name, help, name, type);
}

static void print_number(FILE *to, const char *name, const char *type, uint64_t value,
			 const char *help)
{
	print_head(to, name, type, help);
	fprintf(to, "gpushare_%s %" PRIu64 "\n", name, value);
}

static void print_family_line(FILE *to, const char *name, const char *label,
			      const struct gpushare_count *one, uint64_t value)
{
	char escaped[2 * sizeof(one->what)];

	escape(one->what, escaped);
	fprintf(to, "gpushare_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, escaped, value);
}

static void print_registry(FILE *to, const struct gpushare_registry_info *info)
{
	char version[2 * sizeof(info->version)];

	escape(info->version, version);
	print_head(to, "registry_info", "gauge", "Version of the registry.");
	fprintf(to, "gpushare_registry_info{version=\"%s\"} 1\n", version);
	print_head(to, "start_time_seconds", "gauge", "When the registry started, in Unix time.");
	fprintf(to, "gpushare_start_time_seconds %" PRIu64 ".%03" PRIu64 "\n",
		info->started_unix_ns / 1000000000, info->started_unix_ns / 1000000 % 1000);
}

/* If `info` is NULL, no registry can be reached: print only gpushare_up 0. */
static void metrics_print(FILE *to, const struct gpushare_registry_info *info)
{
	print_number(to, "up", "gauge", info != NULL, "Whether the registry can be reached.");
	if (!info)
		return;
	print_registry(to, info);
#define X(name, type, field, help) print_number(to, #name, #type, info->field, help);
	NUMBERS(X)
#undef X
#define X(name, type, counts, label, field, help) \
	print_head(to, #name, #type, help); \
	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *info->counts[i].what; i++) \
		print_family_line(to, #name, label, &info->counts[i], info->counts[i].field);
	FAMILIES(X)
#undef X
}

/* Starts no registry: if none runs, the metrics report that (gpushare_up 0). */
static int read_registry(const char *directory, struct gpushare_registry_info *out_info)
{
	const struct gpushare_open_options options = {.directory = directory, .no_autostart = 1};
	_tool_session_ struct gpushare_session *session = NULL;
	int status = gpushare_open(&options, &session);

	return status ? status : gpushare_stat_registry(session, out_info);
}

int verb_metrics(int argc, char **argv)
{
	struct gpushare_registry_info info;
	struct options options;
	int status, code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (optind != argc)
		return tool_usage("metrics takes no operands: '%s' is one too many", argv[optind]);
	status = read_registry(options.directory, &info);
	if (status) {
		tool_failed(status);
		if (!options.json)
			metrics_print(stdout, NULL);
		return tool_flush(TOOL_FAILED);
	}
	if (options.json)
		return show_dump(show_registry_json(&info));
	metrics_print(stdout, &info);
	return tool_flush(TOOL_DONE);
}
