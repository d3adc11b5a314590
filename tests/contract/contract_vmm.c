/* SPDX-License-Identifier: MIT */
/* FACTS.md, "VMM allocations": legacy handles, lifetime, addresses and protection. */
#include "contract.h"
#include "cuda/vmm.h"

#define SIZE (2 * CONTRACT_BLOCK)
#define VALUE 0x5a
#define LOCATION_HOST 2
#define HANDLE_FABRIC 8
#define DEVICE_DMA_BUF_MMAP ((cu_device_attribute)152) /* of CUDA 13.3 */

static cu_mem_handle created(void)
{
	const struct driver *driver = contract_load();
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;

	EXPECT(CU_OK, driver->cuMemCreate(&handle, SIZE, &prop, 0));
	return handle;
}

static void granularity(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;
	size_t bytes = 0;

	EXPECT(CU_OK, driver->cuMemGetAllocationGranularity(
			  &bytes, &prop, (cu_granularity_flags)CU_GRANULARITY_MINIMUM));
	CHECK(bytes == CONTRACT_BLOCK);
	EXPECT(CU_INVALID_VALUE, driver->cuMemCreate(&handle, bytes + 512, &prop, 0));
}

static void no_legacy_handle(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = contract_vmm_map(created(), SIZE, 0, CU_ACCESS_READ_WRITE);
	cu_ipc_mem_handle handle = {0};

	contract_fill(pointer, SIZE, VALUE);
	EXPECT(CU_INVALID_VALUE, driver->cuIpcGetMemHandle(&handle, pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcGetMemHandle(&handle, pointer + CONTRACT_BLOCK));
	CHECK(contract_holds(pointer, SIZE, VALUE));
}

static void retained(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_mem_handle handle = created(), again = 0;
	cu_deviceptr pointer = contract_vmm_map(handle, SIZE, 0, CU_ACCESS_READ_WRITE);
	cu_mem_handle none = 0;

	EXPECT(CU_OK, driver->cuMemRetainAllocationHandle(
			  &again, (void *)(uintptr_t)(pointer + CONTRACT_BLOCK)));
	CHECK(again == handle);
	EXPECT(CU_OK, driver->cuMemRelease(handle));
	EXPECT(CU_OK, driver->cuMemRelease(again)); /* cuMemRetainAllocationHandle counted it */
	contract_fill(pointer, SIZE, VALUE);
	CHECK(contract_holds(pointer, SIZE, VALUE));
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_INVALID_VALUE,
	       driver->cuMemRetainAllocationHandle(&none, (void *)(uintptr_t)pointer));
}

static cu_result exported(cu_mem_handle handle, int *fd)
{
	return contract_load()->cuMemExportToShareableHandle(fd, handle,
							     (cu_handle_type)CU_HANDLE_POSIX_FD, 0);
}

/* While the memory is mapped, its released handle can still be exported and retained. */
static void released(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_mem_handle handle = created(), again = 0;
	cu_deviceptr pointer = contract_vmm_map(handle, SIZE, 0, CU_ACCESS_READ_WRITE);
	int fd = -1;

	EXPECT(CU_OK, driver->cuMemRelease(handle));
	EXPECT(CU_INVALID_VALUE, driver->cuMemRelease(handle));
	EXPECT(CU_INVALID_VALUE, driver->cuMemRelease(0));
	EXPECT(CU_OK, exported(handle, &fd));
	EXPECT(CU_OK, driver->cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)pointer));
	EXPECT(CU_OK, exported(again, &fd));
	EXPECT(CU_OK, driver->cuMemUnmap(pointer, SIZE));
	EXPECT(CU_OK, driver->cuMemRelease(again));
}

static cu_result created_as(cu_mem_handle *handle, int handle_types, int compression)
{
	cu_mem_prop prop = contract_vmm_prop();

	prop.requestedHandleTypes = (cu_handle_type)handle_types;
	prop.allocFlags.compressionType = (unsigned char)compression;
	return contract_load()->cuMemCreate(handle, SIZE, &prop, 0);
}

static void handle_types(int peer)
{
	cu_mem_handle handle = 0;
	char fabric[64];
	int fd = -1;

	contract_context(0);
	for (int compression = 0; compression < 2; compression++) {
		EXPECT(CU_OK, created_as(&handle, 0, compression));
		EXPECT(CU_INVALID_VALUE, exported(handle, &fd));
		EXPECT(CU_OK, created_as(&handle, CU_HANDLE_POSIX_FD, compression));
		EXPECT(CU_OK, exported(handle, &fd));
		EXPECT(CU_INVALID_VALUE, contract_load()->cuMemExportToShareableHandle(
					     fabric, handle, (cu_handle_type)HANDLE_FABRIC, 0));
	}
	if (created_as(&handle, HANDLE_FABRIC, 0) == CU_OK)
		contract_skip("this machine grants fabric handles");
	EXPECT(CU_NOT_PERMITTED, created_as(&handle, HANDLE_FABRIC, 0));
	EXPECT(CU_NOT_PERMITTED, created_as(&handle, HANDLE_FABRIC | CU_HANDLE_POSIX_FD, 0));
}

static void no_host_access(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = contract_vmm_map(created(), SIZE, 0, CU_ACCESS_READ_WRITE);
	cu_mem_access host = {.location = {LOCATION_HOST, 0}, .flags = CU_ACCESS_READ_WRITE};

	EXPECT(CU_NOT_SUPPORTED, driver->cuMemSetAccess(pointer, SIZE, &host, 1));
}

/*
 * Driver 580 exports device memory as a dma-buf, but mmap of that fails with errno 524. From CUDA
 * 13.3 on an attribute says where mmap works.
 */
static void dma_buf(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = contract_vmm_map(created(), SIZE, 0, CU_ACCESS_READ_WRITE);
	int can_export = 0, can_map = 0, fd = -1;
	void *address;

	EXPECT(CU_OK, driver->cuDeviceGetAttribute(&can_export,
						   (cu_device_attribute)CU_DEVICE_DMA_BUF, 0));
	if (!can_export)
		contract_skip("this device makes no dma-buf");
	if (driver->cuDeviceGetAttribute(&can_map, DEVICE_DMA_BUF_MMAP, 0) != CU_OK)
		can_map = 0;
	EXPECT(CU_OK, driver->cuMemGetHandleForAddressRange(
			  &fd, pointer, SIZE, (cu_range_handle_type)CU_RANGE_DMA_BUF_FD, 0));
	address = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK((address != MAP_FAILED) == (can_map != 0));
}

/* Fill a buffer; send its address and its fd. */
static cu_deviceptr offer(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_mem_handle handle = created();
	cu_deviceptr pointer =
	    contract_vmm_map(handle, SIZE, range_pick(SIZE), CU_ACCESS_READ_WRITE);
	int fd = -1;

	contract_fill(pointer, SIZE, VALUE);
	EXPECT(CU_OK, driver->cuMemExportToShareableHandle(&fd, handle,
							   (cu_handle_type)CU_HANDLE_POSIX_FD, 0));
	contract_send(peer, &pointer, sizeof(pointer));
	contract_send_fd(peer, fd);
	return pointer;
}

static cu_deviceptr reserved(size_t size, size_t alignment, cu_deviceptr wanted)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK, contract_load()->cuMemAddressReserve(&pointer, size, alignment, wanted, 0));
	return pointer;
}

/*
 * vmm_make() relies on this: the driver grants a requested address that is free, and no other that
 * is in use.
 */
static void hinted(int peer)
{
	static const size_t sizes[] = {CONTRACT_BLOCK, SIZE, RANGE_ALIGNMENT, 3 * RANGE_ALIGNMENT};
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = 0, other;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		cu_deviceptr wanted = range_pick(sizes[i]);

		pointer = reserved(sizes[i], RANGE_ALIGNMENT, wanted);
		CHECK(wanted && pointer == wanted);
		other = reserved(sizes[i], RANGE_ALIGNMENT, wanted);
		CHECK(other != wanted);
		EXPECT(CU_OK, driver->cuMemAddressFree(other, sizes[i]));
		EXPECT(CU_INVALID_VALUE,
		       driver->cuMemAddressReserve(&other, sizes[i], RANGE_ALIGNMENT,
						   wanted + CONTRACT_BLOCK, 0));
		EXPECT(CU_OK, driver->cuMemAddressFree(pointer, sizes[i]));
	}
	CHECK(reserved(SIZE, 0, pointer) != pointer); /* no alignment: taken from a pool */
	pointer = contract_vmm_map(created(), SIZE, pointer, CU_ACCESS_READ_WRITE);
	contract_fill(pointer, SIZE, VALUE);
	CHECK(contract_holds(pointer, SIZE, VALUE));
}

/* One call gives all devices access, even devices whose peer access was never enabled. */
static void access_for_all(int peer)
{
	const struct driver *driver;
	cu_mem_access access[2] = {{{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE},
				   {{CU_LOCATION_DEVICE, 1}, CU_ACCESS_READ_WRITE}};
	cu_mem_handle handle;
	cu_deviceptr pointer;
	int can = 0;

	contract_need_devices(2);
	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuDeviceCanAccessPeer(&can, 1, 0));
	if (!can)
		contract_skip("the devices can't peer");
	handle = created();
	pointer = contract_vmm_map(handle, SIZE, 0, CU_ACCESS_READ_WRITE);
	EXPECT(CU_OK, driver->cuMemSetAccess(pointer, SIZE, access, 2));
	contract_fill(pointer, SIZE, VALUE);
	contract_context(1);
	CHECK(contract_holds(pointer, SIZE, VALUE));
	contract_fill(pointer, SIZE, VALUE + 1);
	CHECK(contract_holds(pointer, SIZE, VALUE + 1));
}

static cu_mem_handle imported(int fd)
{
	cu_mem_handle handle = 0;

	EXPECT(CU_OK, contract_load()->cuMemImportFromShareableHandle(
			  &handle, (void *)(intptr_t)fd, (cu_handle_type)CU_HANDLE_POSIX_FD));
	return handle;
}

static void owner_that_waits(int peer)
{
	cu_deviceptr pointer = offer(peer);

	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, VALUE + 1));
}

static void owner_that_exits(int peer)
{
	offer(peer);
	contract_hear(peer);
}

static void owner_that_is_killed(int peer)
{
	offer(peer);
	contract_hear(peer);
	raise(SIGKILL);
}

/* Each export is a separate descriptor. An imported handle can't be exported. */
static void exported_twice(int peer)
{
	cu_mem_handle handle, again;
	int fd[2] = {-1, -1}, none = -1;

	contract_context(0);
	handle = created();
	for (int i = 0; i < 2; i++) {
		EXPECT(CU_OK, exported(handle, &fd[i]));
		CHECK(fcntl(fd[i], F_GETFD) == FD_CLOEXEC);
	}
	CHECK(fd[0] != fd[1]);
	again = imported(fd[0]);
	CHECK(again != handle);
	EXPECT(CU_INVALID_VALUE, exported(again, &none));
}

static void same_address(int peer)
{
	cu_deviceptr its;
	cu_deviceptr pointer;
	cu_mem_handle handle;

	contract_receive(peer, &its, sizeof(its));
	contract_context(0);
	handle = imported(contract_receive_fd(peer));
	pointer = contract_vmm_map(handle, SIZE, its, CU_ACCESS_READ_WRITE);
	CHECK(pointer == its);
	CHECK(contract_holds(pointer, SIZE, VALUE));
	contract_fill(pointer, SIZE, VALUE + 1);
	contract_tell(peer);
}

static int kept_fd;

static void later_process(int peer)
{
	cu_deviceptr pointer;

	contract_context(0);
	pointer = contract_vmm_map(imported(kept_fd), SIZE, 0, CU_ACCESS_READ_WRITE);
	CHECK(contract_holds(pointer, SIZE, VALUE));
}

/* Hold the fd and nothing else of CUDA while the owner ends; then start other processes. */
static void keeper(int peer)
{
	cu_deviceptr its;

	contract_receive(peer, &its, sizeof(its));
	kept_fd = contract_receive_fd(peer);
	contract_tell(peer);
	contract_await_owner_end();
	contract_in_child(later_process, -1);
	contract_in_child(later_process, -1);
}

static void owner_unharmed(int peer)
{
	cu_deviceptr pointer = offer(peer);

	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, VALUE));
	contract_fill(pointer, SIZE, VALUE + 1);
	contract_tell(peer);
	contract_hear(peer);
}

static void reader(int peer)
{
	cu_deviceptr its;
	const struct driver *driver;
	cu_deviceptr pointer;
	char bytes[64] = {0};

	contract_receive(peer, &its, sizeof(its));
	driver = contract_context(0);
	pointer = contract_vmm_map(imported(contract_receive_fd(peer)), SIZE, 0, CU_ACCESS_READ);
	CHECK(contract_holds(pointer, SIZE, VALUE));
	EXPECT(CU_INVALID_VALUE, driver->cuMemsetD8_v2(pointer, 1, 64));
	EXPECT(CU_INVALID_VALUE, driver->cuMemsetD32_v2(pointer, 1, 16));
	EXPECT(CU_INVALID_VALUE, driver->cuMemcpyHtoD_v2(pointer, bytes, sizeof(bytes)));
	contract_tell(peer);
	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, VALUE + 1));
	contract_tell(peer);
}

UNIT_MAIN(ALONE(granularity_is_2_mib, granularity),
	  ALONE(a_vmm_pointer_has_no_legacy_handle, no_legacy_handle),
	  ALONE(retaining_a_mapping_counts_one_more_handle, retained),
	  ALONE(a_released_handle_is_known_while_mapped, released),
	  ALONE(a_handle_is_exported_as_what_it_was_asked_for, handle_types),
	  ALONE(each_export_is_a_descriptor_and_an_import_has_none, exported_twice),
	  ALONE(an_address_that_is_asked_for_is_given_if_free, hinted),
	  ALONE(one_call_gives_access_to_several_devices, access_for_all),
	  ALONE(the_cpu_gets_no_access_to_device_memory, no_host_access),
	  ALONE(a_dma_buf_is_mapped_where_an_attribute_says_so, dma_buf),
	  PAIR(the_importer_gets_the_owners_address, owner_that_waits, same_address),
	  PAIR(an_fd_keeps_the_memory_when_the_owner_exits, owner_that_exits, keeper),
	  CONTRACT_TEST(an_fd_keeps_the_memory_when_the_owner_is_killed,
			.owner = owner_that_is_killed, .importer = keeper, .owner_is_killed = true),
	  PAIR(read_only_is_enforced_and_the_owner_unharmed, owner_unharmed, reader))
