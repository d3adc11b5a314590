/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DIGEST_H
#define GPUSHARE_TOOLS_DIGEST_H
/* SHA-256 as text. */
#include <nettle/sha2.h>
#include <stdbool.h>

#define DIGEST_TEXT_MAX (2 * SHA256_DIGEST_SIZE + 1) /* hex, NUL included */

/* End the digest, begun and fed by nettle's functions, and write it as hex. */
void digest_end(struct sha256_ctx *digest, char out[DIGEST_TEXT_MAX]);
/* Whether the text is 64 hexadecimal digits, as digest_end() writes them. */
bool digest_is_valid(const char *text);

#endif
