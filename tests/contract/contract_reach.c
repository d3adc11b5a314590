/* SPDX-License-Identifier: MIT */
/* FACTS.md, "Legacy CUDA IPC handles": any process that has the 64 bytes can open the handle. */
#include "contract.h"

#include <grp.h>
#include <sys/mount.h>

#define SIZE (3 * CONTRACT_BLOCK)
#define NOBODY 65534

struct offer {
	cu_ipc_mem_handle handle;
	cu_uuid uuid[2]; /* of the owner's devices; the second only if the case uses two */
};

static void owner_on_device_0(int peer, int devices)
{
	struct offer its = {0};
	const struct driver *driver;
	cu_deviceptr pointer;

	contract_need_devices(devices);
	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuIpcGetMemHandle(&its.handle, pointer));
	for (int i = 0; i < devices; i++)
		EXPECT(CU_OK, driver->cuDeviceGetUuid_v2(&its.uuid[i], i));
	contract_send(peer, &its, sizeof(its));
	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, 2));
}

static void owner(int peer)
{
	owner_on_device_0(peer, 1);
}

static void owner_of_two_devices(int peer)
{
	owner_on_device_0(peer, 2);
}

static struct offer offered;

/* Open, read and store with `device` current. */
static void use(int peer, int device)
{
	const struct driver *driver = contract_context(device);
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK,
	       driver->cuIpcOpenMemHandle_v2(&pointer, offered.handle, CU_IPC_LAZY_PEER_ACCESS));
	CHECK(contract_holds(pointer, SIZE, 1));
	contract_fill(pointer, SIZE, 2);
	contract_tell(peer);
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
}

static void another_user(int peer)
{
	contract_receive(peer, &offered, sizeof(offered));
	contract_load(); /* before setuid: its folder may be closed to other users */
	if (geteuid() != 0)
		contract_skip("only root can become another user");
	CHECK(setgroups(0, NULL) == 0);
	CHECK(setgid(NOBODY) == 0);
	CHECK(setuid(NOBODY) == 0);
	/* The simulated driver reads the owner's /proc, and another user may not. */
	if (contract_is_simulated())
		contract_skip("the simulated driver can't open another user's handle");
	use(peer, 0);
}

static void other_ipc_and_mount_namespace(int peer)
{
	contract_receive(peer, &offered, sizeof(offered));
	contract_leave_namespaces(CLONE_NEWIPC);
	use(peer, 0);
}

/* The first process of its pid namespace. cuInit needs a /proc of the same namespace. */
static void first_process(int peer)
{
	CHECK(mount("none", "/proc", "proc", 0, NULL) == 0);
	if (contract_is_simulated())
		contract_skip("the simulated driver finds the owner by its pid");
	use(peer, 0);
}

static void other_pid_namespace(int peer)
{
	contract_receive(peer, &offered, sizeof(offered));
	contract_leave_namespaces(CLONE_NEWIPC | CLONE_NEWPID);
	contract_in_child(first_process, peer);
}

static void another_device_current(int peer)
{
	const struct driver *driver = contract_initialise();
	int reachable = 0;

	contract_receive(peer, &offered, sizeof(offered));
	EXPECT(CU_OK, driver->cuDeviceCanAccessPeer(&reachable, 1, 0));
	if (!reachable)
		contract_skip("device 1 has no peer access to device 0");
	use(peer, 1);
}

static void see_only_the_second_device(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	const char *second = visible ? strchr(visible, ',') : ",1";
	char only[64];

	CHECK(second != NULL); /* two devices are visible, so the variable lists two */
	snprintf(only, sizeof(only), "%.*s", (int)strcspn(second + 1, ","), second + 1);
	CHECK(setenv("CUDA_VISIBLE_DEVICES", only, 1) == 0);
}

/* The owner's device 1 is device 0 here. The memory's device is not visible here at all. */
static void other_visible_devices(int peer)
{
	const struct driver *driver;
	cu_uuid mine;
	int count = 0;

	contract_receive(peer, &offered, sizeof(offered));
	see_only_the_second_device();
	driver = contract_initialise();
	EXPECT(CU_OK, driver->cuDeviceGetCount(&count));
	CHECK(count == 1);
	EXPECT(CU_OK, driver->cuDeviceGetUuid_v2(&mine, 0));
	CHECK(memcmp(&mine, &offered.uuid[1], sizeof(mine)) == 0);
	CHECK(memcmp(&mine, &offered.uuid[0], sizeof(mine)) != 0);
	use(peer, 0);
}

UNIT_MAIN(PAIR(another_user_opens_reads_and_stores, owner, another_user),
	  PAIR(another_ipc_and_mount_namespace_opens_reads_and_stores, owner,
	       other_ipc_and_mount_namespace),
	  PAIR(another_pid_namespace_opens_reads_and_stores, owner, other_pid_namespace),
	  PAIR(another_device_may_be_current, owner_of_two_devices, another_device_current),
	  PAIR(other_devices_visible_and_only_the_uuid_means_the_same, owner_of_two_devices,
	       other_visible_devices))
