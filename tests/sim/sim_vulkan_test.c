/* SPDX-License-Identifier: MIT */
/*
 * Test the simulated Vulkan, beyond what the library's own tests show. It must detect what an
 * application may not do.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio_ext.h>
#include <sys/time.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "sim_calls.h"

#define SIZE (4 * MIB)
#define VISIBLE 4 /* index of the memory type that host and device see */

static PFN_vkGetInstanceProcAddr find;
static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;

#define CALL(name) ((PFN_vk##name)find(instance, "vk" #name))
#define IS(result, call) CHECK((call) == (result))

static void block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

static void start_instance(void)
{
	const VkApplicationInfo application = {
	    .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
	    .apiVersion = VK_API_VERSION_1_1,
	};
	const VkInstanceCreateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
	    .pApplicationInfo = &application,
	};

	find =
	    (PFN_vkGetInstanceProcAddr)dlsym(child_load("libvulkan.so.1"), "vkGetInstanceProcAddr");
	CHECK(find && !CALL(CreateDevice) && !CALL(AllocateMemory));
	block_signals();
	IS(VK_SUCCESS, CALL(CreateInstance)(&info, NULL, &instance));
}

static void start_vulkan(void)
{
	static const char *const extension = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
	static const float priority = 1;
	const VkDeviceQueueCreateInfo queue = {
	    .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
	    .queueFamilyIndex = 1,
	    .queueCount = 1,
	    .pQueuePriorities = &priority,
	};
	const VkDeviceCreateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
	    .queueCreateInfoCount = 1,
	    .pQueueCreateInfos = &queue,
	    .enabledExtensionCount = 1,
	    .ppEnabledExtensionNames = &extension,
	};
	uint32_t count = 1;

	start_instance();
	IS(VK_SUCCESS, CALL(EnumeratePhysicalDevices)(instance, &count, &physical));
	CHECK(count == 1);
	IS(VK_SUCCESS, CALL(CreateDevice)(physical, &info, NULL, &device));
}

/* Create memory by cuMemCreate and let CUDA map it at *out_pointer. Return its descriptor. */
static int make_cuda(cu_deviceptr *out_pointer)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = CU_LOCATION_DEVICE},
	};
	const cu_mem_access access = {{.type = CU_LOCATION_DEVICE}, CU_ACCESS_READ_WRITE};
	cu_mem_handle handle;
	int fd = -1;

	start();
	IS(CU_OK, cu.cuMemCreate(&handle, SIZE, &prop, 0));
	IS(CU_OK, cu.cuMemAddressReserve(out_pointer, SIZE, 0, 0, 0));
	IS(CU_OK, cu.cuMemMap(*out_pointer, SIZE, 0, handle, 0));
	IS(CU_OK, cu.cuMemSetAccess(*out_pointer, SIZE, &access, 1));
	IS(CU_OK, cu.cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
	return fd;
}

static VkResult import(int fd, VkDeviceSize size, VkDeviceMemory *out)
{
	const VkImportMemoryFdInfoKHR from = {
	    .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
	    .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
	    .fd = fd,
	};
	const VkMemoryAllocateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	    .pNext = &from,
	    .allocationSize = size,
	    .memoryTypeIndex = VISIBLE,
	};

	return CALL(AllocateMemory)(device, &info, NULL, out);
}

static char *map(VkDeviceMemory memory)
{
	void *address = NULL;

	IS(VK_SUCCESS, CALL(MapMemory)(device, memory, 0, VK_WHOLE_SIZE, 0, &address));
	return address;
}

static VkDeviceMemory imported(void)
{
	cu_deviceptr pointer;
	VkDeviceMemory memory;
	int fd = make_cuda(&pointer);

	start_vulkan();
	IS(VK_SUCCESS, import(fd, SIZE, &memory));
	return memory;
}

static void misuse_map_twice(void)
{
	VkDeviceMemory memory = imported();

	map(memory);
	map(memory);
}

static void misuse_free_mapped(void)
{
	VkDeviceMemory memory = imported();

	map(memory);
	CALL(FreeMemory)(device, memory, NULL);
}

static void misuse_unmap_twice(void)
{
	VkDeviceMemory memory = imported();

	map(memory);
	CALL(UnmapMemory)(device, memory);
	CALL(UnmapMemory)(device, memory);
}

static void misuse_destroy_early(void)
{
	imported();
	CALL(DestroyDevice)(device, NULL);
}

static void misuse_closed_descriptor(void)
{
	VkDeviceMemory memory;

	imported();
	import(1000, SIZE, &memory);
}

static void misuse_in_a_child(void)
{
	VkDeviceMemory memory = imported();
	int status = 0;

	if (!fork())
		map(memory);
	while (wait(&status) < 0)
		;
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	abort();
}

static void misuse_open_signals(void)
{
	sigset_t none;

	start_instance();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	instance = NULL;
	CALL(CreateInstance)(NULL, NULL, &instance);
}

/* Return the wait status of a child that calls end(3). */
static int ended(void (*end)(int))
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		__fpurge(stdout);	  /* drop what the parent has buffered */
		signal(SIGSEGV, SIG_DFL); /* remove cmocka's handler */
		end(3);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void destroy_device(int unused)
{
	CALL(DestroyDevice)(device, NULL);
	_exit(3);
}

/* Check that end(3) does not return in a process whose forked child called exit(). */
static void stands(void (*end)(int))
{
	static const struct itimerval soon = {.it_value = {.tv_usec = 300000}};
	sigset_t none;
	int status = -1;
	pid_t parent = fork();

	if (!parent) {
		__fpurge(stdout);
		start_vulkan();
		CHECK(ended(_exit) == 3 << 8);
		CHECK(ended(quick_exit) == 3 << 8);
		status = ended(exit);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setitimer(ITIMER_REAL, &soon, NULL);
		end(3);
	}
	CHECK(waitpid(parent, &status, 0) == parent);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

static void body_without_a_device(void)
{
	start_instance();
	CHECK(ended(exit) == 3 << 8);
	CALL(DestroyInstance)(instance, NULL);
}

static void with_a_device(int how)
{
	start_vulkan();
	CHECK(ended(_exit) == 3 << 8);
	CALL(DestroyDevice)(device, NULL);
	exit(how);
}

static void body_with_a_device(void)
{
	CHECK(ended(with_a_device) == 3 << 8);
	stands(exit);
	stands(destroy_device);
}

static void test_exit_in_a_forked_child_ends_it_and_stops_its_parent(void **state)
{
	IN_CHILD(body_without_a_device);
	IN_CHILD(body_with_a_device);
}

static void (*misuse)(void);

/* Misuse in a grandchild, since IN_CHILD requires its own child to exit with 0. */
static void body_misuse(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		fclose(stderr);
		misuse();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void test_misuse_ends_the_process(void **state)
{
	static void (*const all[])(void) = {
	    misuse_map_twice,	      misuse_free_mapped, misuse_unmap_twice,  misuse_destroy_early,
	    misuse_closed_descriptor, misuse_in_a_child,  misuse_open_signals,
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		misuse = all[i];
		IN_CHILD(body_misuse);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_exit_in_a_forked_child_ends_it_and_stops_its_parent),
	    cmocka_unit_test(test_misuse_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
