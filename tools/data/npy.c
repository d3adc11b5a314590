/* SPDX-License-Identifier: MIT */
#include "npy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
#define MAGIC_SIZE (sizeof(magic) - 1)
/* where the dictionary begins in version 1.0: after magic, version, length */
#define BEGIN (MAGIC_SIZE + 4)
#define DESCR_MAX 16

/* The dictionary being parsed. `at` never passes `end`. */
struct text {
	const char *at;
	const char *end;
	char *why;
};

__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, NPY_WHY_MAX, format, arguments);
	va_end(arguments);
	return false;
}

bool npy_is(const void *data, size_t size)
{
	return size >= MAGIC_SIZE && !memcmp(data, magic, MAGIC_SIZE);
}

static char peek(struct text *text)
{
	while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\t'))
		text->at++;
	return text->at < text->end ? *text->at : '\0';
}

static bool take(struct text *text, char wanted)
{
	if (peek(text) != wanted)
		return refuse(text->why, "its header is no dictionary as NumPy writes it");
	text->at++;
	return true;
}

static bool take_word(struct text *text, const char *word)
{
	size_t size = strlen(word);

	peek(text);
	if ((size_t)(text->end - text->at) < size || memcmp(text->at, word, size) != 0)
		return false;
	text->at += size;
	return true;
}

/* 'abc' or "abc", without escapes. */
static bool take_string(struct text *text, char out[DESCR_MAX])
{
	char quote = peek(text);
	const char *from = text->at + 1, *to;
	size_t size;

	if (quote != '\'' && quote != '"')
		return refuse(text->why, "its header has no string where one belongs");
	to = memchr(from, quote, (size_t)(text->end - from));
	size = to ? (size_t)(to - from) : DESCR_MAX;
	if (size >= DESCR_MAX || memchr(from, '\\', size) || memchr(from, '\0', size))
		return refuse(text->why, "a string of its header has no end, or is too long");
	memcpy(out, from, size);
	out[size] = '\0';
	text->at = to + 1;
	return true;
}

/* Compare types. Accepts '<', '=' (native, little-endian here) and '|' (no byte order). Accepts
 * '>' for one-byte elements only, which have no byte order. */
static bool descr_is(const char *descr, const char *ours)
{
	return !strcmp(descr + 1, ours + 1) && (*descr == '<' || *descr == '=' || *descr == '|' ||
						(*descr == '>' && !strcmp(descr + 2, "1")));
}

static bool take_descr(struct text *text, struct npy *npy)
{
	char descr[DESCR_MAX] = "";

	if (peek(text) == '[')
		return refuse(text->why, "its elements are structures");
	if (!take_string(text, descr))
		return false;
	for (int i = DTYPE_NONE + 1; *descr && i < DTYPE_COUNT; i++)
		if (descr_is(descr, dtype_traits((enum dtype)i)->descr)) {
			npy->dtype = (enum dtype)i;
			return true;
		}
	for (char *c = descr; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return refuse(text->why, "its elements are '%s', which is none of the known types%s", descr,
		      *descr == '>' ? " (the bytes are in the other order)" : "");
}

static bool take_shape(struct text *text, struct npy *npy)
{
	struct shape *shape = &npy->shape;

	*shape = (struct shape){.rank = 0};
	if (!take(text, '('))
		return false;
	while (peek(text) != ')') {
		uint64_t value = 0;
		const char *from = text->at;

		for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
			if (__builtin_mul_overflow(value, 10, &value) ||
			    __builtin_add_overflow(value, (uint64_t)(*text->at - '0'), &value))
				return refuse(text->why, "an extent of its shape is too large");
		if (text->at == from)
			return refuse(text->why, "its shape is not valid");
		if (shape->rank == SHAPE_RANK_MAX)
			return refuse(text->why, "its shape has over %d dimensions",
				      SHAPE_RANK_MAX);
		shape->extent[shape->rank++] = value;
		if (peek(text) != ')' && !take(text, ','))
			return false;
	}
	text->at++;
	return true;
}

static bool take_dictionary(struct text *text, struct npy *npy)
{
	enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 } key;
	int seen = 0;
	bool fortran = false, good;

	if (!take(text, '{'))
		return false;
	while (peek(text) != '}') {
		char name[DESCR_MAX];

		if (!take_string(text, name) || !take(text, ':'))
			return false;
		key = !strcmp(name, "descr")	       ? DESCR
		      : !strcmp(name, "fortran_order") ? ORDER
		      : !strcmp(name, "shape")	       ? SHAPE
						       : 0;
		if (!key || (seen & key))
			return refuse(text->why, "its header has a key too many");
		seen |= key;
		if (key == DESCR)
			good = take_descr(text, npy);
		else if (key == SHAPE)
			good = take_shape(text, npy);
		else
			good = (fortran = take_word(text, "True")) || take_word(text, "False") ||
			       refuse(text->why, "its fortran_order is neither True nor False");
		if (!good || (peek(text) != '}' && !take(text, ',')))
			return false;
	}
	text->at++;
	if (seen != ALL)
		return refuse(text->why, "its header lacks descr, fortran_order or shape");
	if (peek(text))
		return refuse(text->why, "its header has something behind the dictionary");
	if (fortran && npy->shape.rank > 1)
		return refuse(text->why, "it is in Fortran order: numpy.ascontiguousarray() first");
	return true;
}

static bool find_text(const unsigned char *data, size_t size, struct text *text)
{
	size_t begin, length;

	if (!npy_is(data, size))
		return refuse(text->why, "it is no .npy file");
	if (size < BEGIN)
		return refuse(text->why, "it ends in its header");
	if (data[6] < 1 || data[6] > 3 || data[7])
		return refuse(text->why, "it is of version %u.%u, and 1.0 to 3.0 are known",
			      data[6], data[7]);
	begin = data[6] == 1 ? BEGIN : BEGIN + 2;
	if (size < begin)
		return refuse(text->why, "it ends in its header");
	length = data[8] | (size_t)data[9] << 8;
	if (data[6] > 1)
		length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
	if (length > NPY_HEADER_MAX - begin)
		return refuse(text->why, "its header has %zu bytes, and %zu is the limit", length,
			      NPY_HEADER_MAX - begin);
	if (length > size - begin)
		return refuse(text->why, "it ends in its header");
	text->at = (const char *)data + begin;
	text->end = text->at + length;
	return true;
}

bool npy_parse(const void *data, size_t size, struct npy *out, char why[NPY_WHY_MAX])
{
	struct npy npy = {.dtype = DTYPE_NONE};
	struct text text = {.why = why};

	*why = '\0';
	if (!find_text(data, size, &text))
		return false;
	npy.header_size = (size_t)(text.end - (const char *)data);
	if (!take_dictionary(&text, &npy))
		return false;
	if (!shape_size(&npy.shape, dtype_traits(npy.dtype)->size, &npy.data_size))
		return refuse(why, "its shape has more elements than there can be");
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
