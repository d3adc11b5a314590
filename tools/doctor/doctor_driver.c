/* SPDX-License-Identifier: MIT */
/* Checks of the CUDA driver and its GPUs. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aside.h"
#include "common/beside.h"
#include "common/tool.h"
#include "cuda/cuda_abi.h"
#include "doctor.h"

#define AREA "driver"
#define LIBRARY "libcuda.so.1"
#define PATIENCE_MS 30000	       /* many GPUs without persistence mode start slowly */
#define COMPUTE_MODE 20		       /* CU_DEVICE_ATTRIBUTE_COMPUTE_MODE */
#define OLDEST 11000		       /* CUDA 11 */
#define SIMULATED "gpushare simulated" /* part of the device names in tests/sim */

/* X(name): the driver functions that this file calls */
#define ASKED(X) \
	X(cuInit) \
	X(cuDriverGetVersion) \
	X(cuDeviceGetCount) \
	X(cuDeviceGet) \
	X(cuDeviceGetName) \
	X(cuDeviceTotalMem_v2) \
	X(cuDeviceGetAttribute) X(cuGetErrorName)

struct calls {
#define X(name) cu_##name##_call *name;
	ASKED(X)
#undef X
	cu_cuDeviceGetUuid_v2_call *uuid; /* or the older cuDeviceGetUuid */
};

static bool find_calls(void *library, struct calls *calls, struct driver_facts *facts)
{
#define X(name) \
	calls->name = (cu_##name##_call *)dlsym(library, #name); \
	if (!calls->name) \
		snprintf(facts->words, sizeof(facts->words), "%s", #name);
	ASKED(X)
#undef X
	calls->uuid = (cu_cuDeviceGetUuid_v2_call *)dlsym(library, "cuDeviceGetUuid_v2");
	if (!calls->uuid)
		calls->uuid = (cu_cuDeviceGetUuid_v2_call *)dlsym(library, "cuDeviceGetUuid");
	if (!calls->uuid)
		snprintf(facts->words, sizeof(facts->words), "cuDeviceGetUuid");
	return !*facts->words;
}

static void ask_gpu(const struct calls *calls, int ordinal, struct driver_gpu *gpu)
{
	cu_device device = 0;
	size_t memory = 0;

	calls->cuDeviceGet(&device, ordinal);
	calls->cuDeviceGetName(gpu->name, sizeof(gpu->name), device);
	calls->uuid((cu_uuid *)gpu->uuid, device);
	calls->cuDeviceTotalMem_v2(&memory, device);
	gpu->memory = memory;
	calls->cuDeviceGetAttribute(&gpu->vmm, CU_DEVICE_VMM_SUPPORTED, device);
	calls->cuDeviceGetAttribute(&gpu->descriptors, CU_DEVICE_POSIX_FD_SUPPORTED, device);
	calls->cuDeviceGetAttribute(&gpu->compute_mode, (cu_device_attribute)COMPUTE_MODE, device);
}

/* Runs in the child process of aside_do(). */
static void ask(void *room)
{
	struct driver_facts *facts = room;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *name = NULL;
	struct link_map *map;
	struct calls calls;

	if (!library) {
		snprintf(facts->words, sizeof(facts->words), "%s", dlerror());
		return;
	}
	facts->loaded = true;
	if (!dlinfo(library, RTLD_DI_LINKMAP, &map) && !realpath(map->l_name, facts->path))
		snprintf(facts->path, sizeof(facts->path), "%s", map->l_name);
	facts->old = !find_calls(library, &calls, facts);
	if (facts->old)
		return;
	calls.cuDriverGetVersion(&facts->version);
	facts->init = (int)calls.cuInit(0);
	calls.cuGetErrorName((cu_result)facts->init, &name);
	snprintf(facts->init_name, sizeof(facts->init_name), "%s", name ? name : "an error");
	if (facts->init || calls.cuDeviceGetCount(&facts->count))
		return;
	for (int i = 0; i < facts->count && i < DOCTOR_GPUS_MAX; i++)
		ask_gpu(&calls, i, &facts->gpus[i]);
}

/* X(CUresult of cuInit(), the next step) */
#define INIT_ERRORS(X) \
	X(100, \
	  "see what CUDA_VISIBLE_DEVICES hides; in a container, give it the GPUs (--gpus all)") \
	X(802, "start nvidia-fabricmanager, or wait for it: the GPUs' links are not up yet") \
	X(803, "libcuda and the kernel module have different versions: reboot after a driver's " \
	       "update, or give the container the host's libcuda") \
	X(804, "remove CUDA's forward compatibility package (cuda-compat): this GPU or driver " \
	       "can't use it") \
	X(999, "see 'dmesg' for NVRM and Xid; /dev/nvidia-uvm may be missing (nvidia-modprobe " \
	       "-u)")

static const char *init_next(int init)
{
	switch (init) {
#define X(number, next) \
	case number: \
		return next;
		INIT_ERRORS(X)
#undef X
	}
	return "see whether nvidia-smi works, and 'dmesg' for NVRM";
}

static void say_gpu(const struct driver_gpu *gpu, int ordinal, struct doctor_found *found)
{
	char uuid[TOOL_TEXT_MAX], memory[TOOL_TEXT_MAX];

	tool_format_uuid(gpu->uuid, uuid);
	tool_format_size(gpu->memory, memory);
	doctor_ok(AREA, "GPU %d is %s, %s, %s", ordinal, gpu->name, memory, uuid);
	if (!gpu->vmm || !gpu->descriptors) {
		found->vmm = false;
		doctor_warn(AREA, NULL,
			    "GPU %d can't export cuMemCreate memory as a file descriptor", ordinal);
	}
	if (!gpu->compute_mode)
		return;
	found->alone = true;
	doctor_fail(AREA,
		    gpu->compute_mode == 2 ? "run 'nvidia-smi -c DEFAULT'"
					   : "run 'nvidia-smi -c DEFAULT', or use MPS",
		    "GPU %d is in a compute mode in which %s can have a context on it", ordinal,
		    gpu->compute_mode == 2 ? "no process" : "only one process at a time");
}

static void say_module(void)
{
	char line[DOCTOR_WORDS_MAX];

	if (!doctor_read_line("/proc/driver/nvidia/version", line))
		return;
	doctor_ok(AREA, "the kernel module: %s", line);
	if (access("/dev/nvidiactl", R_OK | W_OK))
		doctor_fail(AREA,
			    "join the group that owns it, or give the container the GPU's devices",
			    "/dev/nvidiactl can't be opened by this user");
}

static void say_missing(const struct driver_facts *facts)
{
	char program[PATH_MAX] = "", next[PATH_MAX + DOCTOR_WORDS_MAX];
	int length =
	    snprintf(next, sizeof(next),
		     "install NVIDIA's driver; in a container, run it with the GPUs (--gpus all)");
	char *name;

	/* A build tree has the simulated driver in sim/ beside its programs. */
	if (beside_program("sim/" LIBRARY, program) && (name = strrchr(program, '/'))) {
		*name = '\0';
		snprintf(next + length, sizeof(next) - (size_t)length,
			 "; without a GPU, LD_LIBRARY_PATH=%s uses the simulated driver", program);
	}
	doctor_fail(AREA, next, "the CUDA driver can't be loaded: %s", facts->words);
}

static void say_loaded(const struct driver_facts *facts)
{
	bool stub = strstr(facts->path, "/stubs/") != NULL;

	doctor_say(stub ? VERDICT_FAIL : VERDICT_OK, AREA,
		   stub ? "remove the stubs' folder from LD_LIBRARY_PATH: it is only for linking"
			: NULL,
		   LIBRARY " is %s", facts->path);
	if (facts->old)
		doctor_fail(AREA, "install a driver of CUDA 11 or later",
			    "it lacks the function %s", facts->words);
	else
		doctor_say(facts->version >= OLDEST ? VERDICT_OK : VERDICT_FAIL, AREA,
			   facts->version >= OLDEST ? NULL : "install a driver of CUDA 11 or later",
			   "it supports CUDA up to %d.%d", facts->version / 1000,
			   facts->version % 1000 / 10);
}

static void say_facts(const struct driver_facts *facts, struct doctor_found *found)
{
	if (!facts->loaded) {
		say_missing(facts);
		return;
	}
	say_loaded(facts);
	if (facts->old)
		return;
	if (facts->init) {
		doctor_fail(AREA, init_next(facts->init), "it can't start: cuInit returns %s (%d)",
			    facts->init_name, facts->init);
		return;
	}
	found->gpus = facts->count;
	found->vmm = facts->count > 0;
	if (!facts->count)
		doctor_fail(AREA, init_next(100), "it shows no GPU");
	for (int i = 0; i < facts->count && i < DOCTOR_GPUS_MAX; i++)
		say_gpu(&facts->gpus[i], i, found);
	found->simulated = facts->count && strstr(facts->gpus[0].name, SIMULATED);
	if (found->simulated)
		doctor_ok(
		    AREA,
		    "it is the simulated driver, in the host's memory: allocations, copies and "
		    "fills, no kernels");
}

void doctor_driver(struct doctor_found *found)
{
	struct driver_facts *facts = aside_room(sizeof(*facts));
	enum aside_end end;
	int number = 0;

	say_module();
	end = facts ? aside_do(ask, facts, PATIENCE_MS, &number) : ASIDE_FAILED;
	if (end == ASIDE_DONE)
		found->driver = facts;
	if (end == ASIDE_HUNG)
		doctor_fail(AREA, "see 'dmesg' for Xid; a GPU may need a reset",
			    "it does not answer within %d seconds", PATIENCE_MS / 1000);
	else if (end == ASIDE_CRASHED)
		doctor_fail(AREA, "see whether nvidia-smi works",
			    "it crashes during this check (signal %d)", number);
	else if (end == ASIDE_FAILED)
		doctor_fail(AREA, "see 'ulimit -u'",
			    "no process can be created for the check of the driver");
	else
		say_facts(facts, found);
}
