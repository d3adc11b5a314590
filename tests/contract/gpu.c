/* SPDX-License-Identifier: MIT */
/* The driver that the loader finds, real or simulated, and memory filled with a value. */
#include "contract.h"
#include "cuda/vmm.h"

#include <dlfcn.h>

#define HELD_UP_US 20000

static struct driver table;
static void *library;

/* If there is no driver at all, the test fails. */
const struct driver *contract_load(void)
{
	if (library)
		return &table;
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library != NULL);
	driver_fill(&table, library);
	return &table;
}

void *contract_symbol(const char *name)
{
	contract_load();
	return dlsym(library, name);
}

const struct driver *contract_initialise(void)
{
	const struct driver *driver = contract_load();

	CHECK(driver->cuInit != NULL);
	EXPECT(CU_OK, driver->cuInit(0));
	return driver;
}

const struct driver *contract_context(int ordinal)
{
	const struct driver *driver = contract_initialise();
	cu_device device;
	cu_context context;

	EXPECT(CU_OK, driver->cuDeviceGet(&device, ordinal));
	EXPECT(CU_OK, driver->cuDevicePrimaryCtxRetain(&context, device));
	EXPECT(CU_OK, driver->cuCtxPushCurrent_v2(context));
	return driver;
}

cu_stream contract_stream(void)
{
	cu_stream stream = NULL;

	EXPECT(CU_OK, contract_load()->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	return stream;
}

void *contract_pinned(size_t size)
{
	/* static: gcc 12 would warn that a local variable's address is returned */
	static void *memory;

	EXPECT(CU_OK, contract_load()->cuMemHostAlloc(&memory, size, CU_HOST_ALLOC_PORTABLE));
	return memory;
}

atomic_uint *contract_hold_up(cu_stream stream)
{
	const struct driver *driver = contract_load();
	atomic_uint *word = contract_pinned(4096);

	if (!driver->cuStreamWaitValue32_v2)
		contract_skip("this driver has no cuStreamWaitValue32_v2");
	atomic_store(word, 0);
	EXPECT(CU_OK, driver->cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
	return word;
}

static atomic_bool released;
static pthread_t releaser;

static void *release(void *word)
{
	usleep(HELD_UP_US); /* a call that doesn't wait would return within this time */
	atomic_store(&released, true);
	atomic_store((atomic_uint *)word, 1);
	return NULL;
}

void contract_release_later(atomic_uint *word)
{
	CHECK(pthread_create(&releaser, NULL, release, word) == 0);
}

void contract_was_released(void)
{
	CHECK(atomic_exchange(&released, false));
	CHECK(pthread_join(releaser, NULL) == 0);
}

cu_event contract_recorded(const struct driver *driver, cu_stream stream)
{
	cu_event event = NULL;

	EXPECT(CU_OK, driver->cuEventCreate(&event, CU_EVENT_NO_TIMING));
	EXPECT(CU_OK, driver->cuEventRecord(event, stream));
	return event;
}

bool contract_is_simulated(void)
{
	const struct driver *driver = contract_initialise();
	char name[128] = "";

	EXPECT(CU_OK, driver->cuDeviceGetName(name, sizeof(name), 0));
	return strstr(name, "simulated") != NULL;
}

void contract_need_devices(int count)
{
	const struct driver *driver = contract_initialise();
	int devices;

	EXPECT(CU_OK, driver->cuDeviceGetCount(&devices));
	if (devices < count)
		contract_skip("fewer GPUs are visible than this needs");
}

void contract_fill(cu_deviceptr pointer, size_t size, unsigned char value)
{
	const struct driver *driver = contract_load();

	EXPECT(CU_OK, driver->cuMemsetD8_v2(pointer, value, size));
	EXPECT(CU_OK, driver->cuCtxSynchronize()); /* a memset may return before it is done */
}

cu_deviceptr contract_filled(size_t size, unsigned char value)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK, contract_load()->cuMemAlloc_v2(&pointer, size));
	contract_fill(pointer, size, value);
	return pointer;
}

bool contract_holds(cu_deviceptr pointer, size_t size, unsigned char value)
{
	unsigned char *bytes = malloc(size);
	size_t same = 0;

	CHECK(bytes != NULL);
	EXPECT(CU_OK, contract_load()->cuMemcpyDtoH_v2(bytes, pointer, size));
	while (same < size && bytes[same] == value)
		same++;
	free(bytes);
	return same == size;
}

void contract_shares(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_ipc_mem_handle handle;

	EXPECT(CU_OK, driver->cuIpcGetMemHandle(&handle, contract_filled(3 * CONTRACT_BLOCK, 1)));
	contract_send(peer, &handle, sizeof(handle));
	contract_hear(peer);
}

cu_mem_prop contract_vmm_prop(void)
{
	return (cu_mem_prop){.type = CU_ALLOCATION_PINNED,
			     .requestedHandleTypes = CU_HANDLE_POSIX_FD,
			     .location = {CU_LOCATION_DEVICE, 0}};
}

/* Map at `want` if it is free and not 0. `want` must be a multiple of RANGE_ALIGNMENT. */
cu_deviceptr contract_vmm_map(cu_mem_handle handle, size_t size, cu_deviceptr want, int flags)
{
	const struct driver *driver = contract_load();
	cu_mem_access access = {.location = {CU_LOCATION_DEVICE, 0}, .flags = flags};
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK,
	       driver->cuMemAddressReserve(&pointer, size, want ? RANGE_ALIGNMENT : 0, want, 0));
	EXPECT(CU_OK, driver->cuMemMap(pointer, size, 0, handle, 0));
	EXPECT(CU_OK, driver->cuMemSetAccess(pointer, size, &access, 1));
	return pointer;
}
