/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_HOST_H
#define GPUSHARE_SHIM_VMM_HOST_H
/*
 * Memory of the host that the CPU and the GPUs have at one address, which is the same in every
 * process: memory of cuMemCreate at the device's NUMA node or, where the driver makes none, a file
 * without a name (memfd) that each process maps and registers. A forked child has neither.
 *
 * The device's context is current: cuMemHostRegister wants one. vmm_unmap() takes both; of a file
 * it wants the context that it was registered in, if that is there still.
 */
#include "vmm.h"

/* What it takes, whole blocks, is out_mapping->size. On failure nothing is left, and *out_call
 * names the call. */
cu_result vmm_host_make(const struct driver *driver, uint64_t size, cu_device device,
			struct vmm_mapping *out_mapping, const char **out_call);
/* A descriptor for what was made, close-on-exec. */
cu_result vmm_host_export(const struct driver *driver, const struct vmm_mapping *mapping,
			  int *out_fd);
/* A descriptor's memory at wish->address, or VMM_ADDRESS_TAKEN; wish->hold as for vmm_map(). */
cu_result vmm_host_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		       const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		       const char **out_call);

/* Is it such a file's descriptor? Its size is fixed then: nobody can cut it off. */
bool vmm_host_is_file(int fd, uint64_t size);
/* Without CUDA: the file at that address, or (0) anywhere; NULL: errno says why, EEXIST that the
 * address is taken. Ended by munmap(). */
void *vmm_host_map_file(int fd, uint64_t size, uint64_t address, bool read_only);
cu_result vmm_host_unmap_file(const struct driver *driver, const struct vmm_mapping *mapping);

#endif
