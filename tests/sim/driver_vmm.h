/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_VMM_H
#define GPUSHARE_TESTS_SIM_DRIVER_VMM_H
/* Shared by driver_vmm.c, which has the memory, and driver_map.c, which gives it addresses. */
#include "driver_sim.h"

enum { VMM_LOCATION_HOST = 2, VMM_LOCATION_HOST_NUMA = 3 };

struct object {
	struct object *next;
	uint64_t size;
	int fd;
	cu_device device;
	int physical;	  /* its device's number in the machine; -1: host memory */
	bool host;	  /* its location is HOST or HOST_NUMA */
	bool counted;	  /* counts against the device's capacity: created here, not imported */
	int handle_types; /* as requested; an imported object has none */
	unsigned int handles, mappings;
};

#pragma GCC visibility push(hidden)
struct object *vmm_find(cu_mem_handle handle);
void vmm_unref(struct object *object);
bool dmabuf_promises_mmap(void); /* driver_dmabuf.c */
bool map_reservation(uint64_t address, uint64_t *start, uint64_t *size);
#pragma GCC visibility pop

#endif
