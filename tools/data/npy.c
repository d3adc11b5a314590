/* SPDX-License-Identifier: MIT */
#include "npy.h"

#include <inttypes.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char magic[] = "\x93NUMPY";
#define MAGIC_SIZE (sizeof(magic) - 1)
/* where the dictionary begins in version 1.0: after magic, version, length */
#define BEGIN (MAGIC_SIZE + 4)

/* ENTRY matches one entry of the dictionary. Its groups: the value as DESCR, ORDER or SHAPE,
 * depending on the key; END, the characters after the value. */
enum { DESCR = 2, ORDER, SHAPE, END, GROUPS };
#define ENTRY \
	"^ *['\"](descr['\"] *: *['\"]([^'\"]*)['\"]|fortran_order['\"] *: *(True|False)|" \
	"shape['\"] *: *(\\([0-9, ]*\\))) *(,|,? *})"

#define refuse(...) (say_why(__VA_ARGS__), false)
__attribute__((format(printf, 2, 3))) static void say_why(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, NPY_WHY_MAX, format, arguments);
	va_end(arguments);
}

bool npy_is(const void *data, size_t size)
{
	return size >= MAGIC_SIZE && !memcmp(data, magic, MAGIC_SIZE);
}

/* Compare types. The byte order may be '<', '=' (native, so little-endian) or '|' (none), and for
 * elements of one byte also '>'. */
static bool descr_is(const char *descr, const char *ours)
{
	return !strcmp(descr + 1, ours + 1) && (*descr == '<' || *descr == '=' || *descr == '|' ||
						(*descr == '>' && !strcmp(descr + 2, "1")));
}

static bool read_descr(char *descr, struct npy *npy, char *why)
{
	for (int i = DTYPE_NONE + 1; *descr && i < DTYPE_COUNT; i++)
		if (descr_is(descr, dtype_traits((enum dtype)i)->descr)) {
			npy->dtype = (enum dtype)i;
			return true;
		}
	for (char *c = descr; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return refuse(why, "its elements are '%.16s', which is not a known type%s", descr,
		      *descr == '>' ? " (big-endian)" : "");
}

/* Find the values of the three keys, and end each value with a NUL. */
static bool find_values(const regex_t *entry, char *at, char *values[GROUPS], char *why)
{
	regmatch_t found[GROUPS];
	bool good = *at++ == '{', last = false;

	while (good && !last) {
		good = !regexec(entry, at, GROUPS, found, 0);
		if (!good)
			break;
		last = at[found[END].rm_eo - 1] == '}';
		for (int i = DESCR; i <= SHAPE; i++) {
			if (found[i].rm_so < 0)
				continue;
			if (values[i])
				return refuse(why, "its header has the same key twice");
			values[i] = at + found[i].rm_so;
			at[found[i].rm_eo] = '\0';
		}
		at += found[END].rm_eo;
	}
	if (!good || at[strspn(at, " ")])
		return refuse(why, "its elements are structures, or its header is not a dictionary "
				   "as NumPy writes it");
	if (!values[DESCR] || !values[ORDER] || !values[SHAPE])
		return refuse(why, "its header lacks descr, fortran_order or shape");
	return true;
}

static bool read_dictionary(char *text, struct npy *npy, char *why)
{
	char *values[GROUPS] = {NULL};
	regex_t entry;
	bool good;

	if (regcomp(&entry, ENTRY, REG_EXTENDED))
		return refuse(why, "no memory for its header");
	good = find_values(&entry, text + strspn(text, " "), values, why);
	regfree(&entry);
	if (!good || !read_descr(values[DESCR], npy, why))
		return false;
	if (!shape_parse(values[SHAPE], &npy->shape))
		return refuse(why, "its shape is not valid, or has over %d dimensions",
			      SHAPE_RANK_MAX);
	if (*values[ORDER] == 'T' && npy->shape.rank > 1)
		return refuse(why,
			      "it is in Fortran order: convert it with numpy.ascontiguousarray()");
	return true;
}

/* Find the dictionary, which is the last part of the header. */
static bool find_text(const unsigned char *data, size_t size, size_t *out_begin, size_t *out_end,
		      char *why)
{
	size_t begin, length;

	if (!npy_is(data, size))
		return refuse(why, "it is not a .npy file");
	if (size < BEGIN)
		return refuse(why, "it ends within its header");
	if (data[6] < 1 || data[6] > 3 || data[7])
		return refuse(why, "its version is %u.%u, but only 1.0 to 3.0 are known", data[6],
			      data[7]);
	begin = data[6] == 1 ? BEGIN : BEGIN + 2;
	if (size < begin)
		return refuse(why, "it ends within its header");
	length = data[8] | (size_t)data[9] << 8;
	if (data[6] > 1)
		length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
	if (length > NPY_HEADER_MAX - begin)
		return refuse(why, "its header has %zu bytes, but the limit is %zu", length,
			      NPY_HEADER_MAX - begin);
	if (length > size - begin)
		return refuse(why, "it ends within its header");
	*out_begin = begin;
	*out_end = begin + length;
	return true;
}

bool npy_parse(const void *data, size_t size, struct npy *out, char why[NPY_WHY_MAX])
{
	struct npy npy = {.dtype = DTYPE_NONE};
	_cleanup_free_ char *text = NULL;
	size_t begin = 0;

	*why = '\0';
	if (!find_text(data, size, &begin, &npy.header_size, why))
		return false;
	text = strndup((const char *)data + begin, npy.header_size - begin);
	if (!text)
		return refuse(why, "no memory for its header");
	for (size_t i = 0; text[i]; i++)
		if (text[i] == '\n' || text[i] == '\t')
			text[i] = ' ';
	if (strlen(text) < npy.header_size - begin)
		return refuse(why, "its header has a NUL");
	if (!read_dictionary(text, &npy, why))
		return false;
	if (!shape_size(&npy.shape, dtype_traits(npy.dtype)->size, &npy.data_size))
		return refuse(why, "its shape is larger than any memory");
	*out = npy;
	return true;
}

size_t npy_format(enum dtype dtype, const struct shape *shape, size_t align, char *out)
{
	char tuple[SHAPE_TEXT_MAX * 2] = "";
	size_t used = 0, size, length;

	for (int i = 0; i < shape->rank; i++)
		used +=
		    (size_t)snprintf(tuple + used, sizeof(tuple) - used, "%s%" PRIu64 "%s",
				     i ? ", " : "", shape->extent[i], shape->rank == 1 ? "," : "");
	length = (size_t)snprintf(out + BEGIN, NPY_FORMAT_MAX - BEGIN,
				  "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
				  dtype_traits(dtype)->descr, tuple);
	size = (BEGIN + length + 1 + align - 1) / align * align;
	memset(out + BEGIN + length, ' ', size - BEGIN - length);
	out[size - 1] = '\n';
	memcpy(out, magic, MAGIC_SIZE);
	out[6] = 1;
	out[7] = 0;
	out[8] = (char)((size - BEGIN) & 255);
	out[9] = (char)((size - BEGIN) >> 8);
	return size;
}
