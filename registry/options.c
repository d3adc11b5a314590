/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/socket_access.h"
#include "config.h"
#include "os/log.h"
#include "protocol.h"

#define EXIT_USAGE 2

/* X(name, argument, letter, text) */
#define OPTIONS(X) \
	X("foreground", NULL, 'f', \
	  "log to stderr; without it nothing is logged and stdio is let go of") \
	X("dir", "DIR", 'd', \
	  "serve there; default $GPUSHARE_DIR, $XDG_RUNTIME_DIR/gpushare, /tmp/gpushare-UID") \
	X("idle-exit", "SECONDS", 'i', \
	  "leave after so long without a connection; default 0: never") \
	X("keep-limit", "BYTES", 'k', \
	  "memory that names with keep may hold altogether, of all users and of each; default 1 " \
	  "TiB") \
	X("config", "FILE", 'F', \
	  "read that file instead of " CONFIG_FILE "; what stands here goes before what it says") \
	X("check-config", NULL, 'C', \
	  "say what is wrong with the file, or print what holds with it, and end") \
	X("orphan", NULL, 'o', \
	  "for programs, which start it so: where init is not its parent, leave after 1 s " \
	  "without " \
	  "a connection, for the parent may wait until its children have ended") \
	X("replace", NULL, 'R', \
	  "ask the one that serves the directory to leave, and take over what it remembers") \
	X("system", NULL, 's', \
	  "serve all users, each by what a buffer's owner, group and mode let him do; default " \
	  "directory " DOOR_DIRECTORY) \
	X("group", "NAME", 'g', "with --system: serve the users of this group alone") \
	X("ready-fd", "N", 'r', \
	  "write READY=1 to this file descriptor, and close it, when it listens") \
	X("keeper", NULL, 'K', \
	  "be the process that keeps file descriptors for the registry of --dir, which starts it") \
	X("version", NULL, 'V', "print the version") \
	X("help", NULL, 'h', "print this")

static const struct option long_options[] = {
#define X(name, argument, letter, text) \
	{name, (argument) ? required_argument : no_argument, NULL, letter},
    OPTIONS(X)
#undef X
	{0},
};

static void print_usage(FILE *to)
{
	fprintf(to, "usage: gpushare-registry [OPTION]...\n"
		    "Remember the names of shared GPU buffers for this user's processes.\n\n");
#define X(name, argument, letter, text) \
	fprintf(to, "  --%s%s%s\n        %s\n", name, (argument) ? " " : "", \
		(argument) ? (argument) : "", text);
	OPTIONS(X)
#undef X
	fprintf(to, "\nIt stays in the process that started it, and starts none but its keeper.\n"
		    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 another one serves the "
		    "directory.\n");
}

static int fail_usage(const char *what, const char *value)
{
	fprintf(stderr, "gpushare-registry: %s: '%s'\n\n", what, value);
	print_usage(stderr);
	return EXIT_USAGE;
}

static bool parse_number(const char *text, long most, long *out_number)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno || end == text || *end || number < 0 || number > most)
		return false;
	*out_number = number;
	return true;
}

/* For a successor, which may be started in another working directory. */
static void keep_path(struct options *options, const char *config)
{
	char *path = realpath(config, NULL);

	if (!path)
		log_error("a successor can't be told where %s is: %s", config, strerror(errno));
	else if (strlen(path) < sizeof(options->config))
		strcpy(options->config, path);
	else
		log_error("%s has too long a path for a successor to be told it", config);
	free(path);
}

/* The file first, for the command line goes before it. -1: both were understood. */
static int read_settings(struct options *options, const char *config)
{
	struct settings settings;

	settings_init(&settings);
	if (!config_read(config, &settings, stderr))
		return EXIT_USAGE;
	if (options->idle_exit_s >= 0)
		settings.idle_exit_s = (uint64_t)options->idle_exit_s;
	if (options->keep_limit >= 0) {
		settings.limits.kept_bytes = (uint64_t)options->keep_limit;
		settings.limits.of_user[LIMIT_kept_bytes] = (uint64_t)options->keep_limit;
	}
	options->settings = settings;
	if (config)
		keep_path(options, config);
	return -1;
}

void options_inherit(struct options *options, const char *config)
{
	if (read_settings(options, config) >= 0)
		log_line("%s, which the one before had read, is left out", config);
}

static int print_settings(const struct settings *settings)
{
	const struct setting *which;

	for (unsigned int i = 0; (which = settings_at(i)); i++)
		settings_print(settings, which, stdout);
	return fflush(stdout) ? 1 : 0;
}

int options_parse(struct options *options, int argc, char **argv)
{
	long number;
	const char *config = NULL;
	bool check_config = false;
	int letter, status;

	*options = (struct options){.ready_fd = -1, .idle_exit_s = -1, .keep_limit = -1};
	while ((letter = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (letter) {
		case 'f':
			options->foreground = true;
			break;
		case 'd':
			if (!*optarg)
				return fail_usage("--dir wants a directory", optarg);
			options->directory = optarg;
			break;
		case 'i':
			if (!parse_number(optarg, 365 * 24 * 3600, &options->idle_exit_s))
				return fail_usage("--idle-exit wants seconds", optarg);
			break;
		case 'k':
			if (!parse_number(optarg, LONG_MAX, &options->keep_limit))
				return fail_usage("--keep-limit wants bytes", optarg);
			break;
		case 'F':
			config = optarg;
			break;
		case 'C':
			check_config = true;
			break;
		case 'o':
			options->orphan = true;
			break;
		case 'R':
			options->replace = true;
			break;
		case 's':
			options->is_system = true;
			break;
		case 'g':
			options->group = optarg;
			break;
		case 'K':
			options->keeper = true;
			break;
		case 'r':
			if (!parse_number(optarg, INT_MAX, &number))
				return fail_usage("--ready-fd wants a file descriptor", optarg);
			options->ready_fd = (int)number;
			break;
		case 'V':
			printf("gpushare-registry %s (protocol %d)\n", GPUSHARE_VERSION,
			       GPUSHARE_PROTOCOL);
			return 0;
		case 'h':
			print_usage(stdout);
			return 0;
		default:
			fputc('\n', stderr);
			print_usage(stderr);
			return EXIT_USAGE;
		}
	}
	if (options->group && !options->is_system)
		return fail_usage("--group goes with --system", options->group);
	if (optind < argc)
		return fail_usage("no arguments are wanted", argv[optind]);
	if (options->keeper)
		return -1;
	status = read_settings(options, config);
	return status < 0 && check_config ? print_settings(&options->settings) : status;
}
