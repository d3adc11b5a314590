/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_VERBS_H
#define GPUSHARE_TOOLS_VERBS_H
/*
 * The verbs of `gpushare`: X(verb, arguments, summary). Most are in verb_<verb>.c. Those that copy
 * are in verb_copy.c, `events` in verb_ls.c, `nodes` and `pull` in verb_node.c. --help, shell
 * completion and options_parse() read `arguments`. Words in capitals are placeholders
 * (verb_complete.c). options.c has the options.
 */
#include "common/tool.h"

/* Options of get and follow: which bytes to read, and how to show them. */
#define VIEW_OPTIONS \
	" [--format FORMAT] [--dtype TYPE] [--shape SHAPE] [--head N] [--offset N] [--length N] " \
	"[--stats] [--sha256] [--wait SECONDS] [--dir DIR] NAME"

#define LIST_OPTIONS "[-l] [-q] [-o COLUMNS] [--sort COLUMN] [--bytes] [--no-headers] "

/* X(word, separator before it in the usage text, whether it accepts --force, whether --json) */
#define REGISTRY_ACTIONS(X) \
	X(start, "", false, false) \
	X(stop, "|", true, false) \
	X(status, "|", false, true) \
	X(log, "|", false, false)
#define REGISTRY_WORD(word, before, force, json) before #word
#define REGISTRY_WORDS REGISTRY_ACTIONS(REGISTRY_WORD)

#define VERBS(X) \
	X(run, "[--name RULES] [--attach RULES] [--dir DIR] [--] APP [ARG]...", \
	  "run a program, and name its GPU buffers, or give it other programs' named buffers") \
	X(ls, \
	  LIST_OPTIONS \
	  "[--deferred] [--events] [--nodes] [--tls DIR] [--json] [--dir DIR] [GLOB]", \
	  "list named buffers, or freed buffers that are held for their attachers, or named " \
	  "events") \
	X(events, LIST_OPTIONS "[--json] [--dir DIR] [GLOB]", \
	  "list named events, with which processes wait for each other's GPU work; 'ls --events'") \
	X(stat, "[--json] [--dir DIR] [NAME]", \
	  "show one buffer's record and attachers, or the registry's numbers") \
	X(watch, "[--count N] [--json] [--dir DIR] [GLOB]", \
	  "print a line for each change of a buffer, until a signal") \
	X(top, "[-d SECONDS] [-n N] [--sort KEY] [--json] [--dir DIR] [GLOB]", \
	  "show repeatedly which processes own and hold which buffers, like top(1)") \
	X(get, "[-o FILE] [--rate] [--plot]" VIEW_OPTIONS, \
	  "copy a buffer to a file or into a pipe, or look at its values") \
	X(put, \
	  "[--format FORMAT] [--offset N] [--length N] [--wait SECONDS] [--dir DIR] FILE NAME", \
	  "copy a file into a buffer") \
	X(save, "[--format FORMAT] [--rate] [--wait SECONDS] [--dir DIR] SET NAME...", \
	  "copy buffers, or all that a pattern matches, to the directory SET, with a manifest") \
	X(restore, "[--device N] [--mode OCTAL] [--group GROUP] [--dir DIR] PATH [NAME]...", \
	  "create kept buffers from a saved set (all of it, or only each NAME), or from a file") \
	X(diff, \
	  "[--dtype TYPE] [--shape SHAPE] [--head N] [--offset N] [--length N] [--wait SECONDS] " \
	  "[--dir DIR] PATH [NAME]...", \
	  "compare a buffer with a file, or buffers with a saved set; exit status as cmp") \
	X(follow, "[-o FILE] [--count N] [--wait-for SEQ] [--timeout SECONDS]" VIEW_OPTIONS, \
	  "get each publication of a buffer, until its owner has ended") \
	X(pull, \
	  "[--as NAME] [--follow] [--via NODE] [--readonly] [--mode OCTAL] [--group GROUP] " \
	  "[--tag KEY=VALUE] [--device N] [--rate] [--tls DIR] [--trusted-network IFACE] " \
	  "[--dir DIR] NODE:NAME", \
	  "make kept copies of another node's buffers, one or all that a pattern matches") \
	X(nodes, "[--json] [--tls DIR]", "list the nodes of $GPUSHARE_NODES, and which answer") \
	X(node, \
	  "[--listen ADDRESS] [--announce ADDRESS] [--as NODE] [--tls DIR] " \
	  "[--trusted-network IFACE] [--dir DIR]", \
	  "let other hosts list and pull this user's buffers, until a signal ends it") \
	X(tag, "[--json] [--dir DIR] NAME [KEY=VALUE | -KEY]...", \
	  "show, set or remove a buffer's tags") \
	X(rm, "[--dir DIR] NAME...", \
	  "remove names, or all that a pattern matches; the memory of an owner or attacher stays") \
	X(registry, "[--force] [--json] [--dir DIR] " REGISTRY_WORDS, \
	  "start or stop the registry of a directory, show whether it runs, or print its log") \
	X(metrics, "[--json] [--dir DIR]", "print the registry's numbers in Prometheus' format") \
	X(doctor, "[--json] [--dir DIR] [PROGRAM]", \
	  "show what works here and what doesn't, and why; with PROGRAM, also for that program")

/* gpushare-attach does what the verbs that copy do. Options such as --restore choose the verb. */
#define ATTACH_NAME "gpushare-attach"
#define ATTACH_USAGE \
	"[-o FILE] [--rate] [--diff PATH] [--follow] [--count N] [--wait-for SEQ] [--timeout " \
	"SECONDS] " \
	"[--into FILE] [--in FILE] [--restore PATH] [--device N] [--mode OCTAL] [--group " \
	"GROUP]" VIEW_OPTIONS "..."

/* argv[0] is the verb. Each function reports its errors and returns a tool_exit. */
#define X(verb, arguments, summary) int verb_##verb(int argc, char **argv);
VERBS(X)
#undef X

/* gpushare-attach; argv[0] is ATTACH_NAME. */
int verb_attach(int argc, char **argv);
struct verb {
	const char *name;
	const char *usage, *summary; /* NULL for help and version */
	int (*run)(int argc, char **argv);
};
/* All verbs, and ATTACH_NAME. In the last entry, `name` is NULL. */
extern const struct verb verbs[];
/* Find a verb by its name or by an alias such as "list". NULL: none. */
const struct verb *verb_find(const char *word);
/* Print usage, options and examples of one verb, or the list of all verbs. Returns a tool_exit. */
int verb_help(const char *verb);
int verb_help_all(void);
/* Print completions of the last word, one per line: verb_complete.c. */
int verb_complete(int argc, char **argv);

#endif
