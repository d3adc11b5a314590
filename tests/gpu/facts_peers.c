/* SPDX-License-Identifier: MIT */
/* Two GPUs: what access for the other one costs, and what of a mapping works without. */
#include <stdlib.h>

#include "facts.h"

static cu_device other;
static cu_context there;

/* Whether a second GPU reaches the first one. */
static bool two(void)
{
	int can = 0;

	facts_start();
	if (cu.cuDeviceGet(&other, 1) != CU_OK ||
	    cu.cuDeviceCanAccessPeer(&can, other, facts_device) != CU_OK || !can) {
		facts_say("two GPUs", "there is no second one that reaches the first");
		return false;
	}
	facts_must("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&there, other));
	return true;
}

static cu_deviceptr reserved(cu_mem_handle *out_handle, size_t size)
{
	cu_mem_prop prop = facts_prop(CU_HANDLE_POSIX_FD);
	cu_deviceptr at = 0;

	facts_must("cuMemCreate", cu.cuMemCreate(out_handle, size, &prop, 0));
	facts_must("cuMemAddressReserve", cu.cuMemAddressReserve(&at, size, 0, 0, 0));
	facts_must("cuMemMap", cu.cuMemMap(at, size, 0, *out_handle, 0));
	return at;
}

static void drop(cu_deviceptr at, cu_mem_handle handle, size_t size)
{
	double began = facts_ms();

	facts_must("cuMemUnmap", cu.cuMemUnmap(at, size));
	facts_say("  cuMemUnmap", "%.3f ms", facts_ms() - began);
	facts_must("cuMemAddressFree", cu.cuMemAddressFree(at, size));
	facts_must("cuMemRelease", cu.cuMemRelease(handle));
}

static void admit(const char *question, cu_deviceptr at, size_t size, const cu_mem_access *access,
		  size_t count)
{
	double began = facts_ms();
	cu_result result = cu.cuMemSetAccess(at, size, access, count);

	facts_say(question, "%s after %.3f ms", facts_code(result), facts_ms() - began);
}

static void admit_all(size_t size)
{
	const cu_mem_access both[] = {{{CU_LOCATION_DEVICE, facts_device}, CU_ACCESS_READ_WRITE},
				      {{CU_LOCATION_DEVICE, other}, CU_ACCESS_READ_WRITE}};
	cu_mem_handle handle;
	cu_deviceptr at;

	facts_say("size", "%zu MiB", size / MIB);
	at = reserved(&handle, size);
	admit("  access for its own GPU", at, size, both, 1);
	admit("  then for the other one", at, size, both + 1, 1);
	admit("  the same again", at, size, both + 1, 1);
	drop(at, handle, size);
	at = reserved(&handle, size);
	admit("  access for both at once", at, size, both, 2);
	drop(at, handle, size);
}

void facts_peers_cost(void)
{
	if (!two())
		return;
	for (int round = 0; round < 2; round++) {
		admit_all(BLOCK);
		admit_all(64 * MIB);
		admit_all(1024 * MIB);
	}
	facts_ask("cuCtxEnablePeerAccess of the first", cu.cuCtxEnablePeerAccess(there, 0));
	admit_all(64 * MIB);
}

/* What is spared while another mapping has it: with the second GPU's context, and before there is one. */
static void admit_beside(const char *question, size_t beside)
{
	cu_mem_access both[] = {{{CU_LOCATION_DEVICE, facts_device}, CU_ACCESS_READ_WRITE},
				{{CU_LOCATION_DEVICE, other}, CU_ACCESS_READ_WRITE}};
	const size_t sizes[] = {BLOCK, 64 * MIB, 256 * MIB, 1024 * MIB, 4096 * MIB};
	cu_mem_handle kept, handle;
	cu_deviceptr keeper, at;

	facts_say(question, "%zu MiB", beside / MIB);
	keeper = reserved(&kept, beside);
	admit("  its access for both", keeper, beside, both, 2);
	for (int i = 0; i < 5; i++) {
		facts_say(" size", "%zu MiB", sizes[i] / MIB);
		at = reserved(&handle, sizes[i]);
		admit("  access for both", at, sizes[i], both, 2);
		drop(at, handle, sizes[i]);
	}
	drop(keeper, kept, beside);
}

void facts_peers_keep(void)
{
	int can = 0;

	facts_start();
	if (cu.cuDeviceGet(&other, 1) != CU_OK ||
	    cu.cuDeviceCanAccessPeer(&can, other, facts_device) != CU_OK || !can) {
		facts_say("two GPUs", "there is no second one that reaches the first");
		return;
	}
	admit_beside("no context there; beside one of", BLOCK);
	admit_beside("beside one of", 1024 * MIB);
	facts_must("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&there, other));
	admit_beside("with a context there; beside one of", BLOCK);
}

static void read_back(const char *question, cu_result result, cu_deviceptr from, int expected)
{
	unsigned char byte = 0;

	if (result == CU_OK)
		result = cu.cuCtxSynchronize();
	if (result == CU_OK)
		result = cu.cuMemcpyDtoH_v2(&byte, from, 1);
	facts_say(question, "%s, the byte is %sthe one", facts_code(result),
		  byte == expected ? "" : "not ");
}

/* The mapping is for the first GPU alone; what asks is the other one's context, then the first's. */
static void copy_without(bool enabled)
{
	const cu_mem_access own = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE};
	cu_mem_handle handle;
	cu_deviceptr at, beyond, ordinary;

	if (!two())
		return;
	at = reserved(&handle, BLOCK);
	facts_must("cuMemSetAccess", cu.cuMemSetAccess(at, BLOCK, &own, 1));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&ordinary, BLOCK));
	if (enabled)
		facts_ask("cuCtxEnablePeerAccess, here", cu.cuCtxEnablePeerAccess(there, 0));
	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(there));
	if (enabled)
		facts_ask("cuCtxEnablePeerAccess, there",
			  cu.cuCtxEnablePeerAccess(facts_context, 0));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&beyond, BLOCK));
	facts_must("cuMemsetD8", cu.cuMemsetD8_v2(beyond, 7, BLOCK));
	facts_must("cuCtxSynchronize", cu.cuCtxSynchronize());
	read_back("cuMemcpyPeer into the mapping",
		  cu.cuMemcpyPeer(at, facts_context, beyond, there, BLOCK), at, 7);
	read_back("cuMemcpyPeer out of it",
		  cu.cuMemcpyPeer(beyond, there, at, facts_context, BLOCK), beyond, 7);
	read_back("cuMemsetD8 of ordinary memory, from there", cu.cuMemsetD8_v2(ordinary, 8, BLOCK),
		  ordinary, 8);
	read_back("cuMemcpyDtoD into the mapping, from there",
		  cu.cuMemcpyDtoD_v2(at, beyond, BLOCK), at, 7);
	read_back("cuMemcpyDtoD out of it, from there", cu.cuMemcpyDtoD_v2(beyond, at, BLOCK),
		  beyond, 7);
	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(facts_context));
	read_back("cuMemcpyDtoD into the mapping, from here", cu.cuMemcpyDtoD_v2(at, beyond, BLOCK),
		  at, 7);
	read_back("cuMemcpyDtoD out of it, from here", cu.cuMemcpyDtoD_v2(beyond, at, BLOCK),
		  beyond, 7);
	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(there));
	read_back("cuMemsetD8 of the mapping, from there", cu.cuMemsetD8_v2(at, 9, BLOCK), at, 9);
}

void facts_peers_copy(void)
{
	copy_without(false);
}

void facts_peers_copy_enabled(void)
{
	copy_without(true);
}
