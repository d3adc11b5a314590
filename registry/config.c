/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/audit.h"
#include "protocol.h"

#define BLANKS " \t"
#define NUMBER_MAX 9007199254740992 /* 2^53: JSON has no larger integers */
#define CLOSE_ENOUGH 3		    /* find_closest() suggests a key within this edit distance */

struct setting {
	const char *key;
	uint64_t least, most;
	/* checks a text value; NULL: the setting is a number */
	const char *(*fault)(const char *word);
	size_t offset; /* in struct settings */
};

/* kept_bytes is the only limit that may be 0: keep nothing. */
#define LEAST(name) (LIMIT_##name != LIMIT_kept_bytes)

static const struct setting list[] = {
#define X(name, all, user, what, helps) \
	{#name, LEAST(name), NUMBER_MAX, NULL, \
	 offsetof(struct settings, limits.of_all[LIMIT_##name])}, \
	    {"user_" #name, LEAST(name), NUMBER_MAX, NULL, \
	     offsetof(struct settings, limits.of_user[LIMIT_##name])},
    LIMITS(X)
#undef X
#define N(name, least, most, preset, text) \
	{#name, least, most, NULL, offsetof(struct settings, name)},
#define W(name, check, preset, text) {#name, 0, 0, check, offsetof(struct settings, name)},
	SETTINGS(N, W)
#undef N
#undef W
};

#define KEYS (sizeof(list) / sizeof(*list))

struct parser {
	const char *name;
	FILE *say;
	struct settings *settings;
	unsigned int line, faults;
	unsigned int lines[KEYS]; /* the line that sets each key; 0: none */
	const char *text;	  /* the current line */
};

void config_init(struct settings *settings)
{
	*settings = (struct settings){
#define N(name, least, most, preset, text) .name = preset,
#define W(name, check, preset, text) .name = preset,
	    SETTINGS(N, W)
#undef N
#undef W
	};
	limits_init(&settings->limits);
}

static const struct setting *find(const char *key)
{
	for (size_t i = 0; i < KEYS; i++) {
		if (!strcmp(list[i].key, key))
			return &list[i];
	}
	return NULL;
}

/* NULL: no key is close. */
static const char *find_closest(const char *key)
{
	unsigned int most = CLOSE_ENOUGH;
	const char *found = NULL;

	for (size_t i = 0; i < KEYS; i++) {
		unsigned int away = edit_distance(key, list[i].key, most);

		if (away > most || away >= strlen(key))
			continue;
		most = away - 1;
		found = list[i].key;
	}
	return found;
}

bool config_number(const char *text, uint64_t *out_number)
{
	const char *end = text_size(text, out_number);

	return end && !*end;
}

const char *config_set(struct settings *settings, const char *key, const char *value,
		       char why[CONFIG_WHY_MAX])
{
	const struct setting *which = find(key);
	void *to = (char *)settings + which->offset;
	uint64_t number;

	if (which->fault) {
		const char *fault = strlen(value) > CONFIG_VALUE_MAX ? "wants at most 1016 bytes"
								     : which->fault(value);

		if (!fault)
			strcpy(to, value);
		return fault;
	}
	if (config_number(value, &number) && number >= which->least && number <= which->most) {
		memcpy(to, &number, sizeof(number));
		return NULL;
	}
	snprintf(why, CONFIG_WHY_MAX,
		 "wants a number from %" PRIu64 " to %" PRIu64 ", as in 1000, 64Ki or 2M",
		 which->least, which->most);
	return why;
}

/* `at` points into parser->text and gives the column. */
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

static void trim_end(char *text)
{
	size_t length = strlen(text);

	while (length && strchr(BLANKS, text[length - 1]))
		text[--length] = '\0';
}

/* A comment begins the line or follows a blank or '='. */
static void cut_comment(char *text)
{
	for (char *at = text; (at = strchr(at, '#')); at++) {
		if (at == text || strchr(BLANKS "=", at[-1])) {
			*at = '\0';
			return;
		}
	}
}

static bool is_plain(struct parser *parser)
{
	for (const char *at = parser->text; *at; at++) {
		unsigned char byte = (unsigned char)*at;

		if ((byte >= ' ' && byte < 0x7f) || byte == '\t')
			continue;
		fault(parser, at, "byte 0x%02x is not plain text%s", byte,
		      byte == '\r' ? " (end lines with a line feed only)" : "");
		return false;
	}
	return true;
}

static bool is_new_key(struct parser *parser, const char *key)
{
	const struct setting *which = find(key);
	const char *closest = which ? NULL : find_closest(key);
	unsigned int *line = which ? &parser->lines[which - list] : NULL;

	if (!which && closest)
		fault(parser, key, "\"%s\" is not a key; did you mean \"%s\"?", key, closest);
	else if (!which)
		fault(parser, key, "\"%s\" is not a key; registry.conf(5) lists all keys", key);
	else if (*line)
		fault(parser, key, "%s is already set in line %u", key, *line);
	if (!which || *line)
		return false;
	*line = parser->line;
	return true;
}

static void parse_line(struct parser *parser, char *text)
{
	char *key = text + strspn(text, BLANKS), *equals, *value, why[CONFIG_WHY_MAX];
	const char *wrong;

	cut_comment(key);
	trim_end(key);
	if (!*key || !is_plain(parser))
		return;
	equals = strchr(key, '=');
	if (!equals) {
		fault(parser, key + strlen(key), "'=' is missing: a line is KEY = VALUE");
		return;
	}
	*equals = '\0';
	trim_end(key);
	value = equals + 1 + strspn(equals + 1, BLANKS);
	if (!is_new_key(parser, key))
		return;
	wrong = config_set(parser->settings, key, value, why);
	if (wrong)
		fault(parser, value, "%s %s: '%s'", key, wrong, value);
}

unsigned int config_parse(const char *name, FILE *from, struct settings *settings, FILE *say)
{
	struct parser parser = {.name = name, .say = say, .settings = settings};
	char *text = NULL;
	size_t room = 0, length;
	ssize_t size;

	while (parser.faults < CONFIG_FAULTS_MAX && (size = getline(&text, &room, from)) > 0) {
		parser.line++;
		parser.text = text;
		size -= text[size - 1] == '\n';
		text[size] = '\0';
		length = strlen(text);
		if (length > CONFIG_LINE_MAX)
			fault(&parser, text + CONFIG_LINE_MAX, "the line is longer than %d bytes",
			      CONFIG_LINE_MAX);
		else if (length < (size_t)size)
			fault(&parser, text + length, "byte 0x00 is not plain text");
		else
			parse_line(&parser, text);
	}
	free(text);
	return parser.faults;
}

/* Returns why the registry must not trust the file, or NULL. If it runs as root, only root may be
 * able to write to the file. */
static const char *distrust(int fd)
{
	struct stat is;

	if (fstat(fd, &is))
		return strerror(errno);
	if (!S_ISREG(is.st_mode))
		return "it is not a regular file";
	if (geteuid() != 0)
		return NULL;
	if (is.st_uid != 0)
		return "it does not belong to root, but the registry runs as root";
	if (is.st_mode & (S_IWGRP | S_IWOTH))
		return "users other than root may write to it (chmod go-w), but the registry "
		       "runs as root";
	return NULL;
}

bool config_read(const char *path, struct settings *settings, FILE *say)
{
	const char *name = path ? path : CONFIG_FILE, *why;
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	unsigned int faults = 0;
	FILE *file;

	if (fd < 0 && !path && errno == ENOENT)
		return true;
	why = fd >= 0 ? distrust(fd) : errno == ELOOP ? "it is a symbolic link" : strerror(errno);
	file = why ? NULL : fdopen(fd, "r");
	if (file)
		faults = config_parse(name, file, settings, say);
	if (!why && (!file || ferror(file)))
		why = strerror(errno);
	if (why)
		fprintf(say, "gpushare-registry: can't use %s: %s\n", name, why);
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return !why && !faults;
}

void config_print(const struct settings *settings, FILE *to)
{
	for (size_t i = 0; i < KEYS; i++) {
		const char *from = (const char *)settings + list[i].offset;
		uint64_t number;

		memcpy(&number, from, sizeof(number));
		if (list[i].fault)
			fprintf(to, "%s = %s\n", list[i].key, from);
		else
			fprintf(to, "%s = %" PRIu64 "\n", list[i].key, number);
	}
}
