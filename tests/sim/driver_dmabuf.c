/* SPDX-License-Identifier: MIT */
/*
 * dma-buf export of mapped memory. GPUSHARE_SIM_DMABUF chooses the behaviour. Unset, as driver 580:
 * mmap refuses the descriptor, and the device does not promise mmap. `mmap`, as from CUDA 13.3 on:
 * promised, and works. `broken`: promised, but mmap refuses it. `apart`: promised, but stores there
 * don't reach the mapped memory.
 */
#include <sys/eventfd.h>

#include "driver_vmm.h"

#define DMABUF_PAGE 4096

static bool dmabuf_is(const char *word)
{
	const char *set = getenv("GPUSHARE_SIM_DMABUF");

	return set && !strcmp(set, word);
}

bool dmabuf_promises_mmap(void)
{
	return dmabuf_is("mmap") || dmabuf_is("broken") || dmabuf_is("apart");
}

/* Return a descriptor of the mapped memory, of other memory, or one that can't be mapped. */
static int dmabuf_make(const struct object *object)
{
	int fd;

	if (dmabuf_is("mmap"))
		return fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
	if (!dmabuf_is("apart"))
		return eventfd(0, EFD_CLOEXEC);
	fd = memfd_create("gpushare-sim-apart", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)object->size) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Only whole mappings are supported here, since a memfd's descriptor can't start at an offset. */
CALL_LOGGED(cuMemGetHandleForAddressRange, NEED_CONTEXT,
	    (void *handle, cu_deviceptr start, size_t size, cu_range_handle_type type,
	     unsigned long long flags),
	    (handle, start, size, type, flags), start, size)
{
	if (!handle || (int)type != CU_RANGE_DMA_BUF_FD || flags || !size || start % DMABUF_PAGE ||
	    size % DMABUF_PAGE)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct region *region = region_exactly(start);
	if (!region || region->kind != REGION_MAPPED || region->size != size)
		return CU_INVALID_VALUE;
	int fd = dmabuf_make(region->owner);
	if (fd < 0)
		return CU_OPERATING_SYSTEM;
	*(int *)handle = fd;
	return CU_OK;
}
