/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(CONFIG_LINE_MAX <= PATH_MAX, "what a line holds fits a setting");

#define KEYS_MAX 64

struct parser {
	const char *name;
	FILE *say;
	struct settings *settings;
	unsigned int line, faults;
	unsigned int lines[KEYS_MAX]; /* where each key was set; 0: nowhere */
	char text[CONFIG_LINE_MAX + 1];
};

/* `at` in the line's text. */
__attribute__((format(printf, 3, 4))) static void fault(struct parser *parser, const char *at,
							const char *format, ...)
{
	va_list arguments;

	fprintf(parser->say, "%s:%u:%u: ", parser->name, parser->line,
		(unsigned int)(at - parser->text) + 1);
	va_start(arguments, format);
	vfprintf(parser->say, format, arguments);
	va_end(arguments);
	fputc('\n', parser->say);
	parser->faults++;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *skip_blanks(char *at)
{
	while (is_blank(*at))
		at++;
	return at;
}

/* The end of what is not blank at the end of [at, end). */
static char *trim(const char *at, char *end)
{
	while (end > at && is_blank(end[-1]))
		end--;
	return end;
}

/* A comment begins the line, or comes after a blank. */
static void cut_comment(char *text)
{
	for (char *at = text; *at; at++) {
		if (*at == '#' && (at == text || is_blank(at[-1]))) {
			*at = '\0';
			return;
		}
	}
}

static bool is_clean(struct parser *parser)
{
	for (const char *at = parser->text; *at; at++) {
		unsigned char byte = (unsigned char)*at;

		if ((byte < ' ' && byte != '\t') || byte >= 0x7f) {
			fault(parser, at, "byte 0x%02x is none of plain text's%s", byte,
			      byte == '\r' ? " (a line ends with a line feed alone)" : "");
			return false;
		}
	}
	return true;
}

/* Its place in the list; -1: it is none, or comes again. */
static int find_key(struct parser *parser, const char *key)
{
	const struct setting *which = settings_find(key);
	const char *closest = settings_closest(key);
	int index;

	if (!which && closest)
		fault(parser, key, "\"%s\" is no key; did you mean \"%s\"?", key, closest);
	else if (!which)
		fault(parser, key, "\"%s\" is no key; registry.conf(5) has them all", key);
	if (!which)
		return -1;
	index = (int)(which - settings_at(0));
	if (!parser->lines[index])
		return index;
	fault(parser, key, "%s comes twice; line %u has it already", key, parser->lines[index]);
	return -1;
}

static void parse_line(struct parser *parser)
{
	char *key, *key_end, *equals, *value, why[160];
	const char *wrong;
	int index;

	cut_comment(parser->text);
	key = skip_blanks(parser->text);
	if (!*key || !is_clean(parser))
		return;
	equals = strchr(key, '=');
	if (!equals) {
		fault(parser, trim(key, key + strlen(key)),
		      "'=' is missing: a line is KEY = VALUE");
		return;
	}
	key_end = trim(key, equals);
	value = skip_blanks(equals + 1);
	*trim(value, value + strlen(value)) = '\0';
	*key_end = '\0';
	index = find_key(parser, key);
	if (index < 0)
		return;
	parser->lines[index] = parser->line;
	wrong = settings_put(parser->settings, settings_at((unsigned int)index), value, why,
			     sizeof(why));
	if (wrong)
		fault(parser, value, "%s %s: '%s'", key, wrong, value);
}

unsigned int config_parse(const char *name, const char *text, size_t size,
			  struct settings *settings, FILE *say)
{
	struct parser parser = {.name = name, .say = say, .settings = settings};
	const char *end = text + size;

	while (text < end && parser.faults < CONFIG_FAULTS_MAX) {
		const char *feed = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((feed ? feed : end) - text);
		const char *nul = memchr(text, '\0', length);

		parser.line++;
		snprintf(parser.text, sizeof(parser.text), "%.*s",
			 (int)(length < CONFIG_LINE_MAX ? length : CONFIG_LINE_MAX), text);
		if (nul)
			fault(&parser,
			      parser.text + (nul - text < CONFIG_LINE_MAX ? nul - text : 0),
			      "byte 0x00 is none of plain text's");
		else if (length > CONFIG_LINE_MAX)
			fault(&parser, parser.text + CONFIG_LINE_MAX,
			      "the line goes on past %d bytes", CONFIG_LINE_MAX);
		else
			parse_line(&parser);
		text += length + 1;
	}
	return parser.faults;
}

/* Who else could have written what root does by it? */
static const char *distrust(const struct stat *is)
{
	if (!S_ISREG(is->st_mode))
		return "it is no plain file";
	if (geteuid() != 0)
		return NULL;
	if (is->st_uid != 0)
		return "it is not root's, and the registry runs as root";
	if (is->st_mode & (S_IWGRP | S_IWOTH))
		return "others than root may write to it (chmod go-w), and the registry runs as "
		       "root";
	return NULL;
}

/* All of it, the caller's to free. NULL: `why`. */
static char *read_all(int fd, size_t *out_size, const char **why)
{
	char *text = malloc(CONFIG_SIZE_MAX + 1);
	size_t size = 0;
	ssize_t got = 1;

	while (text && size <= CONFIG_SIZE_MAX && got > 0) {
		got = read(fd, text + size, CONFIG_SIZE_MAX + 1 - size);
		size += got > 0 ? (size_t)got : 0;
	}
	if (!text || got < 0)
		*why = strerror(errno);
	else if (size > CONFIG_SIZE_MAX)
		*why = "it is larger than 64 KiB";
	else
		*why = NULL;
	*out_size = size;
	if (!*why)
		return text;
	free(text);
	return NULL;
}

bool config_read(const char *path, struct settings *settings, FILE *say)
{
	const char *name = path ? path : CONFIG_FILE, *why = NULL;
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	unsigned int faults = 1;
	char *text = NULL;
	struct stat is;
	size_t size = 0;

	if (fd < 0 && !path && errno == ENOENT)
		return true;
	if (fd < 0)
		why = errno == ELOOP ? "it is a link, and none is followed" : strerror(errno);
	else if (fstat(fd, &is))
		why = strerror(errno);
	else
		why = distrust(&is);
	if (!why)
		text = read_all(fd, &size, &why);
	if (fd >= 0)
		close(fd);
	if (why)
		fprintf(say, "gpushare-registry: can't use %s: %s\n", name, why);
	else
		faults = config_parse(name, text, size, settings, say);
	free(text);
	return !faults;
}
