/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_H
#define GPUSHARE_SHIM_VMM_H
/*
 * cuMemCreate memory: made here or imported from a file descriptor, mapped at an address, and
 * unmapped. `driver` must have all calls that driver_missing() checks. No context need be current,
 * except for memory of the host (below).
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "driver.h"

#define VMM_DEVICES_MAX 64
#define VMM_LOCATION_HOST 3 /* CU_MEM_LOCATION_TYPE_HOST_NUMA of CUDA 12.2 */

struct vmm_mapping {
	uint64_t pointer, size;
	cu_mem_handle handle;
	bool host;	/* the memory is the host's, at a NUMA node */
	bool file;	/* the memory is a memfd, and has no `handle` */
	bool read_only; /* unified memory that the API has mapped read-only */
	uint64_t held;	/* number of its descriptor in the table of client_held.h; 0: none */
};

/* How a descriptor's memory is to be mapped. */
struct vmm_wish {
	uint64_t address; /* 0: anywhere */
	bool must;	  /* fail if that address is taken */
	bool host;	  /* the memory is the host's, and must be mapped at that address */
	bool read_only;
	bool hold; /* hold the descriptor, to give it to a registry again */
};

/* Not a CUresult: the wish's address is taken, and it has `must` or `host`. */
#define VMM_ADDRESS_TAKEN ((cu_result)-1)

/* Import `fd`, reserve an address, map the memory, and let `device` read and write it (only read it
 * if `wish` says so). Every visible device that can reach `device` gets the same access. `size` is
 * a multiple of the granularity; the fd stays the caller's. On failure nothing is left, and
 * *out_call names the failed call. */
cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		  const char **out_call);
/* Make memory on `device` that can be exported as a descriptor, and map it for `device` and for
 * every visible device that can reach it. The address is one that is likely to be free in other
 * processes (range_pick()). out_mapping->size is `size` rounded up to whole granules. On failure
 * nothing is left, and *out_call names the failed call. `host`: make memory of the host instead. */
cu_result vmm_make(const struct driver *driver, uint64_t size, cu_device device, bool host,
		   struct vmm_mapping *out_mapping, const char **out_call);
/* Tries every step and returns the first failure. */
cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping);

/* Make a descriptor, close-on-exec, of a handle's memory, or of the memory mapped at `pointer`.
 * *out_mapped: cuMemCreate memory is mapped at `pointer`; set on failure, too. */
cu_result vmm_export(const struct driver *driver, cu_mem_handle handle, int *out_fd);
cu_result vmm_export_at(const struct driver *driver, uint64_t pointer, int *out_fd,
			bool *out_mapped);

/*
 * Memory of the host that the CPU and the GPUs reach at one address, the same in every process. It
 * is cuMemCreate memory at the device's NUMA node. If the driver makes none, it is a file without a
 * name (memfd) that each process maps and registers. A forked child has no access to either.
 *
 * The device's context must be current: cuMemHostRegister needs one. vmm_unmap() takes both kinds;
 * for a file, the context that registered the memory must be current, if that context still exists.
 */
/* A descriptor for memory that was made here, close-on-exec. */
cu_result vmm_host_export(const struct driver *driver, const struct vmm_mapping *mapping,
			  int *out_fd);
/* Is `fd` such a memfd, of `size` bytes? Its size is sealed then: nobody can truncate it. */
bool vmm_host_is_file(int fd, uint64_t size);
/* Map the file without CUDA, at `address`, or anywhere for 0. NULL: errno has the reason, EEXIST
 * if the address is taken. Unmap it by munmap(). */
void *vmm_host_map_file(int fd, uint64_t size, uint64_t address, bool read_only);

/*
 * Addresses for memory that other processes may want at the same address. A driver gives every
 * process the same addresses in the same order, so an attacher usually finds the owner's address
 * taken. So range_pick() gives each owner a random address, in a range that programs rarely use.
 */
/* With this alignment the driver reserves the address that is asked for. Without an alignment, it
 * takes smaller reservations from its own pool and ignores that address (contract_vmm.c). */
#define RANGE_ALIGNMENT ((uint64_t)32 << 20)

/* An address to ask for, for `size` bytes; 0: anywhere. errno is unchanged. */
uint64_t range_pick(uint64_t size);

/*
 * Access of other GPUs. For the first mapping that another GPU may use, the driver connects the two
 * GPUs, which takes 1 to 4 ms. The connection ends with the last such mapping; while it lasts, each
 * mapping costs 0.1 ms (measured on driver 580: tests/gpu/FACTS.md, peers_keep). So a session that
 * attaches one buffer after another keeps a small mapping of its own, and with it the connection.
 */

/* Zero-initialized: no device is connected. */
struct vmm_links {
	struct vmm_link {
		_Atomic bool tried, kept; /* tried: vmm_links_keep() ran; kept: `mapping` exists */
		struct vmm_mapping mapping;
	} of[VMM_DEVICES_MAX];
};

/* Keep `device` connected to the devices that can reach it, if there are any. Only the first call
 * for a device tries. If the GPU has no memory for the small mapping, this does nothing. Any thread
 * may call it. */
void vmm_links_keep(struct vmm_links *links, const struct driver *driver, cu_device device);
/* Undo vmm_links_keep() for all devices. No thread may call vmm_links_keep() meanwhile. */
void vmm_links_drop(struct vmm_links *links, const struct driver *driver);

#endif
