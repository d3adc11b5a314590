/* SPDX-License-Identifier: MIT */
#include "dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a GPU's elements are little-endian"
#endif

static const struct dtype_traits all[DTYPE_COUNT] = {
#define X(id, alias, name, descr, size, kind, width) \
	[DTYPE_##id] = {alias, name, descr, size, DTYPE_##kind, width},
    DTYPES(X)
#undef X
};

const struct dtype_traits *dtype_traits(enum dtype dtype)
{
	return &all[dtype];
}

enum dtype dtype_parse(const char *text)
{
	static const char torch[] = "torch.";

	if (!strncmp(text, torch, strlen(torch)))
		text += strlen(torch);
	for (int i = DTYPE_NONE + 1; i < DTYPE_COUNT; i++)
		if (!strcmp(text, all[i].alias) || !strcmp(text, all[i].name))
			return (enum dtype)i;
	return DTYPE_NONE;
}

static uint64_t dtype_unsigned(enum dtype dtype, const void *data)
{
	uint64_t value = 0;

	memcpy(&value, data, all[dtype].size);
	return dtype == DTYPE_BOOL ? value != 0 : value;
}

/* Extend the sign to 64 bits, by an arithmetic shift to the right. */
static int64_t dtype_signed(enum dtype dtype, const void *data)
{
	size_t unused = 64 - 8 * all[dtype].size;

	return (int64_t)(dtype_unsigned(dtype, data) << unused) >> unused;
}

double dtype_real(enum dtype dtype, const void *data)
{
	uint16_t half;
	float single;
	double value;

	switch (dtype) {
	case DTYPE_F16:
		memcpy(&half, data, sizeof(half));
		return (double)dtype_half(half);
	case DTYPE_BF16:
		memcpy(&half, data, sizeof(half));
		return (double)dtype_brain(half);
	case DTYPE_F32:
		memcpy(&single, data, sizeof(single));
		return (double)single;
	case DTYPE_F64:
		memcpy(&value, data, sizeof(value));
		return value;
	default:
		return all[dtype].kind == DTYPE_SIGNED ? (double)dtype_signed(dtype, data)
						       : (double)dtype_unsigned(dtype, data);
	}
}

static void real_text(enum dtype dtype, double value, char out[DTYPE_TEXT_MAX])
{
	/* `most` digits distinguish any two values. Fewer often suffice: begin with `digits`. */
	int most = dtype == DTYPE_F16 ? 5 : dtype == DTYPE_BF16 ? 4 : dtype == DTYPE_F32 ? 9 : 17;
	int digits = dtype == DTYPE_F32 ? 6 : dtype == DTYPE_F64 ? 15 : most;

	if (isnan(value)) {
		strcpy(out, "nan"); /* a NaN's sign means nothing */
		return;
	}
	for (;; digits++) {
		snprintf(out, DTYPE_TEXT_MAX, "%.*g", digits, value);
		if (digits >= most ||
		    (dtype == DTYPE_F32 ? (double)strtof(out, NULL) : strtod(out, NULL)) == value)
			return;
	}
}

void dtype_text(enum dtype dtype, const void *data, char out[DTYPE_TEXT_MAX])
{
	switch (all[dtype].kind) {
	case DTYPE_REAL:
		real_text(dtype, dtype_real(dtype, data), out);
		return;
	case DTYPE_SIGNED:
		snprintf(out, DTYPE_TEXT_MAX, "%" PRId64, dtype_signed(dtype, data));
		return;
	case DTYPE_TRUTH:
		strcpy(out, dtype_unsigned(dtype, data) ? "true" : "false");
		return;
	default:
		snprintf(out, DTYPE_TEXT_MAX, "%" PRIu64, dtype_unsigned(dtype, data));
	}
}
