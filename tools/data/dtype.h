/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DTYPE_H
#define GPUSHARE_TOOLS_DTYPE_H
/* Element types: their names, sizes, and their values as numbers and as text. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype_kind {
	DTYPE_SIGNED,
	DTYPE_UNSIGNED,
	DTYPE_REAL,
	DTYPE_TRUTH,
};

/*
 * X(id, short name, NumPy's name, NPY descr, bytes, kind, width of the longest text). NumPy has no
 * bfloat16: a .npy file has it as two raw bytes, "<V2", as numpy.save() writes ml_dtypes' bfloat16.
 */
#define DTYPES(X) \
	X(F16, "f16", "float16", "<f2", 2, REAL, 11) \
	X(BF16, "bf16", "bfloat16", "<V2", 2, REAL, 10) \
	X(F32, "f32", "float32", "<f4", 4, REAL, 15) \
	X(F64, "f64", "float64", "<f8", 8, REAL, 24) \
	X(I8, "i8", "int8", "|i1", 1, SIGNED, 4) \
	X(U8, "u8", "uint8", "|u1", 1, UNSIGNED, 3) \
	X(I16, "i16", "int16", "<i2", 2, SIGNED, 6) \
	X(U16, "u16", "uint16", "<u2", 2, UNSIGNED, 5) \
	X(I32, "i32", "int32", "<i4", 4, SIGNED, 11) \
	X(U32, "u32", "uint32", "<u4", 4, UNSIGNED, 10) \
	X(I64, "i64", "int64", "<i8", 8, SIGNED, 20) \
	X(U64, "u64", "uint64", "<u8", 8, UNSIGNED, 20) \
	X(BOOL, "bool", "bool", "|b1", 1, TRUTH, 5)

enum dtype {
	DTYPE_NONE,
#define X(id, ...) DTYPE_##id,
	DTYPES(X)
#undef X
	    DTYPE_COUNT
};

#define DTYPE_SIZE_MAX 8  /* bytes of an element */
#define DTYPE_TEXT_MAX 32 /* room for the text of a value, NUL included */

struct dtype_traits {
	const char *alias; /* "f32" */
	const char *name;  /* "float32" */
	const char *descr; /* "<f4" */
	size_t size;
	enum dtype_kind kind;
	int width;
};

/* `dtype` must not be DTYPE_NONE. */
const struct dtype_traits *dtype_traits(enum dtype dtype);
/* Parse an alias, a name, or PyTorch's name ("torch.float32"). Other texts give DTYPE_NONE. */
enum dtype dtype_parse(const char *text);

/* The element at `data`, aligned or not, as a number. Integers above 2^53 are rounded. */
double dtype_real(enum dtype dtype, const void *data);
/* Format the element at `data`. A real gets enough digits to read the same value back. */
void dtype_text(enum dtype dtype, const void *data, char out[DTYPE_TEXT_MAX]);

static inline float dtype_from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* IEEE 754 binary16 */
static inline float dtype_half(uint16_t bits)
{
	uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
	uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;

	if (exponent == 31)
		return dtype_from_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent)
		return dtype_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
}

/* bfloat16: a float's upper half */
static inline float dtype_brain(uint16_t bits)
{
	return dtype_from_bits((uint32_t)bits << 16);
}

#endif
