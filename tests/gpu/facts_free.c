/* SPDX-License-Identifier: MIT */
/* What a free answers that is not the one that belongs to the pointer. */
#include <string.h>

#include "facts.h"

static cu_deviceptr ordinary(size_t size)
{
	cu_deviceptr pointer = 0;

	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, size));
	return pointer;
}

static cu_deviceptr pooled(size_t size)
{
	cu_deviceptr pointer = 0;

	facts_must("cuMemAllocAsync", cu.cuMemAllocAsync(&pointer, size, NULL));
	facts_must("cuStreamSynchronize", cu.cuStreamSynchronize(NULL));
	return pointer;
}

void facts_free_ordinary(void)
{
	cu_deviceptr pointer = 1;

	facts_start();
	facts_ask("cuMemAlloc of 0 bytes", cu.cuMemAlloc_v2(&pointer, 0));
	facts_say("cuMemAlloc of 0 bytes: the pointer, which was 1", "%llu", pointer);
	facts_ask("cuMemFree of 0", cu.cuMemFree_v2(0));
	facts_ask("cuMemFreeAsync of 0", cu.cuMemFreeAsync(0, NULL));
	facts_ask("cuMemFree of garbage", cu.cuMemFree_v2(0x123456789000));
	facts_ask("cuMemFreeAsync of garbage", cu.cuMemFreeAsync(0x123456789000, NULL));
	pointer = ordinary(4 * MIB);
	facts_ask("cuMemFree of an interior pointer", cu.cuMemFree_v2(pointer + 512));
	facts_ask("cuMemFree of an interior pointer, next block", cu.cuMemFree_v2(pointer + BLOCK));
	facts_ask("cuMemFreeAsync of an interior pointer of cuMemAlloc memory",
		  cu.cuMemFreeAsync(pointer + 512, NULL));
	facts_ask("cuIpcCloseMemHandle of cuMemAlloc memory", cu.cuIpcCloseMemHandle(pointer));
	facts_ask("cuMemUnmap of cuMemAlloc memory", cu.cuMemUnmap(pointer, 4 * MIB));
	facts_ask("cuMemFreeAsync of cuMemAlloc memory", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("  and the stream after it", cu.cuStreamSynchronize(NULL));
	facts_ask("  and cuMemFree of it then", cu.cuMemFree_v2(pointer));
	pointer = ordinary(4 * MIB);
	facts_ask("cuMemFree", cu.cuMemFree_v2(pointer));
	facts_ask("cuMemFree a second time", cu.cuMemFree_v2(pointer));
	facts_ask("cuMemFreeAsync after cuMemFree", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("the context at the end", cu.cuCtxSynchronize());
}

void facts_free_pool(void)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer;

	facts_start();
	pointer = pooled(4 * MIB);
	facts_ask("cuIpcGetMemHandle of pool memory", cu.cuIpcGetMemHandle(&handle, pointer));
	facts_ask("cuMemFreeAsync of an interior pointer", cu.cuMemFreeAsync(pointer + 512, NULL));
	facts_ask("cuMemFree of an interior pointer", cu.cuMemFree_v2(pointer + 512));
	facts_ask("cuMemFreeAsync", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("cuMemFreeAsync a second time, at once", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("cuStreamSynchronize", cu.cuStreamSynchronize(NULL));
	facts_ask("cuMemFreeAsync again, after the stream", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("cuMemFree after it", cu.cuMemFree_v2(pointer));
	pointer = pooled(4 * MIB);
	facts_ask("cuMemFree of pool memory", cu.cuMemFree_v2(pointer));
	facts_ask("cuMemFree of it a second time", cu.cuMemFree_v2(pointer));
	facts_ask("cuMemAllocAsync on stream 1", cu.cuMemAllocAsync(&pointer, MIB, (cu_stream)1));
	facts_ask("cuMemFreeAsync on stream 2", cu.cuMemFreeAsync(pointer, (cu_stream)2));
	facts_ask("the context at the end", cu.cuCtxSynchronize());
}

void facts_free_other(void)
{
	cu_mem_prop prop;
	cu_mem_handle handle;
	cu_deviceptr pointer;
	void *host;

	facts_start();
	prop = facts_prop(CU_HANDLE_POSIX_FD);
	facts_must("cuMemCreate", cu.cuMemCreate(&handle, BLOCK, &prop, 0));
	pointer = facts_map(handle, BLOCK);
	facts_ask("cuMemFree of mapped VMM memory", cu.cuMemFree_v2(pointer));
	facts_ask("cuMemFreeAsync of mapped VMM memory", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("cuIpcCloseMemHandle of mapped VMM memory", cu.cuIpcCloseMemHandle(pointer));
	facts_ask("cuMemsetD8 on it then", cu.cuMemsetD8_v2(pointer, 1, BLOCK));
	facts_ask("cuMemAllocManaged", cu.cuMemAllocManaged(&pointer, BLOCK, CU_MANAGED_GLOBAL));
	facts_ask("cuMemFreeAsync of managed memory", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("cuMemFree of managed memory", cu.cuMemFree_v2(pointer));
	facts_must("cuMemHostAlloc", cu.cuMemHostAlloc(&host, BLOCK, 0));
	facts_ask("cuMemFree of pinned memory", cu.cuMemFree_v2((cu_deviceptr)(uintptr_t)host));
	facts_ask("cuMemFreeHost of it then", cu.cuMemFreeHost(host));
	pointer = ordinary(BLOCK);
	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(NULL));
	facts_ask("cuMemFree without a current context", cu.cuMemFree_v2(pointer));
	facts_ask("  a second time", cu.cuMemFree_v2(pointer));
	facts_ask("cuMemAlloc without a current context", cu.cuMemAlloc_v2(&pointer, BLOCK));
}

static void export_one(int from, int to)
{
	cu_ipc_mem_handle handle;
	char word;

	facts_start();
	facts_must("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(&handle, ordinary(4 * MIB)));
	facts_send(to, &handle, sizeof(handle));
	facts_receive(from, &word, 1);
}

static cu_deviceptr open_one(const cu_ipc_mem_handle *handle)
{
	cu_deviceptr pointer = 0;

	facts_must("cuIpcOpenMemHandle",
		   cu.cuIpcOpenMemHandle_v2(&pointer, *handle, CU_IPC_LAZY_PEER_ACCESS));
	return pointer;
}

void facts_import(void)
{
	cu_ipc_mem_handle handle, again;
	struct facts_peer peer;
	cu_deviceptr pointer;

	facts_peer_start(&peer, export_one);
	facts_start();
	if (!facts_receive(peer.from, &handle, sizeof(handle)))
		return;
	pointer = open_one(&handle);
	if (facts_ask("cuIpcGetMemHandle of an imported mapping",
		      cu.cuIpcGetMemHandle(&again, pointer)) == CU_OK)
		facts_say("  is it the exporter's handle", "%s",
			  memcmp(&again, &handle, sizeof(handle)) ? "no" : "yes");
	facts_ask("cuMemFreeAsync of an imported mapping", cu.cuMemFreeAsync(pointer, NULL));
	facts_ask("  and the stream after it", cu.cuStreamSynchronize(NULL));
	facts_ask("  and cuMemsetD8 on it", cu.cuMemsetD8_v2(pointer, 1, 4 * MIB));
	facts_ask("cuMemFree of an imported mapping", cu.cuMemFree_v2(pointer));
	facts_ask("  and cuMemsetD8 on it", cu.cuMemsetD8_v2(pointer, 1, 4 * MIB));
	facts_ask("  and cuIpcCloseMemHandle", cu.cuIpcCloseMemHandle(pointer));
	facts_ask("cuIpcCloseMemHandle a second time", cu.cuIpcCloseMemHandle(pointer));
	pointer = open_one(&handle);
	facts_say("opened twice, the same address", "%s",
		  open_one(&handle) == pointer ? "yes" : "no");
	facts_ask("cuIpcCloseMemHandle of an interior pointer",
		  cu.cuIpcCloseMemHandle(pointer + 512));
	facts_ask("cuIpcCloseMemHandle, the first", cu.cuIpcCloseMemHandle(pointer));
	facts_ask("cuMemsetD8 between the two", cu.cuMemsetD8_v2(pointer, 1, 4 * MIB));
	facts_ask("cuIpcCloseMemHandle, the second", cu.cuIpcCloseMemHandle(pointer));
	facts_ask("cuIpcCloseMemHandle, the third", cu.cuIpcCloseMemHandle(pointer));
	facts_ask("the context at the end", cu.cuCtxSynchronize());
	facts_peer_end(&peer);
}
