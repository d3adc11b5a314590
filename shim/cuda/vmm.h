/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_H
#define GPUSHARE_SHIM_VMM_H
/*
 * Memory of cuMemCreate: made here, or come as a file descriptor; an address for it, and away again.
 * Driver calls that the table lacks answer CU_NOT_SUPPORTED. No context need be current.
 */
#include <stdbool.h>

#include "driver.h"

struct vmm_mapping {
	uint64_t pointer, size;
	cu_mem_handle handle;
	bool file;	/* of vmm_host.h; else a handle's memory */
	bool read_only; /* of unified memory that the API attached */
	uint64_t held;	/* of imported memory, where it was wished for: see client_held.h */
};

/* How it should be mapped. */
struct vmm_wish {
	uint64_t address; /* 0: anywhere */
	bool must;	  /* there or not at all */
	bool read_only;
	bool hold; /* the descriptor too, for who may have to give it away again */
};

#define VMM_ADDRESS_TAKEN ((cu_result)-1) /* no CUresult: `must`, and another address came */

/* Import, reserve, map, and let `device` read and write, or what `wish` says; NULL: no wish. So may
 * every visible device that can reach `device`. `size` is a multiple of the granularity; the fd
 * stays the caller's. On failure nothing is left, and *out_call names the call. */
cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		  const char **out_call);
/* Make memory on `device` that can be exported as a descriptor, and map it for it and for every
 * visible device that can reach it, where others are likely to find the address free (vmm_range.h);
 * what it takes, whole granules, is out_mapping->size. On failure nothing is left. */
cu_result vmm_make(const struct driver *driver, uint64_t size, cu_device device,
		   struct vmm_mapping *out_mapping);
/* The first failure, after trying all; of what vmm_host.h makes too. */
cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping);

/* For vmm_host.c: the call that is missing for mapping, or NULL; an address, by a wish or, without
 * one, where others are likely to find it free. */
const char *vmm_first_missing(const struct driver *driver);
bool vmm_can_make(const struct driver *driver);
cu_result vmm_reserve(const struct driver *driver, const struct vmm_wish *wish, uint64_t size,
		      uint64_t *out_pointer);

#endif
