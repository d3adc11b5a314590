/* SPDX-License-Identifier: MIT */
/* Host memory at one address: made, mapped, refused; each call failing; hostile descriptors. */
#include "unit.h"

#include "descriptors.h"
#include "stage.h"
#include "cuda/vmm_host.h"

#define BLOCK ((size_t)2 << 20)
#define SIZE (2 * BLOCK)

static const struct driver *with_context(void)
{
	const struct driver *driver = part_driver();
	cu_context context;

	CHECK(driver->cuDevicePrimaryCtxRetain(&context, 0) == CU_OK);
	CHECK(driver->cuCtxSetCurrent(context) == CU_OK);
	return driver;
}

static volatile unsigned char *cpu(const struct vmm_mapping *mapping)
{
	return (void *)(uintptr_t)mapping->pointer;
}

/* The memory is made, exported, unmapped, and mapped again at its address; at another address
 * never. */
static void make_and_map(void)
{
	const struct driver *driver = with_context();
	struct vmm_mapping made, mapped = {.size = 1}, again;
	struct vmm_wish wish = {.read_only = false};
	int before = descriptors_open(), fd = -1;
	unsigned char byte = 0;
	const char *call;

	CHECK(vmm_host_make(driver, SIZE - 5, 0, &made, &call) == CU_OK && made.size == SIZE);
	CHECK(made.file == !made.handle);
	CHECK(driver->cuMemsetD8_v2(made.pointer, 7, SIZE) == CU_OK && cpu(&made)[SIZE - 1] == 7);
	cpu(&made)[1] = 8;
	CHECK(driver->cuMemcpyDtoH_v2(&byte, made.pointer + 1, 1) == CU_OK && byte == 8);
	CHECK(vmm_host_export(driver, &made, &fd) == CU_OK && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(vmm_host_is_file(fd, SIZE) == made.file && !vmm_host_is_file(fd, SIZE + BLOCK));
	wish.address = made.pointer;
	errno = 77;
	CHECK(vmm_host_map(driver, fd, SIZE, 0, &wish, &mapped, &call) == VMM_ADDRESS_TAKEN);
	CHECK(errno == 77 && mapped.size == 1);
	CHECK(vmm_unmap(driver, &made) == CU_OK);
	wish.read_only = true;
	CHECK(vmm_host_map(driver, fd, SIZE, 0, &wish, &mapped, &call) == CU_OK);
	CHECK(mapped.pointer == made.pointer && cpu(&mapped)[1] == 8 && mapped.held == 0);
	CHECK(driver->cuMemsetD8_v2(mapped.pointer, 1, 1) == CU_INVALID_VALUE);
	CHECK(vmm_unmap(driver, &mapped) == CU_OK);
	wish.read_only = false;
	wish.hold = true;
	CHECK(vmm_host_map(driver, fd, SIZE, 0, &wish, &again, &call) == CU_OK && again.held);
	close(fd);
	CHECK(vmm_host_export(driver, &again, &fd) == CU_OK);
	close(fd);
	CHECK(vmm_unmap(driver, &again) == CU_OK);
	CHECK(descriptors_open() == before);
}

static void as_a_file(void)
{
	setenv("GPUSHARE_SIM_HOST_NUMA", "0", 1);
	make_and_map();
}

static void sizes(void)
{
	const struct driver *driver = with_context();
	struct vmm_mapping made = {.size = 1};
	const char *call;

	CHECK(vmm_host_make(driver, 0, 0, &made, &call) == CU_INVALID_VALUE);
	CHECK(vmm_host_make(driver, UINT64_MAX, 0, &made, &call) == CU_OUT_OF_MEMORY);
	CHECK(vmm_host_make(driver, UINT64_C(1) << 47, 0, &made, &call) == CU_OUT_OF_MEMORY);
	CHECK(made.size == 1);
	CHECK(vmm_host_make(driver, 1, 0, &made, &call) == CU_OK && made.size == BLOCK);
	CHECK(vmm_unmap(driver, &made) == CU_OK);
}

static void sizes_of_a_file(void)
{
	setenv("GPUSHARE_SIM_HOST_NUMA", "0", 1);
	sizes();
}

/* Making a NUMA node's memory fails: a lack of memory is returned, after any other failure a
 * file is made. */
static void fail_at(const char *fault, bool memory)
{
	const struct driver *driver;
	struct vmm_mapping made = {.size = 1};
	const char *call;
	int before;

	setenv("GPUSHARE_SIM_FAIL", fault, 1);
	driver = with_context();
	before = descriptors_open();
	CHECK(vmm_host_make(driver, SIZE, 0, &made, &call) == (memory ? CU_OUT_OF_MEMORY : CU_OK));
	CHECK(memory ? made.size == 1 && strstr(fault, call) == fault
		     : made.file && vmm_unmap(driver, &made) == CU_OK);
	CHECK(descriptors_open() == before);
	CHECK(vmm_host_make(driver, SIZE, 0, &made, &call) == CU_OK && !made.file);
	CHECK(vmm_unmap(driver, &made) == CU_OK && descriptors_open() == before);
}

#define FAULTS(X) \
	X(granularity, "cuMemGetAllocationGranularity:1:1:1", false) \
	X(create, "cuMemCreate:1:1:801", false) \
	X(create_memory, "cuMemCreate:1:1:2", true) \
	X(reserve, "cuMemAddressReserve:1:2:1", false) \
	X(map, "cuMemMap:1:1:1", false) \
	X(map_memory, "cuMemMap:1:1:2", true) \
	X(the_cpus_access, "cuMemSetAccess:1:1:101", false) \
	X(the_devices_access, "cuMemSetAccess:2:1:2", true)
#define X(name, fault, memory) \
	static void fail_##name(void) \
	{ \
		fail_at(fault, memory); \
	}
FAULTS(X)
#undef X

static void register_fails(void)
{
	const struct driver *driver;
	struct vmm_mapping made;
	const char *call = NULL;
	int before;

	setenv("GPUSHARE_SIM_HOST_NUMA", "0", 1);
	setenv("GPUSHARE_SIM_FAIL", "cuMemHostRegister:1:1:2,cuMemHostUnregister:1:1:999", 1);
	driver = with_context();
	before = descriptors_open();
	CHECK(vmm_host_make(driver, SIZE, 0, &made, &call) == CU_OUT_OF_MEMORY);
	CHECK(!strcmp(call, "cuMemHostRegister") && descriptors_open() == before);
	CHECK(vmm_host_make(driver, SIZE, 0, &made, &call) == CU_OK);
	CHECK(vmm_unmap(driver, &made) == CU_UNKNOWN); /* it is unmapped all the same */
	CHECK(descriptors_open() == before);
}

/* The registration ends with its context. The rest is unmapped without an error. */
static void context_gone(void)
{
	const struct driver *driver;
	struct vmm_mapping made;
	cu_context context;
	const char *call;

	setenv("GPUSHARE_SIM_HOST_NUMA", "0", 1);
	driver = with_context();
	CHECK(driver->cuCtxCreate_v2(&context, 0, 0) == CU_OK);
	CHECK(vmm_host_make(driver, SIZE, 0, &made, &call) == CU_OK);
	CHECK(driver->cuCtxDestroy_v2(context) == CU_OK);
	cpu(&made)[5] = 1;
	CHECK(vmm_unmap(driver, &made) == CU_OK);
	CHECK(mmap((void *)(uintptr_t)made.pointer, SIZE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		   0) == (void *)(uintptr_t)made.pointer);
}

static void test_failures(void **state)
{
#define X(name, fault, memory) stage_play(fail_##name, NULL);
	FAULTS(X)
#undef X
	stage_play(register_fails, NULL);
	stage_play(context_gone, NULL);
}

/* A descriptor of another process is mapped only if nobody can truncate it, and replaces no
 * mapping of this process. */
static void hostile(void)
{
	const struct driver *driver = with_context();
	struct vmm_wish wish = {.address = UINT64_C(0x3a0000000000)};
	struct vmm_mapping mapped = {.size = 1};
	int loose = memfd_create("loose", MFD_ALLOW_SEALING), zero = open("/dev/zero", O_RDWR),
	    pair[2];
	volatile unsigned char mine = 5;
	const char *call;

	CHECK(loose >= 0 && zero >= 0 && !pipe(pair) && !ftruncate(loose, SIZE));
	CHECK(!vmm_host_is_file(loose, SIZE) && !vmm_host_is_file(zero, 0));
	CHECK(!vmm_host_is_file(pair[0], 0) && !vmm_host_is_file(-1, 0));
	CHECK(vmm_host_map(driver, loose, SIZE, 0, &wish, &mapped, &call) == CU_INVALID_VALUE);
	CHECK(vmm_host_map(driver, zero, SIZE, 0, &wish, &mapped, &call) == CU_INVALID_VALUE);
	CHECK(vmm_host_map(driver, pair[1], SIZE, 0, &wish, &mapped, &call) == CU_INVALID_VALUE);
	CHECK(!strcmp(call, "cuMemImportFromShareableHandle"));
	CHECK(!fcntl(loose, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	CHECK(vmm_host_is_file(loose, SIZE) && !vmm_host_is_file(loose, SIZE - 1));
	wish.address = (uintptr_t)&mine & ~(uint64_t)(BLOCK - 1);
	CHECK(vmm_host_map(driver, loose, SIZE, 0, &wish, &mapped, &call) == VMM_ADDRESS_TAKEN);
	wish.address = UINT64_C(0x3a0000000001);
	CHECK(vmm_host_map(driver, loose, SIZE, 0, &wish, &mapped, &call) == CU_OUT_OF_MEMORY);
	wish.address = UINT64_C(0xfff0000000000000); /* under an emulator it counts as taken */
	CHECK(vmm_host_map(driver, loose, SIZE, 0, &wish, &mapped, &call) != CU_OK);
	CHECK(mine == 5 && mapped.size == 1);
	wish.address = UINT64_C(0x3a0000000000);
	CHECK(vmm_host_map(driver, loose, SIZE, 0, &wish, &mapped, &call) == CU_OK && mapped.file);
	CHECK(ftruncate(loose, 0) < 0 && errno == EPERM && cpu(&mapped)[SIZE - 1] == 0);
	CHECK(vmm_unmap(driver, &mapped) == CU_OK);
}

STAGE_MAIN(SCENE(make_and_map), SCENE(as_a_file), SCENE(sizes), SCENE(sizes_of_a_file),
	   STAGED(test_failures), SCENE(hostile))
