/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DIGEST_H
#define GPUSHARE_TOOLS_DIGEST_H
/* SHA-256 of a stream of bytes. */
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>

#define DIGEST_TEXT_MAX (2 * SHA256_DIGEST_SIZE + 1) /* hex, NUL included */

struct digest {
	struct sha256_ctx context;
};

void digest_begin(struct digest *digest);
void digest_add(struct digest *digest, const void *data, size_t size);
/* Write the digest as hex. Before the next use call digest_begin(). */
void digest_end(struct digest *digest, char out[DIGEST_TEXT_MAX]);
/* 64 hexadecimal digits, as digest_end() writes them. */
bool digest_is_valid(const char *text);

#endif
