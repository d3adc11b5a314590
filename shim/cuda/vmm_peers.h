/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_PEERS_H
#define GPUSHARE_SHIM_VMM_PEERS_H
/*
 * Access of other GPUs to mapped memory. For the first mapping that another GPU may use, the driver
 * connects the two GPUs, which takes 1 to 4 ms. The connection ends with the last such mapping;
 * while it lasts, each mapping costs 0.1 ms (measured on driver 580: tests/gpu/FACTS.md,
 * peers_keep). So a session that attaches one buffer after another keeps a small mapping of its
 * own, and with it the connection.
 */
#include <stdatomic.h>

#include "vmm.h"

#define VMM_DEVICES_MAX 64

/* Grant access to `device` and to the devices that can reach it: in one call, or one by one if
 * the driver refuses one of them. */
cu_result vmm_admit(const struct driver *driver, const struct vmm_mapping *mapping,
		    cu_device device, bool read_only);

/* Zero-initialized: no device is connected. */
struct vmm_links {
	struct vmm_link {
		_Atomic bool tried, kept; /* vmm_links_keep() ran; `mapping` exists */
		struct vmm_mapping mapping;
	} of[VMM_DEVICES_MAX];
};

/* Keep `device` connected to the devices that reach it, if any do. Only the first call for a device
 * tries; without GPU memory for the small mapping it does nothing. Any thread. */
void vmm_links_keep(struct vmm_links *links, const struct driver *driver, cu_device device);
/* Undo vmm_links_keep() for all devices. No thread may call vmm_links_keep() meanwhile. */
void vmm_links_drop(struct vmm_links *links, const struct driver *driver);

#endif
