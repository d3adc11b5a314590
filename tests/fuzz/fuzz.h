/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
/* What the fuzzers share: an input that is used up byte by byte, and what must hold. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libFuzzer calls, and replay.c. */
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

/* All zero past the end. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *from)
{
	if (!from->left)
		return 0;
	from->left--;
	return *from->at++;
}

/* The next `size` bytes, or fewer where there are no more: how many is in *out_size. */
static inline const uint8_t *fuzz_take(struct fuzz_bytes *from, size_t size, size_t *out_size)
{
	const uint8_t *taken = from->at;

	*out_size = size < from->left ? size : from->left;
	from->at += *out_size;
	from->left -= *out_size;
	return taken;
}

/* A size in two bytes, then so many. */
static inline const uint8_t *fuzz_block(struct fuzz_bytes *from, size_t *out_size)
{
	size_t size = fuzz_byte(from);

	size |= (size_t)fuzz_byte(from) << 8;
	return fuzz_take(from, size, out_size);
}

#endif
