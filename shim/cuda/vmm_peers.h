/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_PEERS_H
#define GPUSHARE_SHIM_VMM_PEERS_H
/*
 * Mapped memory for the GPUs beside the one it is on. The first mapping that another GPU may use
 * makes the driver join the two, for 1 to 4 ms; that ends with the last such mapping, and between
 * the two each costs 0.1 ms (measured on driver 580: tests/gpu/FACTS.md, peers_keep). Who attaches
 * one buffer after another keeps the two joined by a granule of its own.
 */
#include <stdatomic.h>

#include "vmm.h"

#define VMM_DEVICES_MAX 64

/* Is there a visible device beside it that can reach it? */
bool vmm_has_peers(const struct driver *driver, cu_device device);

/* Access for `device`, and for those beside it that can: all in one call, or each by itself where one
 * of them is refused. */
cu_result vmm_admit(const struct driver *driver, const struct vmm_mapping *mapping,
		    cu_device device, bool read_only);

/* Zeroed: none. */
struct vmm_links {
	struct vmm_link {
		_Atomic bool tried, kept;
		struct vmm_mapping mapping;
	} of[VMM_DEVICES_MAX];
};

/* Keep `device` joined to those that reach it, if any do; once, and where there is no room, not. Any
 * thread. */
void vmm_links_keep(struct vmm_links *links, const struct driver *driver, cu_device device);
/* Nobody may keep one meanwhile. */
void vmm_links_drop(struct vmm_links *links, const struct driver *driver);

#endif
