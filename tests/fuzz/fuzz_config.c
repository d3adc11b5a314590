/* SPDX-License-Identifier: MIT */
/*
 * registry.conf. Each fault is one line of printable text with its position. The output of
 * config_print() must have no faults (so each value is within its bounds) and give the same
 * settings.
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

static void check_printed(const struct settings *settings)
{
	static struct settings again;
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	FUZZ_MUST(file);
	config_print(settings, file);
	fclose(file);
	file = fmemopen(text, size, "r");
	FUZZ_MUST(file);
	config_init(&again);
	FUZZ_MUST(!config_parse(NAME, file, &again, stderr));
	fclose(file);
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
	FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;
	unsigned int faults = 0;

	FUZZ_MUST(say);
	config_init(&settings);
	if (file) {
		faults = config_parse(NAME, file, &settings, say);
		fclose(file);
	}
	fclose(say);
	check_said(said, said_size, faults);
	free(said);
	check_printed(&settings);
	return 0;
}
