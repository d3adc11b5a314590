/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOST_CROSSOVER_H
#define GPUSHARE_SHIM_HOST_CROSSOVER_H
/*
 * Up to which size the CPU copies to and from mapped device memory faster than the GPU's copy engine
 * does: measured once for each GPU, and kept in the registry's directory.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"

/* Bytes: that many and fewer are the CPU's. */
struct host_crossover {
	size_t to, from;
};

/* One copy to the device or from it, by the CPU or by DMA; false: it failed. */
typedef bool host_race(void *user, bool to, bool dma, size_t size);

/* Races of both, of doubling sizes up to `most` bytes. False: a copy failed, or 10 ms each way of
 * this thread's were not enough. */
bool host_crossover_measure(host_race *race, void *user, size_t most, struct host_crossover *out);

/* False: nothing is kept there that is ours to believe, or it is of another CPU's way to copy. */
bool host_crossover_load(const char *directory, const unsigned char uuid[GPUSHARE_UUID_SIZE],
			 struct host_crossover *out);
/* Where that can't be written it is measured again, by the next process. */
void host_crossover_save(const char *directory, const unsigned char uuid[GPUSHARE_UUID_SIZE],
			 const struct host_crossover *crossover);

#endif
