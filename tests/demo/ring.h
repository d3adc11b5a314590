/* SPDX-License-Identifier: MIT */
#ifndef TESTS_DEMO_RING_H
#define TESTS_DEMO_RING_H
/* Layout of the ring for producer and consumer: frame n lies in slot (n - 1) % SLOTS. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 4
#define WORDS 512

struct frame {
	uint64_t number;
	uint64_t words[WORDS];
	uint64_t checksum;
};

static inline size_t frame_offset(uint64_t number)
{
	return (size_t)((number - 1) % SLOTS) * sizeof(struct frame);
}

static inline uint64_t frame_checksum(const struct frame *frame)
{
	uint64_t sum = frame->number;

	for (int i = 0; i < WORDS; i++)
		sum = sum * 31 + frame->words[i];
	return sum;
}

#endif
