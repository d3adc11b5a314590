/* SPDX-License-Identifier: MIT */
#include "digest.h"

#include <stdio.h>
#include <string.h>

void digest_begin(struct digest *digest)
{
	sha256_init(&digest->context);
}

void digest_add(struct digest *digest, const void *data, size_t size)
{
	sha256_update(&digest->context, size, data);
}

void digest_end(struct digest *digest, char out[DIGEST_TEXT_MAX])
{
	unsigned char bytes[SHA256_DIGEST_SIZE];

	sha256_digest(&digest->context, sizeof(bytes), bytes);
	for (size_t i = 0; i < sizeof(bytes); i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
}

bool digest_is_valid(const char *text)
{
	return strlen(text) == DIGEST_TEXT_MAX - 1 &&
	       strspn(text, "0123456789abcdef") == DIGEST_TEXT_MAX - 1;
}
