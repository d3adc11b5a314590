/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_PATTERN_H
#define TESTS_GPU_PATTERN_H
/* A value for every word, and another pattern for each stage, for kernels and for the CPU. */
#include <stddef.h>

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline unsigned
    pattern(unsigned stage, size_t index)
{
	return (unsigned)index * (2654435761u + 2 * stage) + stage;
}

#endif
