/* SPDX-License-Identifier: MIT */
/*
 * registry.conf. Each fault is one line of printable text that says where; what is understood holds its
 * bounds, and what is printed of it says the same again.
 */
#include "config.h"
#include "fuzz.h"

#define NAME "f.conf"

/* "f.conf:LINE:COLUMN: words" */
static void check_line(const char *line, size_t size)
{
	unsigned int row, column;
	int at = 0;

	FUZZ_MUST(sscanf(line, NAME ":%u:%u: %n", &row, &column, &at) == 2 && at);
	FUZZ_MUST(row && column && column <= CONFIG_LINE_MAX + 1);
	for (size_t i = 0; i < size; i++)
		FUZZ_MUST(line[i] == '\t' || (line[i] >= ' ' && line[i] < 0x7f));
}

static void check_said(const char *said, size_t size, unsigned int faults)
{
	while (faults--) {
		const char *end = memchr(said, '\n', size);

		FUZZ_MUST(end);
		check_line(said, (size_t)(end - said));
		size -= (size_t)(end + 1 - said);
		said = end + 1;
	}
	FUZZ_MUST(!size);
}

static void check_bounds(const struct settings *settings)
{
	const struct setting *which;

	for (unsigned int i = 0; (which = settings_at(i)); i++) {
		const char *value = (const char *)settings + which->offset;
		uint64_t number;

		memcpy(&number, value, sizeof(number));
		if (which->fault)
			FUZZ_MUST(!which->fault(value));
		else
			FUZZ_MUST(number >= which->least && number <= which->most);
	}
}

/* A path with a '#' behind a blank would be cut: no line of a file can have set one. */
static void check_printed(const struct settings *settings)
{
	static struct settings again;
	const struct setting *which;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	FUZZ_MUST(to);
	for (unsigned int i = 0; (which = settings_at(i)); i++)
		settings_print(settings, which, to);
	fclose(to);
	settings_init(&again);
	FUZZ_MUST(!config_parse(NAME, text, size, &again, stderr));
	FUZZ_MUST(!memcmp(&again.limits, &settings->limits, sizeof(again.limits)));
	FUZZ_MUST(!strcmp(again.audit, settings->audit));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct settings settings;
	char *said = NULL;
	size_t said_size;
	FILE *say = open_memstream(&said, &said_size);
	unsigned int faults;

	FUZZ_MUST(say);
	settings_init(&settings);
	faults = config_parse(NAME, (const char *)data, size, &settings, say);
	fclose(say);
	check_said(said, said_size, faults);
	free(said);
	check_bounds(&settings);
	check_printed(&settings);
	return 0;
}
