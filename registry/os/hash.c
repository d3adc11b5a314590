/* SPDX-License-Identifier: MIT */
/*
 * The hash that Go and wyhash use for short keys: a number XOR a secret is multiplied, and the
 * halves of the 128-bit product are XORed. uthash's own function has no secret, and clients that
 * resync choose generations. With a few dozen generations in one bucket, uthash would never let the
 * table grow again.
 */
#include "os/hash.h"

#include <string.h>
#include <sys/random.h>

static uint64_t secret[3];

__attribute__((constructor)) static void make_secret(void)
{
	(void)!getrandom(secret, sizeof(secret), 0);
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

unsigned int hash_of(const void *number, size_t size)
{
	uint64_t word = 0;

	memcpy(&word, number, size);
	word = fold(word ^ secret[1], size ^ secret[2]);
	return (unsigned int)fold(word ^ secret[0], UINT64_C(0x9e3779b97f4a7c15));
}
