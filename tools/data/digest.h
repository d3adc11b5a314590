/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DIGEST_H
#define GPUSHARE_TOOLS_DIGEST_H
/* SHA-256 as text. */
#include <nettle/base16.h>
#include <nettle/sha2.h>

#define DIGEST_TEXT_MAX (2 * SHA256_DIGEST_SIZE + 1) /* hex, NUL included */

/* End a digest that nettle's functions began and updated, and write it as hex. */
static inline void digest_end(struct sha256_ctx *digest, char out[DIGEST_TEXT_MAX])
{
	unsigned char bytes[SHA256_DIGEST_SIZE];

	sha256_digest(digest, sizeof(bytes), bytes);
	base16_encode_update(out, sizeof(bytes), bytes);
	out[DIGEST_TEXT_MAX - 1] = '\0';
}

#endif
