/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usage.h"
#include "verbs.h"

#define OPTIONS_MAX 32
#define FIRST 256 /* getopt_long() returns FIRST + index for a long option; letters are less */
#define INTERVAL_MS 1000
#define INTERVAL_LEAST_MS 50

static bool flag(const char *value, void *out)
{
	(void)value;
	*(bool *)out = true;
	return true;
}

static bool text(const char *value, void *out)
{
	*(const char **)out = value;
	return true;
}

static bool directory(const char *value, void *out)
{
	return *value && text(value, out);
}

static bool size(const char *value, void *out)
{
	return tool_parse_size(value, out);
}

static bool seconds(const char *value, void *out)
{
	return tool_parse_seconds(value, out);
}

static bool number(const char *value, void *out)
{
	return tool_parse_size(value, out) && *(uint64_t *)out;
}

static bool looks(const char *value, void *out)
{
	return number(value, out) && strspn(value, "0123456789") == strlen(value);
}

static bool interval(const char *value, void *out)
{
	return seconds(value, out) && *(unsigned int *)out >= INTERVAL_LEAST_MS;
}

static bool sort_key(const char *value, void *out)
{
	return top_sort_parse(value, out);
}

static bool publication(const char *value, void *out)
{
	return number(value, out) && *(uint64_t *)out < COPY_SEQUENCE_MAX;
}

static bool dtype(const char *value, void *out)
{
	enum dtype before = *(enum dtype *)out, given = dtype_parse(value);

	*(enum dtype *)out = given;
	return given && (!before || before == given);
}

/* gpushare-attach also accepts an element type as format: text, with elements of that type. */
static bool format(const char *value, void *out)
{
	static const char *const names[] = {
#define X(name, text) [FORMAT_##name] = text,
	    FORMATS(X)
#undef X
	};
	struct query *query = (void *)((char *)out - offsetof(struct query, format));

	for (size_t i = FORMAT_NONE + 1; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(value, names[i])) {
			query->format = (enum format)i;
			return true;
		}
	if (strcmp(tool_name, ATTACH_NAME) != 0 || !dtype_parse(value))
		return false;
	query->format = FORMAT_TEXT;
	return dtype(value, &query->dtype);
}

static bool shape(const char *value, void *out)
{
	uint64_t count;

	return shape_parse(value, out) && shape_count(out, &count);
}

static bool device(const char *value, void *out)
{
	uint64_t found;

	if (!tool_parse_size(value, &found) || found > 1023)
		return false;
	*(int *)out = (int)found;
	return true;
}

static bool mode(const char *value, void *out)
{
	char *end;
	unsigned long found = strtoul(value, &end, 8);

	*(uint32_t *)out = (uint32_t)found;
	return *value >= '0' && *value <= '7' && !*end && found && !(found & ~0666ul);
}

/* The option may be repeated. `out` is the first element of options.tags. */
static bool tag(const char *value, void *out)
{
	struct options *options = (void *)((char *)out - offsetof(struct options, tags));
	struct gpushare_tag *one = &options->tags[options->tag_count];
	const char *equals = strchr(value, '=');
	size_t length = equals ? (size_t)(equals - value) : 0;

	if (options->tag_count == GPUSHARE_TAGS_MAX || !length || length > GPUSHARE_TAG_KEY_MAX ||
	    strlen(equals + 1) > GPUSHARE_TAG_VALUE_MAX)
		return false;
	memcpy(one->key, value, length);
	strcpy(one->value, equals + 1);
	options->tag_count++;
	return true;
}

#define AT(member) offsetof(struct options, member)
#define COPY(member) AT(copy.member)
#define QUERY(member) AT(copy.query.member)
#define TYPE_WORD(id, alias, ...) alias " "

const struct option_line option_lines[] = {
    {"--name", "RULES", text, AT(name), 0, "",
     "name the allocations that these rules match; sets GPUSHARE_NAME"},
    {"--attach", "RULES", text, AT(attach), 0, "",
     "for the allocations that these rules match, use other programs' buffers; sets "
     "GPUSHARE_ATTACH"},
    {"-l", "", flag, AT(uuids), 0, "",
     "on a terminal, show the GPU's UUID in place of its index and model"},
    {"-q", "", flag, AT(names), 0, "", "print only the names, one per line"},
    {"-o", "COLUMNS", text, AT(columns), 0, "",
     "show these columns in this order, such as NAME,SIZE"},
    {"--sort", "COLUMN", text, AT(order), 0, "",
     "sort by this column, shown or not; -COLUMN: largest first; default: NAME"},
    {"--bytes", "", flag, AT(bytes), 0, "", "print sizes in bytes, on a terminal too"},
    {"--no-headers", "", flag, AT(untitled), 0, "", "omit the line of titles"},
    {"--deferred", "", flag, AT(deferred), 0, "",
     "list buffers that their owners have freed, and that are held for their attachers"},
    {"--events", "", flag, AT(events), 0, "",
     "list named events in place of buffers; ls omits them by default"},
    {"-d", "SECONDS", interval, AT(top.interval_ms), 0, "seconds, 0.05 or more",
     "seconds between two readings; default: 1"},
    {"-n", "N", looks, AT(looks), 0, "a number of 1 or more",
     "print N readings as plain text, and exit; default without a terminal: 1"},
    {"--sort", "KEY", sort_key, AT(top.sort), 0, "size, age, attached, rate or name",
     "sort by size, age, attached, rate or name; default: size"},
    {"--count", "N", number, COPY(count), 0, "a number of 1 or more",
     "end after N lines (watch) or publications (follow)"},
    {"-o", "FILE", text, COPY(output), 0, "",
     "write to FILE; '-' is standard output, raw bytes on a terminal too"},
    {"--format", "FORMAT", format, QUERY(format), 0,
     "raw, hex, npy, text or png (--dtype gives the type)",
     "one of raw, hex, npy (NumPy's file), text (values with their index), and png"},
    {"--dtype", "TYPE", dtype, QUERY(dtype), 0, "one type of elements, such as f16",
     DTYPES(TYPE_WORD) "(default: the tag dtype, else u8)"},
    {"--shape", "SHAPE", shape, QUERY(shape), QUERY(has_shape), "extents, as in 2x3 or 2,3",
     "extents, as 2x3 or 2,3; default: the tag shape, else one dimension"},
    {"--head", "N", size, QUERY(head), QUERY(has_head), "a number",
     "only the first N elements (raw and hex: N bytes)"},
    {"--offset", "N", size, QUERY(offset), QUERY(has_offset), "a number of bytes",
     "begin N bytes into the buffer; K M G T are powers of 1000, Ki Mi Gi Ti of 1024"},
    {"--length", "N", size, QUERY(length), QUERY(has_length), "a number of bytes",
     "only N bytes; default: up to the end"},
    {"--stats", "", flag, QUERY(stats), 0, "",
     "print minimum, maximum, mean, and numbers of zeros and NaNs"},
    {"--plot", "", flag, QUERY(plot), 0, "",
     "draw a histogram, and the means along the first axis"},
    {"--sha256", "", flag, QUERY(sha256), 0, "", "print the SHA-256 of the bytes"},
    {"--rate", "", flag, COPY(rate), 0, "",
     "print how long the copy took, not counting CUDA's start and the pinning of memory"},
    {"--wait", "SECONDS", seconds, COPY(wait_ms), 0, "seconds",
     "wait up to SECONDS for NAME to appear"},
    {"--wait-for", "SEQ", publication, COPY(wait_for), 0, "a publication's number, from 1 on",
     "begin with publication SEQ, or a later one"},
    {"--timeout", "SECONDS", seconds, COPY(timeout_ms), COPY(has_timeout), "seconds",
     "wait up to SECONDS for a publication"},
    {"--device", "N", device, COPY(device), 0, "the number of a GPU",
     "create the buffers on that GPU"},
    {"--mode", "OCTAL", mode, COPY(mode), 0, "octal digits of read and write bits, such as 640",
     "permission bits, such as 640; default: as in the source (pull: without the group's)"},
    {"--group", "GROUP", text, COPY(group), 0, "",
     "the group of the new buffers, by name or number"},
    {"--diff", "PATH", text, QUERY(diff), 0, "",
     "compare with a file, or with a set: 'gpushare diff'"},
    {"--follow", "", flag, AT(follows), 0, "", "get each publication, until the owner has ended"},
    {"--into", "FILE", text, COPY(input), 0, "",
     "copy FILE into the buffer as it is: 'gpushare put'"},
    {"--in", "FILE", text, COPY(input), 0, "",
     "copy the array of a .npy file into the buffer: 'gpushare put'"},
    {"--restore", "PATH", text, COPY(input), 0, "",
     "create buffers from a set or a file: 'gpushare restore'"},
    {"--listen", "ADDRESS", text, AT(listen), 0, "",
     "listen there: tls://HOST:PORT or tcp://HOST:PORT; default: tls://0.0.0.0:7411"},
    {"--tls", "DIR", directory, AT(tls), 0, "a directory",
     "where ca.pem and node.pem (certificate and key) are; default: ~/.config/gpushare"},
    {"--trusted-network", "IFACE", text, AT(trusted), 0, "",
     "trust everybody on this interface's network: allow UCX and tcp:// there"},
    {"--announce", "ADDRESS", text, AT(announce), 0, "",
     "the node's address in the etcd; default: --listen's, with the host's name for 0.0.0.0"},
    {"--as", "NODE", text, AT(as), 0, "",
     "the node's name in the etcd; default: the host's, up to the first dot"},
    {"--as", "NAME", text, AT(as), 0, "", "name of the copy; default: the name on the node"},
    {"--via", "NODE", text, AT(via), 0, "",
     "if NODE has a copy of the same version, read that copy"},
    {"--readonly", "", flag, COPY(readonly), 0, "", "other processes may only read the copies"},
    {"--tag", "KEY=VALUE", tag, AT(tags), 0, "KEY=VALUE, up to 4 times",
     "set this tag too; may be repeated"},
    {"--nodes", "", flag, AT(nodes), 0, "", "list the buffers of all nodes in $GPUSHARE_NODES"},
    {"--force", "", flag, AT(force), 0, "", "with stop: even if kept buffers would be lost"},
    {"--json", "", flag, AT(json), 0, "", "print JSON, with every field"},
    {"--dir", "DIR", directory, AT(directory), 0, "a directory",
     "the registry's directory; default: $GPUSHARE_DIR, else see gpushare(7)"},
    {NULL, NULL, NULL, 0, 0, NULL, NULL},
};

bool options_have(const struct options *options, const char *name)
{
	for (size_t i = 0; option_lines[i].name; i++)
		if (options->given & UINT64_C(1) << i && !strcmp(option_lines[i].name, name))
			return true;
	return false;
}

bool option_is_of(const struct option_line *line, const char *usage)
{
	struct usage_word word;

	return usage_find(usage, line->name, &word) && !strcmp(word.argument, line->argument);
}

/* Fill getopt_long()'s tables with the options in the usage text. The value of a long option is
 * FIRST plus its index in option_lines. */
static void make_table(const char *usage, struct option *table, char *letters)
{
	if (usage_find(usage, "--", NULL))
		*letters++ = '+'; /* stop at the first operand: the rest is another program's */
	for (int i = 0; option_lines[i].name; i++) {
		const char *name = option_lines[i].name;
		int has = *option_lines[i].argument ? required_argument : no_argument;

		if (!option_is_of(&option_lines[i], usage))
			continue;
		if (name[1] != '-')
			letters += sprintf(letters, "%c%s", name[1], has ? ":" : "");
		if (name[1] == '-' || !strcmp(name, "-o"))
			*table++ = (struct option){name[1] == '-' ? name + 2 : "output", has, NULL,
						   FIRST + i};
	}
	*table = (struct option){"help", no_argument, NULL, 'h'};
	strcpy(letters, "h");
}

static const struct option_line *find_letter(int letter, const char *usage)
{
	const struct option_line *line = option_lines;

	while (line->name[1] != letter || !option_is_of(line, usage))
		line++;
	return line;
}

int options_parse(int argc, char **argv, struct options *out)
{
	struct option table[OPTIONS_MAX] = {{NULL, 0, NULL, 0}};
	char letters[2 * OPTIONS_MAX], *to = (char *)out;
	const char *usage = verb_find(argv[0])->usage;
	int option;

	*out = (struct options){.top.interval_ms = INTERVAL_MS, .copy.device = -1};
	make_table(usage, table, letters);
	while ((option = tool_getopt(argc, argv, letters, table)) != -1) {
		const struct option_line *line;

		if (option == 'h')
			return verb_help(argv[0]);
		if (option == '?')
			return TOOL_USAGE;
		line = option < FIRST ? find_letter(option, usage) : &option_lines[option - FIRST];
		out->given |= UINT64_C(1) << (line - option_lines);
		if (line->mark)
			*(bool *)(to + line->mark) = true;
		if (!line->parse(optarg, to + line->at))
			return tool_usage("%s wants %s, not '%s'", line->name, line->wants, optarg);
	}
	return -1;
}

int options_parse_glob(int argc, char **argv, struct options *out)
{
	int code = options_parse(argc, argv, out);

	if (code < 0 && argc - optind > 1)
		return tool_usage(
		    "one GLOB at a time; quote it, so that the shell does not expand it");
	out->glob = argv[optind];
	return code;
}
