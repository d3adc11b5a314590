// SPDX-License-Identifier: MIT
/* Names that a client has made to fall together do not: hash.c. */
#include "unit.h"

#include "os/hash.h"
#include "peer.h"

/* One of each row, behind each other: uthash's own function, which has no key, is in the same state after
 * each row, whichever was taken. Found in seconds, by going backwards through it. */
#define ROWS 3
#define WAYS 8
static const char *const parts[ROWS][WAYS] = {
    {
	"MA0NcCBeQXs1tIirqXvvIy1h",
	"KhG2.Vmaa_Vftx6sZUgt_Rkh",
	"zNvOJtiJLHZ4k5dj-q5h3o2_",
	".WDCzyM2z.Zte4dLtmanf7Mt",
	"vrCJeRa33c2FXgTQJZFpqVKy",
	"vSHaseye18P7bonTI5i8IAod",
	"1tQMJVcrHVHAGDnAmjDkPqKx",
	"kBIHCvZL9l02WZ_v3e9WS5NT",
    },
    {
	"HOd8lIg-WlfAaGYXHSHwb.Jn",
	"srPFXRkNyEQUmtwtUrMo9BqB",
	".8XZ_HAfE3D9dvPiOB.rS8pv",
	"hidbz74CcH4cJ5tKHS_KyLT0",
	"wuHQoyC667jhUHJcYrngQ3FK",
	"Tl-GSeIToXhJOKHXFOZMLJSf",
	"b1wK-or4KqZdbnG9gcp07Ekm",
	"wHlmFu-nb6LgiSQ-iCC8Bzwq",
    },
    {
	"NU0wbmg89UiihdXq9rIWJeTc",
	"p9r5j7Shnoy1zsooce0YfHgP",
	"rrxdIlFdPEjc4M582kLEkRaT",
	"PjB..nfFrI4XppKfwlF4lvjL",
	"mDvJGrwUZxF6b6T3y13mEl87",
	"aW0terZwozsOTw9IDePh9_4s",
	"L7qDcom0WXcg7cZKEGAhwQm6",
	"7CdFVSUVODNzz1YbbIeG6sZR",
    },
};
#define MADE (WAYS * WAYS * WAYS)
#define OTHERS 2000

static void made_name(int number, char out[GPUSHARE_NAME_MAX + 1])
{
	*out = '\0';
	for (int row = 0; row < ROWS; row++, number /= WAYS)
		strcat(out, parts[row][number % WAYS]);
}

static void those_of_the_attack_are_ones(void **state)
{
	char name[GPUSHARE_NAME_MAX + 1];
	unsigned int first = 0, hash;

	for (int i = 0; i < MADE; i++) {
		made_name(i, name);
		HASH_JEN(name, strlen(name), hash);
		first = i ? first : hash;
		assert_int_equal(hash, first);
	}
}

#define BUCKETS 512

/* 20 in one of 512 buckets by chance: one of 10^11 runs. */
static void no_bucket_is_a_clients_to_choose(void **state)
{
	char name[GPUSHARE_NAME_MAX + 1];
	unsigned int count[BUCKETS] = {0};

	for (int i = 0; i < MADE; i++) {
		made_name(i, name);
		assert_in_range(++count[hash_of(name, strlen(name)) % BUCKETS], 1, 20);
	}
}

/* What the registry hashes: small numbers, one behind the other. */
static void numbers_in_a_row_fall_apart(void **state)
{
	unsigned int count[BUCKETS] = {0};

	for (uint64_t i = 0; i < BUCKETS; i++) {
		unsigned int hash = hash_of(&i, sizeof(i));

		assert_in_range(++count[hash % BUCKETS], 1, 15);
	}
}

UNIT_MAIN(UNIT(those_of_the_attack_are_ones), UNIT(no_bucket_is_a_clients_to_choose),
	  UNIT(numbers_in_a_row_fall_apart))
