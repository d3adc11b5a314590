/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_HOST_H
#define GPUSHARE_SHIM_VMM_HOST_H
/*
 * Memory of the host that the CPU and the GPUs reach at one address, the same in every process. It
 * is cuMemCreate memory at the device's NUMA node. If the driver makes none, it is a file without a
 * name (memfd) that each process maps and registers. A forked child has no access to either.
 *
 * The device's context must be current: cuMemHostRegister needs one. vmm_unmap() takes both kinds;
 * for a file, the context that registered the memory must be current, if that context still exists.
 */
#include "vmm.h"

/* out_mapping->size is `size` rounded up to whole blocks. On failure nothing is left, and *out_call
 * names the failed call. */
cu_result vmm_host_make(const struct driver *driver, uint64_t size, cu_device device,
			struct vmm_mapping *out_mapping, const char **out_call);
/* A descriptor for memory that was made here, close-on-exec. */
cu_result vmm_host_export(const struct driver *driver, const struct vmm_mapping *mapping,
			  int *out_fd);
/* Map a descriptor's memory at wish->address, or fail with VMM_ADDRESS_TAKEN; wish->hold as for
 * vmm_map(). */
cu_result vmm_host_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		       const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		       const char **out_call);

/* Is `fd` such a memfd, of `size` bytes? Its size is sealed then: nobody can truncate it. */
bool vmm_host_is_file(int fd, uint64_t size);
/* Map the file without CUDA, at `address`, or anywhere for 0. NULL: errno has the reason, EEXIST
 * if the address is taken. Unmap it by munmap(). */
void *vmm_host_map_file(int fd, uint64_t size, uint64_t address, bool read_only);
cu_result vmm_host_unmap_file(const struct driver *driver, const struct vmm_mapping *mapping);

#endif
