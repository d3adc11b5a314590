/* SPDX-License-Identifier: MIT */
/* SipHash-1-3, by a key that nobody outside knows: who chooses names chooses no bucket. With uthash's own,
 * which has no key, a few dozen names that a client has made for it would stop the table's growing, for
 * everybody and for good. */
#include "os/hash.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t key[2];

/* Before any thread. Without the kernel's numbers, which lack in the first moments after a boot at most,
 * something that is hard to guess. */
__attribute__((constructor)) static void hash_begin(void)
{
	struct timespec now = {0};

	if (getrandom(key, sizeof(key), GRND_NONBLOCK) == (ssize_t)sizeof(key))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	key[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
	key[1] = (uint64_t)(uintptr_t)&now ^ (uint64_t)(uintptr_t)hash_begin << 24;
}

static uint64_t turned(uint64_t value, int by)
{
	return value << by | value >> (64 - by);
}

static void stir(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = turned(v[1], 13) ^ v[0];
	v[0] = turned(v[0], 32);
	v[2] += v[3];
	v[3] = turned(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = turned(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = turned(v[1], 17) ^ v[2];
	v[2] = turned(v[2], 32);
}

static void take(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	stir(v);
	v[0] ^= word;
}

uint64_t hash_keyed(const uint64_t by[2], const void *bytes, size_t length)
{
	uint64_t v[4] = {
	    by[0] ^ UINT64_C(0x736f6d6570736575),
	    by[1] ^ UINT64_C(0x646f72616e646f6d),
	    by[0] ^ UINT64_C(0x6c7967656e657261),
	    by[1] ^ UINT64_C(0x7465646279746573),
	};
	const unsigned char *at = bytes;
	uint64_t word, last = (uint64_t)length << 56;

	for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		take(v, word);
	}
	word = 0;
	memcpy(&word, at, length);
	take(v, last | word);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		stir(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

unsigned int hash_of(const void *bytes, size_t length)
{
	return (unsigned int)hash_keyed(key, bytes, length);
}
