/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "common/beside.h"
#include "preload/rules.h"
#include "options.h"
#include "verbs.h"

#define EXIT_NOT_FOUND 127 /* the exit codes that shells use */
#define EXIT_NOT_RUN 126

/* X(field of struct options, rules_kind, environment variable that carries the rules, option) */
#define RULE_VARIABLES(X) \
	X(name, RULES_NAME, "GPUSHARE_NAME", "--name") \
	X(attach, RULES_ATTACH, "GPUSHARE_ATTACH", "--attach")

static bool set_variable(const char *name, const char *value)
{
	if (!value || !setenv(name, value, 1))
		return true;
	tool_error("%s can't be set: %s", name, strerror(errno));
	return false;
}

/* Put the preload library before the previous value of LD_PRELOAD. */
static bool set_preload(const char *shim)
{
	const char *before = getenv("LD_PRELOAD");
	_cleanup_free_ char *value = NULL;

	if (strpbrk(shim, " :")) {
		tool_error(
		    "'%s' can't be preloaded: the loader splits LD_PRELOAD at blanks and colons; "
		    "move it to a path without them",
		    shim);
		return false;
	}
	if (!before || !*before)
		return set_variable("LD_PRELOAD", shim);
	if (asprintf(&value, "%s:%s", shim, before) < 0) {
		value = NULL;
		tool_error("no memory for LD_PRELOAD");
		return false;
	}
	return set_variable("LD_PRELOAD", value);
}

static bool check_rules(enum rules_kind kind, const char *option, const char *text)
{
	char error[1024] = "";
	struct rules *rules;

	if (!text)
		return true;
	if (!*text) {
		tool_usage("%s wants rules, such as 'weights,kv', not ''", option);
		return false;
	}
	rules = rules_parse(kind, option, text, error, sizeof(error));
	rules_free(rules);
	if (!*error)
		return true;
	fprintf(stderr, "%s\n", error);
	return false;
}

int verb_run(int argc, char **argv)
{
	struct options run;
	char shim[PATH_MAX], why[BESIDE_WHY_MAX];
	int code = options_parse(argc, argv, &run);

	if (code >= 0)
		return code;
	if (optind == argc)
		return tool_usage("the operand APP is missing");
#define X(field, kind, variable, option) \
	if (!check_rules(kind, option, run.field)) \
		return TOOL_USAGE;
	RULE_VARIABLES(X)
#undef X
	tool_check_settings(tool_say_setting);
	if (!beside_shim(shim, why)) {
		tool_error("%s", why);
		return TOOL_FAILED;
	}
	if (!set_preload(shim) || !set_variable("GPUSHARE_DIR", run.directory))
		return TOOL_FAILED;
#define X(field, kind, variable, option) \
	if (!set_variable(variable, run.field)) \
		return TOOL_FAILED;
	RULE_VARIABLES(X)
#undef X
	signal(SIGPIPE, SIG_DFL);
	execvp(argv[optind], argv + optind);
	code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	tool_error("'%s' can't be run: %s", argv[optind], strerror(errno));
	return code;
}
