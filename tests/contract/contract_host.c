/* SPDX-License-Identifier: MIT */
/* FACTS.md, "Host access": host memory at one address for CPU and GPU, in two processes. */
#include "contract.h"

#include "cuda/vmm.h"

#define SIZE (2 * CONTRACT_BLOCK)
#define VALUE 0x5a
/* of CUDA 12.2 */
#define LOCATION_HOST_NUMA 3
#define DEVICE_HOST_NUMA_ID ((cu_device_attribute)134)
#define DEVICE_HOST_NUMA_VMM ((cu_device_attribute)141)
#define DEVICE_READ_ONLY_REGISTER ((cu_device_attribute)113)

static int device_has(cu_device_attribute attribute)
{
	int value = 0;

	if (contract_load()->cuDeviceGetAttribute(&value, attribute, 0) != CU_OK)
		return 0;
	return value;
}

static cu_mem_handle created(void)
{
	const struct driver *driver = contract_load();
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;
	size_t granule = 0;

	if (!device_has(DEVICE_HOST_NUMA_VMM))
		contract_skip("this driver makes no memory at a NUMA node of the host");
	prop.location = (cu_mem_location){LOCATION_HOST_NUMA, device_has(DEVICE_HOST_NUMA_ID)};
	EXPECT(CU_OK, driver->cuMemGetAllocationGranularity(
			  &granule, &prop, (cu_granularity_flags)CU_GRANULARITY_MINIMUM));
	CHECK(granule && SIZE % granule == 0);
	EXPECT(CU_OK, driver->cuMemCreate(&handle, SIZE, &prop, 0));
	return handle;
}

/* For the CPU's access the node number does not matter (0 here), and only host memory grants it. */
static cu_result let_in(cu_deviceptr pointer, int location, int flags)
{
	const cu_mem_access access = {{location, 0}, flags};

	return contract_load()->cuMemSetAccess(pointer, SIZE, &access, 1);
}

static cu_deviceptr mapped(cu_mem_handle handle, cu_deviceptr want, int flags)
{
	const struct driver *driver = contract_load();
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK,
	       driver->cuMemAddressReserve(&pointer, SIZE, want ? RANGE_ALIGNMENT : 0, want, 0));
	EXPECT(CU_OK, driver->cuMemMap(pointer, SIZE, 0, handle, 0));
	EXPECT(CU_OK, let_in(pointer, LOCATION_HOST_NUMA, flags));
	EXPECT(CU_OK, let_in(pointer, CU_LOCATION_DEVICE, flags));
	return pointer;
}

static bool cpu_sees(cu_deviceptr pointer, unsigned char value)
{
	const volatile unsigned char *bytes = (const void *)(uintptr_t)pointer;

	for (size_t i = 0; i < SIZE; i += 509)
		if (bytes[i] != value)
			return false;
	return true;
}

static void cpu_fills(cu_deviceptr pointer, unsigned char value)
{
	memset((void *)(uintptr_t)pointer, value, SIZE);
}

static void both(int peer)
{
	cu_deviceptr pointer;

	contract_context(0);
	pointer = mapped(created(), range_pick(SIZE), CU_ACCESS_READ_WRITE);
	contract_fill(pointer, SIZE, VALUE);
	CHECK(cpu_sees(pointer, VALUE));
	cpu_fills(pointer, VALUE + 1);
	CHECK(contract_holds(pointer, SIZE, VALUE + 1));
}

static void no_node_for_the_devices(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;
	cu_deviceptr pointer;

	EXPECT(CU_OK, driver->cuMemCreate(&handle, SIZE, &prop, 0));
	pointer = contract_vmm_map(handle, SIZE, 0, CU_ACCESS_READ_WRITE);
	CHECK(let_in(pointer, LOCATION_HOST_NUMA, CU_ACCESS_READ_WRITE) != CU_OK);
}

/* Offer memory that the CPU has filled, and wait until the importer has used it. */
static cu_deviceptr offered(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_mem_handle handle = created();
	cu_deviceptr pointer = mapped(handle, range_pick(SIZE), CU_ACCESS_READ_WRITE);
	int fd = -1;

	cpu_fills(pointer, VALUE);
	EXPECT(CU_OK, driver->cuMemExportToShareableHandle(&fd, handle,
							   (cu_handle_type)CU_HANDLE_POSIX_FD, 0));
	contract_send(peer, &pointer, sizeof(pointer));
	contract_send_fd(peer, fd);
	contract_hear(peer);
	return pointer;
}

static void offer(int peer)
{
	cu_deviceptr pointer = offered(peer);

	CHECK(cpu_sees(pointer, VALUE + 1) && contract_holds(pointer, SIZE, VALUE + 1));
	contract_tell(peer);
}

static cu_deviceptr taken(int peer, int flags)
{
	cu_mem_handle handle = 0;
	cu_deviceptr its, pointer;

	contract_receive(peer, &its, sizeof(its));
	contract_context(0);
	EXPECT(CU_OK, contract_load()->cuMemImportFromShareableHandle(
			  &handle, (void *)(intptr_t)contract_receive_fd(peer),
			  (cu_handle_type)CU_HANDLE_POSIX_FD));
	pointer = mapped(handle, its, flags);
	CHECK(pointer == its);
	CHECK(cpu_sees(pointer, VALUE) && contract_holds(pointer, SIZE, VALUE));
	return pointer;
}

static void take(int peer)
{
	cpu_fills(taken(peer, CU_ACCESS_READ_WRITE), VALUE + 1);
	contract_tell(peer);
	contract_hear(peer);
}

static void owner_that_writes(int peer)
{
	CHECK(cpu_sees(offered(peer), VALUE));
}

static void read_only(int peer)
{
	cu_deviceptr pointer = taken(peer, CU_ACCESS_READ);

	EXPECT(CU_INVALID_VALUE, contract_load()->cuMemsetD8_v2(pointer, 1, 64));
	contract_tell(peer);
}

static void *mapped_file(int fd, cu_deviceptr want, int protection)
{
	void *address = mmap((void *)(uintptr_t)want, SIZE, protection,
			     MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);

	CHECK(address == (void *)(uintptr_t)want);
	return address;
}

static void offer_file(int peer)
{
	const struct driver *driver = contract_context(0);
	int fd = memfd_create("contract", MFD_CLOEXEC);
	cu_deviceptr want = range_pick(SIZE);
	void *address;

	CHECK(fd >= 0 && !ftruncate(fd, SIZE));
	address = mapped_file(fd, want, PROT_READ | PROT_WRITE);
	EXPECT(CU_OK, driver->cuMemHostRegister_v2(address, SIZE, CU_HOST_REGISTER_PORTABLE));
	contract_fill(want, SIZE, VALUE);
	CHECK(cpu_sees(want, VALUE));
	contract_send(peer, &want, sizeof(want));
	contract_send_fd(peer, fd);
	contract_hear(peer);
	EXPECT(CU_OK, driver->cuMemHostUnregister(address));
	EXPECT(713, driver->cuMemHostUnregister(address));
	contract_tell(peer);
}

/* In each process that registers the file, the GPU's address is the CPU's address. */
static void take_file(int peer)
{
	const struct driver *driver;
	cu_deviceptr its;
	void *address;
	int fd;

	contract_receive(peer, &its, sizeof(its));
	fd = contract_receive_fd(peer);
	driver = contract_context(0);
	CHECK(device_has((cu_device_attribute)CU_DEVICE_HOST_POINTER_REGISTERED));
	address = mapped_file(fd, its, PROT_READ | PROT_WRITE);
	EXPECT(CU_OK, driver->cuMemHostRegister_v2(address, SIZE, CU_HOST_REGISTER_PORTABLE));
	CHECK(contract_holds(its, SIZE, VALUE));
	contract_fill(its, SIZE, VALUE + 1);
	CHECK(cpu_sees(its, VALUE + 1));
	contract_tell(peer);
	contract_hear(peer);
	EXPECT(CU_OK, driver->cuMemHostUnregister(address));
}

static void read_file(int peer)
{
	const struct driver *driver;
	cu_deviceptr its;
	void *address;
	int fd;

	contract_receive(peer, &its, sizeof(its));
	fd = contract_receive_fd(peer);
	driver = contract_context(0);
	if (!device_has(DEVICE_READ_ONLY_REGISTER))
		contract_skip("this device registers no memory for reading alone");
	address = mapped_file(fd, its, PROT_READ);
	EXPECT(CU_OK, driver->cuMemHostRegister_v2(
			  address, SIZE, CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_READ_ONLY));
	CHECK(contract_holds(its, SIZE, VALUE));
	contract_tell(peer);
	contract_hear(peer);
}

UNIT_MAIN(ALONE(cpu_and_gpu_have_it_at_one_address, both),
	  ALONE(the_devices_own_memory_is_not_a_nodes, no_node_for_the_devices),
	  PAIR(another_process_has_it_there_too, offer, take),
	  PAIR(an_importer_may_have_it_for_reading_alone, owner_that_writes, read_only),
	  PAIR(a_registered_file_is_at_one_address_too, offer_file, take_file),
	  PAIR(a_registered_file_may_be_for_reading_alone, offer_file, read_file))
