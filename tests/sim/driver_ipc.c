/* SPDX-License-Identifier: MIT */
/*
 * Legacy IPC handles. A handle says where in which process the memory is. The importer opens the
 * block's memfd through /proc/PID/fd. Like the real driver, it does not check whether the
 * allocation still exists in its block. A killed process leaves nothing behind: there is no daemon
 * and no file.
 */
#include <sys/stat.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "driver_peer.h"
#include "driver_stream.h"

#define IPC_MAGIC UINT64_C(0x6770757369706331)

struct wire { /* contents of a handle */
	uint64_t magic;
	int32_t pid;
	int32_t fd;
	uint64_t started;
	uint64_t nonce; /* of the block */
	uint64_t block_size;
	uint64_t offset;
	uint64_t size;
	uint32_t generation;
	int32_t physical;
};
_Static_assert(sizeof(struct wire) == CUDA_ABI_IPC_HANDLE_SIZE, "the handle's 64 bytes");

struct import { /* a block of another process, mapped whole */
	struct import *next;
	int32_t pid;
	uint64_t started, nonce;
	uint64_t base, size;
	unsigned int open; /* number of regions in it */
};

static struct import *imports;

static uint64_t ipc_own_start(void)
{
	static uint64_t started;

	if (!started)
		started = peer_start(getpid());
	return started;
}

CALL_LOGGED(cuIpcGetMemHandle, NEED_CONTEXT, (cu_ipc_mem_handle * handle, cu_deviceptr pointer),
	    (handle, pointer), pointer, 0)
{
	if (!handle)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct region *region = region_find(pointer);
	if (!region || region->kind != REGION_DEVICE)
		return CU_INVALID_VALUE;
	struct block *block = region->owner;
	struct wire wire = {
	    .magic = IPC_MAGIC,
	    .pid = getpid(),
	    .fd = block->fd,
	    .started = ipc_own_start(),
	    .nonce = block->control->nonce,
	    .block_size = block->size,
	    .offset = region->start - block->base,
	    .size = region->size,
	    .generation = region->generation,
	    .physical = state.physical[block->device],
	};
	block->exported = true;
	memcpy(handle, &wire, sizeof(wire));
	return CU_OK;
}

static bool ipc_wire_good(const struct wire *wire)
{
	return wire->magic == IPC_MAGIC && wire->pid > 0 && wire->fd >= 0 && wire->generation &&
	       wire->block_size && wire->block_size % SIM_BLOCK == 0 &&
	       wire->offset % SIM_STEP == 0 && wire->size && wire->offset < wire->block_size &&
	       wire->size <= wire->block_size - wire->offset;
}

/* Open the owner's block, or return the reason why it can't be opened. */
static cu_result ipc_ask_owner(const struct wire *wire, int *out_fd)
{
	struct control control;

	if (peer_start(wire->pid) != wire->started)
		return CU_INVALID_HANDLE;
	_cleanup_close_ int fd = peer_open(wire->pid, wire->fd);
	/* Another uid's /proc is closed to the simulator; a real driver can open the memory. */
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return CU_OPERATING_SYSTEM;
	if (fd < 0 || pread(fd, &control, sizeof(control), (off_t)wire->block_size) !=
			  (ssize_t)sizeof(control))
		return peer_start(wire->pid) == wire->started ? CU_INVALID_VALUE
							      : CU_INVALID_HANDLE;
	if (control.magic != CONTROL_BLOCK || control.nonce != wire->nonce)
		return CU_INVALID_VALUE;
	*out_fd = fd;
	fd = -1;
	return CU_OK;
}

static bool ipc_same_block(const struct import *import, const struct wire *wire)
{
	return import->pid == wire->pid && import->started == wire->started &&
	       import->nonce == wire->nonce;
}

/* Return the region of this allocation if it is already open here. */
static struct region *ipc_find(const struct wire *wire)
{
	for (struct import *import = imports; import; import = import->next) {
		if (!ipc_same_block(import, wire))
			continue;
		struct region *region = region_exactly(import->base + wire->offset);
		if (region && region->generation == wire->generation)
			return region;
	}
	return NULL;
}

static struct import *ipc_map(const struct wire *wire, int fd)
{
	struct import *import = calloc(1, sizeof(*import));
	void *base = import ? address_reserve(wire->block_size, SIM_BLOCK, 0) : NULL;

	if (!base || mmap(base, wire->block_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			  fd, 0) == MAP_FAILED) {
		if (base)
			munmap(base, wire->block_size);
		free(import);
		return NULL;
	}
	madvise(base, wire->block_size, MADV_DONTFORK);
	*import = (struct import){
	    .next = imports,
	    .pid = wire->pid,
	    .started = wire->started,
	    .nonce = wire->nonce,
	    .base = (uintptr_t)base,
	    .size = wire->block_size,
	};
	imports = import;
	return import;
}

static void ipc_unmap(struct import *import)
{
	LL_DELETE(imports, import);
	munmap((void *)(uintptr_t)import->base, import->size);
	free(import);
}

/* Return a mapping of the block in which this range is free. If the owner has freed and reallocated
 * the range, the older allocation may still be open here and keeps its own mapping. */
static struct import *ipc_block(const struct wire *wire, int fd)
{
	for (struct import *import = imports; import; import = import->next) {
		if (ipc_same_block(import, wire) &&
		    !region_overlaps(import->base + wire->offset, wire->size))
			return import;
	}
	return ipc_map(wire, fd);
}

static cu_result ipc_open_new(cu_deviceptr *pointer, const struct wire *wire)
{
	_cleanup_close_ int fd = -1;
	cu_result result = ipc_ask_owner(wire, &fd);

	if (result == CU_OK && !state_reaches(context_device(), wire->physical))
		result = CU_PEER_ACCESS_UNSUPPORTED;
	if (result != CU_OK)
		return result;
	struct import *import = ipc_block(wire, fd);
	if (!import)
		return CU_MAP_FAILED;
	int ordinal = state_ordinal(wire->physical);
	struct region region = {
	    .start = import->base + wire->offset,
	    .size = wire->size,
	    .kind = REGION_IMPORT,
	    .device = ordinal >= 0 ? ordinal : context_device(),
	    .context = context_current(),
	    .access = CU_ACCESS_READ_WRITE,
	    .owner = import,
	    .generation = wire->generation,
	    .references = 1,
	};
	if (!region_add(&region)) {
		if (!import->open)
			ipc_unmap(import);
		return CU_OUT_OF_MEMORY;
	}
	import->open++;
	*pointer = region.start;
	return CU_OK;
}

CALL_LOGGED(cuIpcOpenMemHandle_v2, NEED_CONTEXT,
	    (cu_deviceptr * pointer, cu_ipc_mem_handle handle, unsigned int flags),
	    (pointer, handle, flags), answer_ == CU_OK ? *pointer : 0, 0)
{
	struct wire wire;

	if (!pointer || flags != CU_IPC_LAZY_PEER_ACCESS)
		return CU_INVALID_VALUE;
	memcpy(&wire, &handle, sizeof(wire));
	if (!ipc_wire_good(&wire))
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	if (wire.pid == getpid() && wire.started == ipc_own_start())
		return CU_INVALID_CONTEXT;
	struct region *region = ipc_find(&wire);
	if (!region)
		return ipc_open_new(pointer, &wire);
	region->references++; /* without asking the owner again */
	*pointer = region->start;
	return CU_OK;
}

cu_result cuIpcOpenMemHandle(cu_deviceptr *pointer, cu_ipc_mem_handle handle, unsigned int flags)
{
	ANSWER_LOGGED(cuIpcOpenMemHandle, NEED_CONTEXT,
		      cuIpcOpenMemHandle_v2_answer(pointer, handle, flags),
		      answer_ == CU_OK ? *pointer : 0, 0);
}

/* Release the region, however often it is open. Under the lock. */
void ipc_release(struct region *region)
{
	struct import *import = region->owner;

	region_remove(region);
	if (!--import->open)
		ipc_unmap(import);
}

/* Under the lock. */
static struct region *ipc_opened(cu_deviceptr pointer)
{
	struct region *region = region_exactly(pointer);

	return region && region->kind == REGION_IMPORT ? region : NULL;
}

/* Like cuMemFree, wait first for the work of all streams, even if it does not use this memory. */
CALL_LOGGED(cuIpcCloseMemHandle, NEED_CONTEXT, (cu_deviceptr pointer), (pointer), pointer, 0)
{
	int cancelling = state_lock();
	bool good = ipc_opened(pointer);
	state_unlock(&cancelling);
	if (!good)
		return CU_INVALID_VALUE;
	wait_for_all();
	STATE_LOCKED;
	struct region *region = ipc_opened(pointer);
	if (!region)
		return CU_INVALID_VALUE; /* another thread has closed it meanwhile */
	if (!--region->references)
		ipc_release(region);
	return CU_OK;
}
