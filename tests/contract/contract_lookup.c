/* SPDX-License-Identifier: MIT */
/* FACTS.md, "How programs reach the allocator": which pointer each kind of lookup yields. */
#include "contract.h"

#include <ctype.h>
#include <dlfcn.h>

/* "cuMemAlloc_v2" is asked for as "cuMemAlloc". */
static const char *bare_name(const char *symbol, char to[64])
{
	size_t length = strlen(symbol), end = length;

	while (end > 0 && isdigit((unsigned char)symbol[end - 1]))
		end--;
	if (end < length && end > 2 && strncmp(symbol + end - 2, "_v", 2) == 0)
		length = end - 2;
	snprintf(to, 64, "%.*s", (int)length, symbol);
	return to;
}

static void yields(const struct driver *driver, const char *bare, int version, cu_uint64 flags,
		   const char *symbol)
{
	void *pointer = NULL, *exported = contract_symbol(symbol);
	cu_result result = driver->cuGetProcAddress_v2(bare, &pointer, version, flags, NULL);

	if (result == CU_OK && pointer && pointer == exported)
		return;
	fprintf(stderr, "cuGetProcAddress_v2(%s, %d, flags %d): %s, %p; dlsym(%s): %p\n", bare,
		version, (int)flags, driver_error_name(driver, result), pointer, symbol, exported);
	CHECK(!"cuGetProcAddress yields the pointer that dlsym does");
}

/* The entry points for allocation, IPC, VMM and contexts, which a hook may replace. */
static bool is_measured(const char *symbol)
{
	static const char *const starts[] = {"cuMemAlloc",
					     "cuMemFree",
					     "cuMemCreate",
					     "cuMemRelease",
					     "cuMemAddress",
					     "cuMemMap",
					     "cuMemUnmap",
					     "cuMemSetAccess",
					     "cuMemExport",
					     "cuMemImport",
					     "cuMemGetAddressRange",
					     "cuMemHost",
					     "cuMemGetAllocationGranularity",
					     "cuIpc",
					     "cuCtx",
					     "cuDevicePrimaryCtx",
					     "cuMemRetain",
					     "cuGetProcAddress"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (strncmp(symbol, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

static const struct entry {
	const char *symbol;
	int version;
} entries[] = {
#define F(since, version, name, params) {#name, version},
    CUDA_ABI_CALLS(F)
#undef F
};

/* CUDA 11.4 and 13 give the same bare names of some context entry points to other functions. */
static int last_version_of(const struct entry *entry, int newest)
{
	if (strncmp(entry->symbol, "cuCtx", 5) != 0 || newest <= 11030)
		return newest;
	return entry->version > 11030 ? entry->version : 11030;
}

/* Does a later CUDA version give this bare name to another symbol of the table? */
static bool is_superseded(const struct entry *its, const char *bare)
{
	for (const struct entry *entry = entries;
	     entry < entries + sizeof(entries) / sizeof(*entries); entry++) {
		char other[64];

		if (entry->version > its->version &&
		    strcmp(bare_name(entry->symbol, other), bare) == 0)
			return true;
	}
	return false;
}

/* Look each up as of the version that introduced it, and as of the driver's own version. */
static void every_entry_point(int peer)
{
	const struct driver *driver = contract_initialise();
	int measured = 0, newest = 0;

	EXPECT(CU_OK, driver->cuDriverGetVersion(&newest));
	for (const struct entry *entry = entries;
	     entry < entries + sizeof(entries) / sizeof(*entries); entry++) {
		char bare[64];

		if (entry->version == 0 || entry->version > newest || !is_measured(entry->symbol))
			continue;
		bare_name(entry->symbol, bare);
		yields(driver, bare, entry->version, CU_PROC_DEFAULT, entry->symbol);
		if (!is_superseded(entry, bare))
			yields(driver, bare, last_version_of(entry, newest), CU_PROC_DEFAULT,
			       entry->symbol);
		measured++;
	}
	CHECK(measured >= 19);
}

/* Rows that FACTS.md states explicitly. */
static const struct {
	const char *bare;
	int version, flags;
	const char *symbol;
} versions[] = {
    {"cuMemAlloc", 2000, CU_PROC_DEFAULT, "cuMemAlloc"},
    {"cuMemAlloc", 3010, CU_PROC_DEFAULT, "cuMemAlloc"},
    {"cuMemAlloc", 3020, CU_PROC_DEFAULT, "cuMemAlloc_v2"},
    {"cuMemAlloc", 11030, CU_PROC_DEFAULT, "cuMemAlloc_v2"},
    {"cuMemAlloc", 12000, CU_PROC_LEGACY_STREAM, "cuMemAlloc_v2"},
    {"cuMemAlloc", 12000, CU_PROC_PER_THREAD_STREAM, "cuMemAlloc_v2"},
    {"cuMemFree", 2000, CU_PROC_DEFAULT, "cuMemFree"},
    {"cuMemFree", 3020, CU_PROC_DEFAULT, "cuMemFree_v2"},
    {"cuMemAllocPitch", 2000, CU_PROC_DEFAULT, "cuMemAllocPitch"},
    {"cuMemAllocPitch", 3020, CU_PROC_DEFAULT, "cuMemAllocPitch_v2"},
    {"cuMemGetAddressRange", 2000, CU_PROC_DEFAULT, "cuMemGetAddressRange"},
    {"cuMemAllocAsync", 11020, CU_PROC_DEFAULT, "cuMemAllocAsync"},
    {"cuMemAllocAsync", 11020, CU_PROC_LEGACY_STREAM, "cuMemAllocAsync"},
    {"cuMemAllocAsync", 11020, CU_PROC_PER_THREAD_STREAM, "cuMemAllocAsync_ptsz"},
    {"cuMemAllocFromPoolAsync", 12000, CU_PROC_DEFAULT, "cuMemAllocFromPoolAsync"},
    {"cuMemAllocFromPoolAsync", 12000, CU_PROC_PER_THREAD_STREAM, "cuMemAllocFromPoolAsync_ptsz"},
    {"cuMemFreeAsync", 12000, CU_PROC_PER_THREAD_STREAM, "cuMemFreeAsync_ptsz"},
    {"cuMemCreate", 12000, CU_PROC_PER_THREAD_STREAM, "cuMemCreate"},
    {"cuIpcOpenMemHandle", 4010, CU_PROC_DEFAULT, "cuIpcOpenMemHandle"},
    {"cuIpcOpenMemHandle", 10020, CU_PROC_DEFAULT, "cuIpcOpenMemHandle"},
    {"cuIpcOpenMemHandle", 11000, CU_PROC_DEFAULT, "cuIpcOpenMemHandle_v2"},
    {"cuGetProcAddress", 11030, CU_PROC_DEFAULT, "cuGetProcAddress"},
    {"cuGetProcAddress", 12000, CU_PROC_DEFAULT, "cuGetProcAddress_v2"},
};

static void versions_and_flags(int peer)
{
	const struct driver *driver = contract_initialise();

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		yields(driver, versions[i].bare, versions[i].version, (cu_uint64)versions[i].flags,
		       versions[i].symbol);
	CHECK(contract_symbol("cuMemAlloc") != contract_symbol("cuMemAlloc_v2"));
	CHECK(contract_symbol("cuMemAllocAsync") != contract_symbol("cuMemAllocAsync_ptsz"));
	CHECK(contract_symbol("cuIpcOpenMemHandle") != contract_symbol("cuIpcOpenMemHandle_v2"));
	CHECK(contract_symbol("cuGetProcAddress") != contract_symbol("cuGetProcAddress_v2"));
}

/* Before cuInit, as cudart asks; by both generations of the call; with and without a status. */
static void every_way_of_asking(int peer)
{
	const struct driver *driver = contract_load();
	cu_proc_status status = (cu_proc_status)-1;
	void *pointer = NULL;

	EXPECT(CU_OK, driver->cuGetProcAddress_v2("cuMemAlloc", &pointer, 12000, 0, NULL));
	CHECK(pointer == (void *)driver->cuMemAlloc_v2);
	pointer = NULL;
	EXPECT(CU_OK, driver->cuGetProcAddress_v2("cuMemAlloc", &pointer, 12000, 0, &status));
	CHECK(pointer == (void *)driver->cuMemAlloc_v2);
	CHECK((int)status == 0);
	pointer = NULL;
	EXPECT(CU_OK, driver->cuGetProcAddress("cuMemAlloc", &pointer, 11030, 0));
	CHECK(pointer == (void *)driver->cuMemAlloc_v2);
}

static void is_not_found(const struct driver *driver, const char *bare, int version, int why)
{
	cu_proc_status status = (cu_proc_status)-1;
	void *pointer = (void *)driver;

	EXPECT(CU_OK, driver->cuGetProcAddress_v2(bare, &pointer, version, 0, &status));
	CHECK(pointer == NULL);
	CHECK((int)status == why);
	pointer = (void *)driver;
	EXPECT(CU_OK, driver->cuGetProcAddress_v2(bare, &pointer, version, 0, NULL));
	CHECK(pointer == NULL);
	pointer = (void *)driver;
	EXPECT(CU_NOT_FOUND, driver->cuGetProcAddress(bare, &pointer, version, 0));
	CHECK(pointer == (void *)driver);
}

/*
 * cuGetProcAddress_v2 returns success and NULL. cuGetProcAddress returns CU_NOT_FOUND and leaves
 * the pointer.
 */
static void what_there_is_not(int peer)
{
	const struct driver *driver = contract_initialise();

	is_not_found(driver, "cuMemAllocNever", 12000, CU_PROC_SYMBOL_NOT_FOUND);
	is_not_found(driver, "cuMemAlloc_v2", 12000, CU_PROC_SYMBOL_NOT_FOUND);
	is_not_found(driver, "cuMemCreate", 4000, CU_PROC_VERSION_INSUFFICIENT);
}

/* Load a copy of the driver's file as a second driver. */
static struct driver load_copy(const struct driver *driver)
{
	char path[] = "/tmp/gpushare.XXXXXX", command[PATH_MAX + 64];
	struct driver copy;
	void *library;
	Dl_info info;

	CHECK(close(mkstemp(path)) == 0);
	CHECK(dladdr((void *)driver->cuInit, &info));
	snprintf(command, sizeof(command), "cat '%s' >'%s'", info.dli_fname, path);
	CHECK(system(command) == 0);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unlink(path);
	CHECK(library != NULL);
	driver_fill(&copy, library);
	CHECK(copy.cuInit != driver->cuInit);
	return copy;
}

/*
 * Only the first driver that starts in a process works. All calls of the other one fail, and they
 * don't disturb the first.
 */
static void one_starts(const struct driver *first, const struct driver *second)
{
	cu_deviceptr pointer;
	cu_context context;

	EXPECT(CU_NOT_INITIALIZED, first->cuCtxGetCurrent(&context));
	EXPECT(CU_OK, first->cuInit(0));
	for (int i = 0; i < 2; i++) {
		EXPECT(CU_OPERATING_SYSTEM, second->cuInit(0));
		EXPECT(CU_NOT_INITIALIZED, second->cuCtxGetCurrent(&context));
		EXPECT(CU_NOT_INITIALIZED, second->cuDevicePrimaryCtxRetain(&context, 0));
		EXPECT(CU_NOT_INITIALIZED, second->cuMemAlloc_v2(&pointer, 1 << 20));
		EXPECT(CU_OK, first->cuDevicePrimaryCtxRetain(&context, 0));
		EXPECT(CU_OK, first->cuCtxSetCurrent(context));
		EXPECT(CU_OK, first->cuMemAlloc_v2(&pointer, 1 << 20));
		EXPECT(CU_NOT_INITIALIZED, second->cuMemFree_v2(pointer));
		EXPECT(CU_OK, first->cuMemFree_v2(pointer));
	}
}

static void second_after_first(int peer)
{
	const struct driver *driver = contract_load();
	const struct driver copy = load_copy(driver);

	one_starts(driver, &copy);
}

static void first_after_second(int peer)
{
	const struct driver *driver = contract_load();
	const struct driver copy = load_copy(driver);

	one_starts(&copy, driver);
}

UNIT_MAIN(ALONE(every_entry_point_is_what_dlsym_gives, every_entry_point),
	  ALONE(version_and_flags_choose_the_symbol, versions_and_flags),
	  ALONE(both_generations_answer_before_init, every_way_of_asking),
	  ALONE(what_there_is_not_is_not_found, what_there_is_not),
	  ALONE(of_two_drivers_the_first_to_start_works, second_after_first),
	  ALONE(of_two_drivers_the_copy_may_start_first, first_after_second))
