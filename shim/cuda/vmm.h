/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_H
#define GPUSHARE_SHIM_VMM_H
/*
 * cuMemCreate memory: made here or imported from a file descriptor, mapped at an address, and
 * unmapped. `driver` must have all calls that driver_missing() checks. No context need be current.
 */
#include <stdbool.h>

#include "driver.h"

struct vmm_mapping {
	uint64_t pointer, size;
	cu_mem_handle handle;
	bool file;	/* the memory is a memfd of vmm_host.h, and has no `handle` */
	bool read_only; /* unified memory that the API attached: mapped for reading */
	uint64_t held;	/* number of its descriptor in the table of client_held.h; 0: none */
};

/* How a descriptor's memory is to be mapped. */
struct vmm_wish {
	uint64_t address; /* 0: anywhere */
	bool must;	  /* fail if that address is taken */
	bool read_only;
	bool hold; /* hold the descriptor, to give it to a registry again */
};

#define VMM_ADDRESS_TAKEN \
	((cu_result)-1) /* not a CUresult: the wish has `must`, and its address is
					   * taken */

/* Import `fd`, reserve an address, map the memory, and grant `device` read and write access, or
 * what `wish` says. Every visible device that can reach `device` gets the same
 * access. `size` is a multiple of the granularity; the fd stays the caller's. On failure nothing
 * is left, and *out_call names the failed call. */
cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		  const char **out_call);
/* Make memory on `device` that can be exported as a descriptor, and map it for `device` and for
 * every visible device that can reach it. The address is one that is likely to be free in other
 * processes (vmm_range.h). out_mapping->size is `size` rounded up to whole granules. On failure
 * nothing is left. */
cu_result vmm_make(const struct driver *driver, uint64_t size, cu_device device,
		   struct vmm_mapping *out_mapping);
/* Tries every step and returns the first failure. Unmaps memory of vmm_host.h too. */
cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping);

/* Make a descriptor, close-on-exec, of a handle's memory, or of the memory mapped at `pointer`.
 * *out_mapped: cuMemCreate memory is mapped at `pointer`; set on failure, too. */
cu_result vmm_export(const struct driver *driver, cu_mem_handle handle, int *out_fd);
cu_result vmm_export_at(const struct driver *driver, uint64_t pointer, int *out_fd,
			bool *out_mapped);

/* For vmm_host.c, which has its own `admit` to grant access: vmm_make_of() is vmm_make() with the
 * properties `prop`; vmm_import() is vmm_map(), but the caller has set mapping->size. */
typedef cu_result vmm_admit_call(const struct driver *driver, const struct vmm_mapping *mapping,
				 cu_device device, bool read_only);
cu_result vmm_make_of(const struct driver *driver, uint64_t size, cu_device device,
		      const cu_mem_prop *prop, vmm_admit_call *admit,
		      struct vmm_mapping *out_mapping, const char **out_call);
cu_result vmm_import(const struct driver *driver, int fd, cu_device device, vmm_admit_call *admit,
		     const struct vmm_wish *wish, struct vmm_mapping *mapping,
		     const char **out_call);

#endif
