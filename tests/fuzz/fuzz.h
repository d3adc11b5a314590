/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
/* Shared by the fuzzers: an input that is consumed byte by byte, and FUZZ_MUST(). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Called by libFuzzer or by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_MUST(condition) \
	((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, __func__, #condition))

static inline void fuzz_fail(const char *file, int line, const char *function, const char *what)
{
	fprintf(stderr, "%s:%d: %s: this does not hold: %s\n", file, line, function, what);
	abort();
}

struct fuzz_bytes {
	const uint8_t *at;
	size_t left;
};

/* Return 0 past the end. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *from)
{
	if (!from->left)
		return 0;
	from->left--;
	return *from->at++;
}

/* Take the next `size` bytes, or as many as are left. *out_size is their count. */
static inline const uint8_t *fuzz_take(struct fuzz_bytes *from, size_t size, size_t *out_size)
{
	const uint8_t *taken = from->at;

	*out_size = size < from->left ? size : from->left;
	from->at += *out_size;
	from->left -= *out_size;
	return taken;
}

/* Take a size of two bytes, then as many bytes as it says. */
static inline const uint8_t *fuzz_block(struct fuzz_bytes *from, size_t *out_size)
{
	size_t size = fuzz_byte(from);

	size |= (size_t)fuzz_byte(from) << 8;
	return fuzz_take(from, size, out_size);
}

#endif
