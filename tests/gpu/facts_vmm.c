/* SPDX-License-Identifier: MIT */
/* VMM memory: what a handle type costs and shows, ranges of mappings, handles counted and exported.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "facts.h"

static void say_range(const char *what, cu_deviceptr at)
{
	unsigned int capable = 9;
	cu_deviceptr base = 0, start = 0;
	size_t range = 0, size = 0;
	cu_result by_call = cu.cuMemGetAddressRange_v2(&base, &range, at);
	cu_result by_attribute = cu.cuPointerGetAttribute(&size, CU_ATTRIBUTE_RANGE_SIZE, at);
	cu_result legacy = cu.cuPointerGetAttribute(&capable, CU_ATTRIBUTE_LEGACY_IPC_CAPABLE, at);

	cu.cuPointerGetAttribute(&start, CU_ATTRIBUTE_RANGE_START, at);
	facts_say(what,
		  "cuMemGetAddressRange %s base %+lld size %zu; RANGE_SIZE %s %zu, RANGE_START "
		  "%+lld; LEGACY_IPC_CAPABLE %s %u",
		  facts_code(by_call), (long long)(base - at), range, facts_code(by_attribute),
		  size, (long long)(start - at), facts_code(legacy), capable);
}

void facts_vmm_range(void)
{
	cu_mem_access access;
	cu_mem_prop prop;
	cu_mem_handle first, second;
	cu_deviceptr at = 0;

	facts_start();
	prop = facts_prop(CU_HANDLE_POSIX_FD);
	access = (cu_mem_access){{CU_LOCATION_DEVICE, facts_device}, CU_ACCESS_READ_WRITE};
	facts_must("cuMemCreate", cu.cuMemCreate(&first, 2 * BLOCK, &prop, 0));
	facts_must("cuMemCreate", cu.cuMemCreate(&second, BLOCK, &prop, 0));
	facts_must("cuMemAddressReserve", cu.cuMemAddressReserve(&at, 8 * BLOCK, 0, 0, 0));
	say_range("reserved, not mapped", at);
	facts_ask("cuMemMap of half a handle", cu.cuMemMap(at, BLOCK, 0, first, 0));
	facts_ask("  cuMemUnmap", cu.cuMemUnmap(at, BLOCK));
	facts_ask("cuMemMap with an offset", cu.cuMemMap(at, BLOCK, BLOCK, first, 0));
	facts_must("cuMemMap", cu.cuMemMap(at, 2 * BLOCK, 0, first, 0));
	say_range("mapped, no access yet", at);
	facts_must("cuMemMap", cu.cuMemMap(at + 2 * BLOCK, BLOCK, 0, second, 0));
	facts_must("cuMemSetAccess", cu.cuMemSetAccess(at, 3 * BLOCK, &access, 1));
	say_range("first of two neighbours, 4 MiB", at);
	say_range("  1 byte into it", at + 1);
	say_range("second of two neighbours, 2 MiB", at + 2 * BLOCK);
	facts_ask("cuMemMap of one handle a second time",
		  cu.cuMemMap(at + 4 * BLOCK, BLOCK, 0, second, 0));
	facts_ask("cuMemMap where something is mapped", cu.cuMemMap(at, 2 * BLOCK, 0, first, 0));
	facts_ask("cuMemUnmap of half a mapping", cu.cuMemUnmap(at, BLOCK));
	facts_ask("cuMemUnmap of two mappings at once", cu.cuMemUnmap(at, 3 * BLOCK));
	facts_ask("cuMemUnmap of what is not mapped", cu.cuMemUnmap(at, BLOCK));
}

void facts_vmm_retain(void)
{
	cu_mem_prop prop;
	cu_mem_handle handle, again = 0, third = 0;
	cu_deviceptr at;
	int fd = -1;

	facts_start();
	prop = facts_prop(CU_HANDLE_POSIX_FD);
	facts_must("cuMemCreate", cu.cuMemCreate(&handle, BLOCK, &prop, 0));
	at = facts_map(handle, BLOCK);
	facts_ask("cuMemRetainAllocationHandle",
		  cu.cuMemRetainAllocationHandle(&again, (void *)at));
	facts_say("  the same handle", "%s", again == handle ? "yes" : "no");
	facts_ask("  of an interior pointer",
		  cu.cuMemRetainAllocationHandle(&third, (void *)(at + 4096)));
	facts_say("  the same handle", "%s", third == handle ? "yes" : "no");
	facts_ask("cuMemRelease, the first", cu.cuMemRelease(handle));
	facts_ask("cuMemRelease, the second", cu.cuMemRelease(again));
	facts_ask("cuMemRelease, the third", cu.cuMemRelease(third));
	facts_ask("cuMemRelease, a fourth, still mapped", cu.cuMemRelease(handle));
	facts_ask("cuMemsetD8 on the mapping then", cu.cuMemsetD8_v2(at, 1, BLOCK));
	facts_ask("cuMemExportToShareableHandle of the released handle",
		  cu.cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
	facts_ask("cuMemRetainAllocationHandle after the releases",
		  cu.cuMemRetainAllocationHandle(&again, (void *)at));
	facts_ask("  its export",
		  cu.cuMemExportToShareableHandle(&fd, again, CU_HANDLE_POSIX_FD, 0));
	facts_ask("cuMemUnmap", cu.cuMemUnmap(at, BLOCK));
	facts_ask("cuMemRelease of the retained one", cu.cuMemRelease(again));
	facts_ask("cuMemRelease of 0", cu.cuMemRelease(0));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&at, BLOCK));
	facts_ask("cuMemRetainAllocationHandle of cuMemAlloc memory",
		  cu.cuMemRetainAllocationHandle(&again, (void *)at));
}

/* Not asked: the export of a handle never made, which ends the process with SIGSEGV. */
void facts_vmm_export(void)
{
	cu_mem_prop prop;
	struct stat first_stat = {0}, second_stat = {0};
	int first = -1, second = -1, third = -1;
	cu_mem_handle handle, imported = 0;

	facts_start();
	prop = facts_prop(CU_HANDLE_POSIX_FD);
	facts_must("cuMemCreate", cu.cuMemCreate(&handle, BLOCK, &prop, 0));
	facts_ask("export", cu.cuMemExportToShareableHandle(&first, handle, CU_HANDLE_POSIX_FD, 0));
	facts_ask("export a second time",
		  cu.cuMemExportToShareableHandle(&second, handle, CU_HANDLE_POSIX_FD, 0));
	fstat(first, &first_stat);
	fstat(second, &second_stat);
	facts_say("  the two fds", "%s; inodes %s; FD_CLOEXEC %d %d",
		  first == second ? "equal" : "differ",
		  first_stat.st_ino == second_stat.st_ino ? "equal" : "differ",
		  fcntl(first, F_GETFD), fcntl(second, F_GETFD));
	facts_ask("import in the same process",
		  cu.cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)first,
						    CU_HANDLE_POSIX_FD));
	facts_say("  the same handle", "%s", imported == handle ? "yes" : "no");
	prop.requestedHandleTypes = -1;
	facts_ask("properties of the imported one",
		  cu.cuMemGetAllocationPropertiesFromHandle(&prop, imported));
	facts_say("  requestedHandleTypes", "%d", prop.requestedHandleTypes);
	facts_ask("export of the imported one",
		  cu.cuMemExportToShareableHandle(&third, imported, CU_HANDLE_POSIX_FD, 0));
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

#define TIMES 21

static void time_create(const char *what, cu_mem_prop *prop, size_t size)
{
	double created[TIMES], released[TIMES], started;
	char question[96];

	for (int i = 0; i < TIMES; i++) {
		cu_mem_handle handle;

		started = facts_ms();
		if (cu.cuMemCreate(&handle, size, prop, 0) != CU_OK)
			return;
		created[i] = facts_ms() - started;
		started = facts_ms();
		cu.cuMemRelease(handle);
		released[i] = facts_ms() - started;
	}
	qsort(created, TIMES, sizeof(*created), compare);
	qsort(released, TIMES, sizeof(*released), compare);
	snprintf(question, sizeof(question), "%s, time of %zu MiB", what, size / MIB);
	facts_say(question, "create median %.1f us (%.1f - %.1f), release median %.1f us",
		  created[TIMES / 2] * 1e3, created[0] * 1e3, created[TIMES - 1] * 1e3,
		  released[TIMES / 2] * 1e3);
}

static void create_one(const char *what, int handle_types, int compression)
{
	cu_mem_prop prop = facts_prop(handle_types), shown = {0};
	unsigned char fabric[64];
	cu_mem_handle handle;
	char question[96];
	int fd = -1;

	prop.allocFlags.compressionType = (unsigned char)compression;
	snprintf(question, sizeof(question), "cuMemCreate, %s", what);
	if (facts_ask(question, cu.cuMemCreate(&handle, BLOCK, &prop, 0)) != CU_OK)
		return;
	facts_ask("  properties", cu.cuMemGetAllocationPropertiesFromHandle(&shown, handle));
	facts_say("  properties",
		  "requestedHandleTypes %d, compressionType %d, gpuDirectRDMACapable %d, usage %d",
		  shown.requestedHandleTypes, shown.allocFlags.compressionType,
		  shown.allocFlags.gpuDirectRDMACapable, shown.allocFlags.usage);
	facts_ask("  export as fd",
		  cu.cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
	facts_ask("  export as fabric handle",
		  cu.cuMemExportToShareableHandle(fabric, handle, HANDLE_FABRIC, 0));
	if (fd >= 0)
		close(fd);
	facts_ask("  cuMemRelease", cu.cuMemRelease(handle));
	time_create(what, &prop, BLOCK);
	time_create(what, &prop, 64 * MIB);
	time_create(what, &prop, 1024 * MIB);
}

void facts_create(void)
{
	int compression = -1, fabric = -1;

	facts_start();
	cu.cuDeviceGetAttribute(&compression, DEVICE_COMPRESSION, facts_device);
	cu.cuDeviceGetAttribute(&fabric, DEVICE_FABRIC, facts_device);
	facts_say("device", "GENERIC_COMPRESSION_SUPPORTED %d, HANDLE_TYPE_FABRIC_SUPPORTED %d",
		  compression, fabric);
	create_one("no handle type", HANDLE_NONE, 0);
	create_one("fd", CU_HANDLE_POSIX_FD, 0);
	create_one("fabric", HANDLE_FABRIC, 0);
	create_one("fd and fabric", CU_HANDLE_POSIX_FD | HANDLE_FABRIC, 0);
	create_one("no handle type, compressible", HANDLE_NONE, COMPRESSION_GENERIC);
	create_one("fd, compressible", CU_HANDLE_POSIX_FD, COMPRESSION_GENERIC);
	facts_ask("the context at the end", cu.cuCtxSynchronize());
}
