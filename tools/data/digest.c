/* SPDX-License-Identifier: MIT */
#include "digest.h"

#include <stdio.h>
#include <string.h>

void digest_end(struct sha256_ctx *digest, char out[DIGEST_TEXT_MAX])
{
	unsigned char bytes[SHA256_DIGEST_SIZE];

	sha256_digest(digest, sizeof(bytes), bytes);
	for (size_t i = 0; i < sizeof(bytes); i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
}

bool digest_is_valid(const char *text)
{
	return strlen(text) == DIGEST_TEXT_MAX - 1 &&
	       strspn(text, "0123456789abcdef") == DIGEST_TEXT_MAX - 1;
}
