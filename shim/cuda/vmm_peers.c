/* SPDX-License-Identifier: MIT */
#include "vmm_peers.h"

/* The other devices that can reach `device`. A device that can't is left out. */
static size_t find_peers(const struct driver *driver, cu_device device,
			 cu_mem_access accesses[VMM_DEVICES_MAX], int flags)
{
	int count = 0, can;
	size_t found = 0;
	cu_device peer;

	if (driver->cuDeviceGetCount(&count) != CU_OK)
		return 0;
	for (int ordinal = 0; ordinal < count && found < VMM_DEVICES_MAX; ordinal++) {
		can = 0;
		if (driver->cuDeviceGet(&peer, ordinal) == CU_OK && peer != device &&
		    driver->cuDeviceCanAccessPeer(&can, peer, device) == CU_OK && can)
			accesses[found++] = (cu_mem_access){
			    .location = {.type = CU_LOCATION_DEVICE, .id = peer},
			    .flags = flags,
			};
	}
	return found;
}

cu_result vmm_admit(const struct driver *driver, const struct vmm_mapping *mapping,
		    cu_device device, bool read_only)
{
	cu_mem_access accesses[1 + VMM_DEVICES_MAX] = {{
	    .location = {.type = CU_LOCATION_DEVICE, .id = device},
	    .flags = read_only ? CU_ACCESS_READ : CU_ACCESS_READ_WRITE,
	}};
	size_t count = 1 + find_peers(driver, device, accesses + 1, (int)accesses[0].flags);
	cu_result result = driver->cuMemSetAccess(mapping->pointer, mapping->size, accesses, count);

	if (result == CU_OK || count == 1)
		return result;
	result = driver->cuMemSetAccess(mapping->pointer, mapping->size, accesses, 1);
	for (size_t i = 1; result == CU_OK && i < count; i++)
		driver->cuMemSetAccess(mapping->pointer, mapping->size, accesses + i, 1);
	return result;
}

void vmm_links_keep(struct vmm_links *links, const struct driver *driver, cu_device device)
{
	cu_mem_access peers[VMM_DEVICES_MAX];
	struct vmm_link *link;

	if (device < 0 || device >= VMM_DEVICES_MAX)
		return;
	link = &links->of[device];
	if (atomic_load_explicit(&link->tried, memory_order_relaxed) ||
	    atomic_exchange(&link->tried, true) ||
	    !find_peers(driver, device, peers, CU_ACCESS_READ_WRITE))
		return;
	atomic_store(&link->kept, vmm_make(driver, 1, device, &link->mapping) == CU_OK);
}

void vmm_links_drop(struct vmm_links *links, const struct driver *driver)
{
	for (int device = 0; device < VMM_DEVICES_MAX; device++) {
		struct vmm_link *link = &links->of[device];

		if (atomic_exchange(&link->kept, false))
			vmm_unmap(driver, &link->mapping);
		atomic_store(&link->tried, false);
	}
}
