/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "protocol.h"

#define EXIT_USAGE 2

static const struct {
	const char *name, *argument, *text; /* `argument` NULL: the option is a flag */
	size_t offset;			    /* in struct options */
} list[] = {
#define F(name, field, text) {name, NULL, text, offsetof(struct options, field)},
#define V(name, argument, field, text) {name, argument, text, offsetof(struct options, field)},
    OPTIONS(F, V)
#undef F
#undef V
};

#define COUNT (sizeof(list) / sizeof(*list))

static void print_usage(FILE *to)
{
	fprintf(to, "usage: gpushare-registry [OPTION]...\n"
		    "Remember the names of shared GPU buffers for this user's processes.\n\n");
	for (size_t i = 0; i < COUNT; i++)
		fprintf(to, "  --%s%s%s\n        %s\n", list[i].name, list[i].argument ? " " : "",
			list[i].argument ? list[i].argument : "", list[i].text);
	fprintf(to, "\nIt does not fork into the background. It starts one process, its keeper.\n"
		    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 another registry serves "
		    "the directory.\n");
}

static int fail_usage(const char *what, const char *value)
{
	fprintf(stderr, "gpushare-registry: %s: '%s'\n\n", what, value);
	print_usage(stderr);
	return EXIT_USAGE;
}

/* Read the file, then the options that override its settings. Returns as options_parse() does. */
static int read_settings(struct options *options, const char *config)
{
	const struct {
		const char *key, *value;
	} given[] = {
	    {"idle_exit_s", options->idle_exit},
	    {"kept_bytes", options->keep_limit},
	    {"user_kept_bytes", options->keep_limit},
	};
	struct settings settings;

	config_init(&settings);
	if (!config_read(config, &settings, stderr))
		return EXIT_USAGE;
	for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
		char why[CONFIG_WHY_MAX], what[CONFIG_WHY_MAX];
		const char *wrong = given[i].value
					? config_set(&settings, given[i].key, given[i].value, why)
					: NULL;

		if (!wrong)
			continue;
		snprintf(what, sizeof(what), "%s %s", i ? "--keep-limit" : "--idle-exit", wrong);
		return fail_usage(what, given[i].value);
	}
	options->settings = settings;
	return -1;
}

static int print_settings(const struct settings *settings)
{
	config_print(settings, stdout);
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	perror("gpushare-registry: stdout");
	return 1;
}

/* false: getopt_long() has printed the error. */
static bool read_words(struct options *options, int argc, char **argv)
{
	struct option known[COUNT + 1] = {0};
	int which;

	for (size_t i = 0; i < COUNT; i++)
		known[i] = (struct option){
		    .name = list[i].name, .has_arg = list[i].argument != NULL, .val = (int)i};
	while ((which = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		if (which == '?')
			return false;
		if (which == 'h')
			options->help = true;
		else if (list[which].argument)
			memcpy((char *)options + list[which].offset, &optarg, sizeof(optarg));
		else
			*((bool *)options + list[which].offset) = true;
	}
	return true;
}

int options_parse(struct options *options, int argc, char **argv)
{
	uint64_t fd = 0;
	int status;

	*options = (struct options){.ready = -1};
	if (!read_words(options, argc, argv)) {
		fputc('\n', stderr);
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (options->help)
		print_usage(stdout);
	else if (options->version)
		printf("gpushare-registry %s (protocol %d)\n", GPUSHARE_VERSION, GPUSHARE_PROTOCOL);
	if (options->help || options->version)
		return 0;
	if (options->directory && !*options->directory)
		return fail_usage("--dir wants a directory", options->directory);
	if (options->ready_fd && (!config_number(options->ready_fd, &fd) || fd > INT_MAX))
		return fail_usage("--ready-fd wants a file descriptor", options->ready_fd);
	if (options->ready_fd)
		options->ready = (int)fd;
	if (options->group && !options->is_system)
		return fail_usage("--group needs --system", options->group);
	if (optind < argc)
		return fail_usage("unexpected argument", argv[optind]);
	if (options->keeper)
		return -1;
	status = read_settings(options, options->config_file);
	return status < 0 && options->check_config ? print_settings(&options->settings) : status;
}
