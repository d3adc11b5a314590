/* SPDX-License-Identifier: MIT */
/* The host's memory at one address for CPU and GPU: at a NUMA node, in a file, and as managed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "facts.h"

enum host_values {
	LOCATION_HOST = 2,
	LOCATION_HOST_NUMA = 3,
	DEVICE_HOST_POINTER = 91,
	DEVICE_READ_ONLY_REGISTER = 113,
	DEVICE_HOST_NUMA_ID = 134,
	DEVICE_HOST_NUMA_VMM = 141,
	ADVISE_PREFERRED = 3,
};
#define WANTED UINT64_C(0x3a0000000000)
#define ALIGNMENT (32 * MIB)

static int attribute(const char *name, int number)
{
	int value = -9;
	cu_result result =
	    cu.cuDeviceGetAttribute(&value, (cu_device_attribute)number, facts_device);

	facts_say(name, "%s %d", facts_code(result), value);
	return value;
}

static cu_mem_prop host_prop(int location, int id, int handle_types)
{
	cu_mem_prop prop = facts_prop(handle_types);

	prop.location = (cu_mem_location){location, id};
	return prop;
}

static cu_result access_of(cu_deviceptr at, int location, int id, int flags)
{
	const cu_mem_access access = {{location, id}, flags};

	return cu.cuMemSetAccess(at, BLOCK, &access, 1);
}

static cu_deviceptr reserved(cu_mem_handle handle, cu_deviceptr wanted)
{
	cu_deviceptr at = 0;

	facts_must("cuMemAddressReserve", cu.cuMemAddressReserve(&at, BLOCK, ALIGNMENT, wanted, 0));
	facts_must("cuMemMap", cu.cuMemMap(at, BLOCK, 0, handle, 0));
	return at;
}

/* What a program is told of a pointer. */
static void say_attributes(const char *what, cu_deviceptr at)
{
	static const int asked[] = {
	    CU_ATTRIBUTE_CONTEXT,
	    CU_ATTRIBUTE_MEMORY_TYPE,
	    CU_ATTRIBUTE_DEVICE_POINTER,
	    CU_ATTRIBUTE_HOST_POINTER,
	    CU_ATTRIBUTE_IS_MANAGED,
	    CU_ATTRIBUTE_DEVICE_ORDINAL,
	    CU_ATTRIBUTE_LEGACY_IPC_CAPABLE,
	    CU_ATTRIBUTE_RANGE_START,
	    CU_ATTRIBUTE_RANGE_SIZE,
	};
	cu_deviceptr base = 0;
	size_t size = 0;
	char question[96];
	cu_result result;

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		uint64_t value = 0;

		result = cu.cuPointerGetAttribute(&value, (cu_pointer_attribute)asked[i], at);
		snprintf(question, sizeof(question), "%s, attribute %d", what, asked[i]);
		if (value >= at && value < at + BLOCK)
			facts_say(question, "%s pointer%+lld", facts_code(result),
				  (long long)(value - at));
		else
			facts_say(question, "%s %llu", facts_code(result),
				  asked[i] == CU_ATTRIBUTE_CONTEXT ? value != 0ull
								   : (unsigned long long)value);
	}
	result = cu.cuMemGetAddressRange_v2(&base, &size, at);
	facts_say(what, "cuMemGetAddressRange %s size %zu", facts_code(result), size);
}

static void ask_advice(const char *what, cu_deviceptr at)
{
	const cu_mem_location here = {CU_LOCATION_DEVICE, facts_device};
	char question[96];

#define ASK(name, call) \
	snprintf(question, sizeof(question), "%s: %s", what, name); \
	facts_ask(question, call)
	ASK("cuMemPrefetchAsync", cu.cuMemPrefetchAsync(at, BLOCK, facts_device, NULL));
	ASK("cuMemPrefetchAsync_v2", cu.cuMemPrefetchAsync_v2(at, BLOCK, here, 0, NULL));
	ASK("cuMemAdvise", cu.cuMemAdvise(at, BLOCK, ADVISE_PREFERRED, facts_device));
	ASK("cuMemAdvise_v2", cu.cuMemAdvise_v2(at, BLOCK, ADVISE_PREFERRED, here));
	ASK("cuStreamAttachMemAsync", cu.cuStreamAttachMemAsync(NULL, at, 0, 1));
	ASK("cuMemFreeAsync", cu.cuMemFreeAsync(at, NULL));
#undef ASK
}

static void say_both(const char *what, cu_deviceptr at)
{
	volatile unsigned char *byte = (void *)(uintptr_t)at;
	unsigned char copied = 0;
	cu_result result = cu.cuMemsetD8_v2(at, 5, BLOCK);

	cu.cuCtxSynchronize();
	facts_say(what, "cuMemset %s, the CPU loads %d", facts_code(result), *byte);
	*byte = 6;
	result = cu.cuMemcpyDtoH_v2(&copied, at, 1);
	facts_say(what, "the CPU stores 6, cuMemcpyDtoH %s %d", facts_code(result), copied);
}

/* Whether the CPU may load and store there, as the kernel has it. */
static void say_mode(const char *what, cu_deviceptr at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long long from = 0, to = 0;
		char mode[8] = "";

		if (sscanf(line, "%llx-%llx %7s", &from, &to, mode) == 3 && at >= from && at < to)
			facts_say(what, "the CPU's mapping is %s", mode);
	}
	if (maps)
		fclose(maps);
}

static cu_result unregister_bare(void *address)
{
	cu_result result;

	cu.cuCtxSetCurrent(NULL);
	result = cu.cuMemHostUnregister(address);
	cu.cuCtxSetCurrent(facts_context);
	return result;
}

void facts_host_make(void)
{
	cu_mem_handle handle = 0, plain = 0;
	cu_mem_prop prop;
	cu_deviceptr at;
	size_t granule = 0;
	int node, fd = -1;
	void *address;

	facts_start();
	attribute("HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", DEVICE_HOST_NUMA_VMM);
	attribute("CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", DEVICE_HOST_POINTER);
	attribute("READ_ONLY_HOST_REGISTER_SUPPORTED", DEVICE_READ_ONLY_REGISTER);
	node = attribute("HOST_NUMA_ID", DEVICE_HOST_NUMA_ID);
	prop = host_prop(LOCATION_HOST_NUMA, node, CU_HANDLE_POSIX_FD);
	facts_ask("granularity at HOST_NUMA",
		  cu.cuMemGetAllocationGranularity(&granule, &prop, CU_GRANULARITY_MINIMUM));
	facts_say("  bytes", "%zu", granule);
	facts_must("cuMemCreate at HOST_NUMA", cu.cuMemCreate(&handle, BLOCK, &prop, 0));
	prop = host_prop(LOCATION_HOST_NUMA, -1, CU_HANDLE_POSIX_FD);
	facts_ask("cuMemCreate at HOST_NUMA -1", cu.cuMemCreate(&plain, BLOCK, &prop, 0));
	prop = host_prop(LOCATION_HOST, 0, CU_HANDLE_POSIX_FD);
	facts_ask("cuMemCreate at HOST with an fd", cu.cuMemCreate(&plain, BLOCK, &prop, 0));
	at = reserved(handle, WANTED);
	facts_say("reserved where it was wanted", "%s", at == WANTED ? "yes" : "no");
	say_mode("mapped, no access", at);
	facts_ask("access for HOST_NUMA -1",
		  access_of(at, LOCATION_HOST_NUMA, -1, CU_ACCESS_READ_WRITE));
	facts_ask("access for HOST", access_of(at, LOCATION_HOST, 0, CU_ACCESS_READ_WRITE));
	facts_ask("access for HOST_NUMA, reading",
		  access_of(at, LOCATION_HOST_NUMA, 0, CU_ACCESS_READ));
	say_mode("access for reading", at);
	facts_ask("access for HOST_NUMA",
		  access_of(at, LOCATION_HOST_NUMA, 0, CU_ACCESS_READ_WRITE));
	say_mode("access for both", at);
	facts_ask("cuMemcpyDtoH without the device's access",
		  cu.cuMemcpyDtoH_v2(&(char){0}, at, 1));
	facts_ask("access for the device",
		  access_of(at, CU_LOCATION_DEVICE, facts_device, CU_ACCESS_READ_WRITE));
	say_both("at a node", at);
	say_attributes("at a node", at);
	ask_advice("at a node", at);
	facts_must("export", cu.cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
	address = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0);
	facts_say("mmap of its fd", "%s", address == MAP_FAILED ? strerror(errno) : "works");
	facts_ask("cuMemUnmap", cu.cuMemUnmap(at, BLOCK));
	say_mode("unmapped", at);
}

struct message {
	int pid, fd;
	cu_deviceptr at;
};

/* The owner's descriptor: the two are parent and child. */
static int taken(const struct message *its)
{
	int owner = (int)syscall(SYS_pidfd_open, its->pid, 0);
	int fd = owner < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, owner, its->fd, 0);

	if (fd < 0)
		facts_say("GIVEN UP", "pidfd_getfd: %s", strerror(errno));
	return fd;
}

static void import_there(int from, int to)
{
	struct message its;
	cu_mem_handle handle = 0;
	cu_deviceptr at;

	if (!facts_receive(from, &its, sizeof(its)))
		return;
	facts_start();
	facts_must("the peer's import",
		   cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)taken(&its),
						     CU_HANDLE_POSIX_FD));
	at = reserved(handle, its.at);
	facts_say("the peer's address is the owner's", "%s", at == its.at ? "yes" : "no");
	facts_ask("the peer's access for the CPU, reading",
		  access_of(at, LOCATION_HOST_NUMA, 0, CU_ACCESS_READ));
	facts_ask("the peer's access for the device, reading",
		  access_of(at, CU_LOCATION_DEVICE, facts_device, CU_ACCESS_READ));
	facts_ask("the peer's cuMemset, for reading alone", cu.cuMemsetD8_v2(at, 1, BLOCK));
	say_mode("the peer's, for reading alone", at);
	facts_ask("the peer's access for the CPU",
		  access_of(at, LOCATION_HOST_NUMA, 0, CU_ACCESS_READ_WRITE));
	facts_ask("the peer's access for the device",
		  access_of(at, CU_LOCATION_DEVICE, facts_device, CU_ACCESS_READ_WRITE));
	say_both("the peer", at);
	facts_send(to, &its, sizeof(its));
}

void facts_host_share(void)
{
	struct facts_peer peer;
	struct message ours = {.pid = getpid(), .fd = -1};
	cu_mem_handle handle = 0;
	cu_mem_prop prop;
	int node = 0;

	facts_peer_start(&peer, import_there);
	prctl(PR_SET_PTRACER, peer.pid, 0, 0, 0); /* where Yama asks for that */
	facts_start();
	cu.cuDeviceGetAttribute(&node, (cu_device_attribute)DEVICE_HOST_NUMA_ID, facts_device);
	prop = host_prop(LOCATION_HOST_NUMA, node, CU_HANDLE_POSIX_FD);
	facts_must("cuMemCreate", cu.cuMemCreate(&handle, BLOCK, &prop, 0));
	ours.at = reserved(handle, WANTED);
	facts_must("access", access_of(ours.at, LOCATION_HOST_NUMA, 0, CU_ACCESS_READ_WRITE));
	facts_must("access",
		   access_of(ours.at, CU_LOCATION_DEVICE, facts_device, CU_ACCESS_READ_WRITE));
	memset((void *)(uintptr_t)ours.at, 9, BLOCK);
	facts_must("export",
		   cu.cuMemExportToShareableHandle(&ours.fd, handle, CU_HANDLE_POSIX_FD, 0));
	facts_send(peer.to, &ours, sizeof(ours));
	if (facts_receive(peer.from, &ours, sizeof(ours)))
		facts_say("the owner loads what the peer stored", "%d",
			  *(volatile unsigned char *)(uintptr_t)ours.at);
	facts_peer_end(&peer);
}

void facts_host_file(void)
{
	int fd = memfd_create("facts", MFD_CLOEXEC);
	double began;
	void *address;

	facts_start();
	if (fd < 0 || ftruncate(fd, BLOCK))
		facts_must("memfd_create", CU_OPERATING_SYSTEM);
	address = mmap((void *)(uintptr_t)WANTED, BLOCK, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (address == MAP_FAILED)
		facts_must("mmap", CU_OPERATING_SYSTEM);
	began = facts_ms();
	facts_ask("cuMemHostRegister of a memfd",
		  cu.cuMemHostRegister_v2(address, BLOCK, CU_HOST_REGISTER_PORTABLE));
	facts_say("  ms", "%.3f", facts_ms() - began);
	say_both("a registered memfd", WANTED);
	say_attributes("a registered memfd", WANTED);
	ask_advice("a registered memfd", WANTED);
	facts_ask("cuMemHostUnregister without a current context", unregister_bare(address));
	cu.cuMemHostUnregister(address);
	if (mprotect(address, BLOCK, PROT_READ))
		facts_must("mprotect", CU_OPERATING_SYSTEM);
	facts_ask("cuMemHostRegister of what is read-only, ordinarily",
		  cu.cuMemHostRegister_v2(address, BLOCK, CU_HOST_REGISTER_PORTABLE));
	cu.cuMemHostUnregister(address);
	facts_ask("cuMemHostRegister of it for reading alone",
		  cu.cuMemHostRegister_v2(address, BLOCK,
					  CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_READ_ONLY));
	facts_ask("  cuMemset of that", cu.cuMemsetD8_v2(WANTED, 1, BLOCK));
	facts_ask("  cuMemcpyDtoH of that", cu.cuMemcpyDtoH_v2(&(char){0}, WANTED, 1));
}

/* What a program sees that a rule gives the host's memory instead. */
void facts_host_managed(void)
{
	cu_deviceptr at = 0;

	facts_start();
	facts_must("cuMemAllocManaged", cu.cuMemAllocManaged(&at, BLOCK, CU_MANAGED_GLOBAL));
	say_both("managed", at);
	say_attributes("managed", at);
	ask_advice("managed", at);
	facts_ask("cuMemFree of an interior pointer", cu.cuMemFree_v2(at + 4096));
	facts_ask("cuMemFree", cu.cuMemFree_v2(at));
	for (unsigned int flags = 0; flags < 6; flags++) {
		facts_say("cuMemAllocManaged with flags", "%u: %s", flags,
			  facts_code(cu.cuMemAllocManaged(&at, BLOCK, flags)));
	}
}
