/* SPDX-License-Identifier: MIT */
/* VMM memory objects, a memfd each. driver_map.c gives them addresses. */
#include <sys/stat.h>
#include <utlist.h>

#include "driver_vmm.h"

enum { VMM_FABRIC = 8 };
#define VMM_HANDLE_TYPES (CU_HANDLE_POSIX_FD | VMM_FABRIC)

static struct object *objects;

/* Also find an object whose handles are all released but which is still mapped. */
static struct object *vmm_known(cu_mem_handle handle)
{
	struct object *object = objects;

	while (object && (uintptr_t)object != handle)
		object = object->next;
	return object;
}

struct object *vmm_find(cu_mem_handle handle)
{
	struct object *object = vmm_known(handle);

	return object && object->handles ? object : NULL;
}

/* The memory stays while any process has a handle or a mapping of it. */
void vmm_unref(struct object *object)
{
	if (object->handles || object->mappings)
		return;
	LL_DELETE(objects, object);
	if (object->counted)
		state.used[object->device] -= object->size;
	close(object->fd);
	free(object);
}

static bool vmm_prop_good(const cu_mem_prop *prop)
{
	if (!prop || (int)prop->type != CU_ALLOCATION_PINNED ||
	    ((int)prop->requestedHandleTypes & ~VMM_HANDLE_TYPES))
		return false;
	switch ((int)prop->location.type) {
	case CU_LOCATION_DEVICE:
		return state_device_good(prop->location.id);
	case VMM_LOCATION_HOST:
		return prop->location.id == 0;
	case VMM_LOCATION_HOST_NUMA:
		return state.host_numa && prop->location.id == 0;
	default:
		return false;
	}
}

CALL(cuMemGetAllocationGranularity, NEED_INIT,
     (size_t * granularity, const cu_mem_prop *prop, cu_granularity_flags option),
     (granularity, prop, option))
{
	if (!granularity || !vmm_prop_good(prop) || (int)option < 0 || (int)option > 1)
		return CU_INVALID_VALUE;
	*granularity = SIM_BLOCK;
	return CU_OK;
}

static bool vmm_mark(const struct object *object, int physical)
{
	struct control control = {
	    .magic = CONTROL_OBJECT,
	    .nonce = address_nonce(),
	    .size = object->size,
	    .physical = physical,
	};

	return pwrite(object->fd, &control, sizeof(control), (off_t)object->size) ==
	       (ssize_t)sizeof(control);
}

static struct object *vmm_object(const struct object *model)
{
	struct object *object = malloc(sizeof(*object));

	if (!object)
		return NULL;
	*object = *model;
	object->next = objects;
	objects = object;
	return object;
}

CALL_LOGGED(cuMemCreate, NEED_INIT,
	    (cu_mem_handle * handle, size_t size, const cu_mem_prop *prop,
	     unsigned long long flags),
	    (handle, size, prop, flags), answer_ == CU_OK ? *handle : 0, size)
{
	if (flags || !handle || !size || size % SIM_BLOCK || !vmm_prop_good(prop))
		return CU_INVALID_VALUE;
	if ((int)prop->requestedHandleTypes & VMM_FABRIC)
		return CU_NOT_PERMITTED; /* as on a machine without IMEX channels */
	struct object model = {
	    .size = size,
	    .host = (int)prop->location.type != CU_LOCATION_DEVICE,
	    .handle_types = (int)prop->requestedHandleTypes,
	    .handles = 1,
	};
	model.device = model.host ? 0 : prop->location.id;
	model.physical = model.host ? -1 : state.physical[model.device];
	model.counted = !model.host;
	STATE_LOCKED;
	if (model.counted && !block_account(model.device, size))
		return CU_OUT_OF_MEMORY;
	model.fd = address_memfd(size + SIM_CONTROL);
	struct object *object = NULL;
	if (model.fd >= 0 && vmm_mark(&model, model.physical))
		object = vmm_object(&model);
	if (!object) {
		if (model.fd >= 0)
			close(model.fd);
		if (model.counted)
			state.used[model.device] -= size;
		return CU_OUT_OF_MEMORY;
	}
	*handle = (uintptr_t)object;
	return CU_OK;
}

CALL_LOGGED(cuMemRelease, NEED_INIT, (cu_mem_handle handle), (handle), handle, 0)
{
	STATE_LOCKED;
	struct object *object = vmm_find(handle);
	if (!object)
		return CU_INVALID_VALUE;
	object->handles--;
	vmm_unref(object);
	return CU_OK;
}

/* Return a handle for a mapping's memory. The caller must release it like any other. */
CALL_LOGGED(cuMemRetainAllocationHandle, NEED_INIT, (cu_mem_handle * handle, void *pointer),
	    (handle, pointer), answer_ == CU_OK ? *handle : 0, 0)
{
	if (!handle)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct region *region = region_find((uintptr_t)pointer);
	if (!region || region->kind != REGION_MAPPED)
		return CU_INVALID_VALUE;
	struct object *object = region->owner;
	object->handles++;
	*handle = (uintptr_t)object;
	return CU_OK;
}

/* An unknown handle ends the process, as on a real driver. */
CALL_LOGGED(cuMemExportToShareableHandle, NEED_INIT,
	    (void *shareable, cu_mem_handle handle, cu_handle_type type, unsigned long long flags),
	    (shareable, handle, type, flags), handle, 0)
{
	if (!shareable || flags || (int)type != CU_HANDLE_POSIX_FD)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct object *object = vmm_known(handle);
	if (!object && handle)
		raise(SIGSEGV);
	if (!object || !object->handle_types)
		return CU_INVALID_VALUE;
	int fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CU_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CU_OK;
}

/* Return true if a simulated driver's cuMemCreate or the simulated Vulkan made this memfd. */
static bool vmm_recognise(int fd, struct control *control)
{
	struct stat status;

	if (fstat(fd, &status) < 0 || status.st_size < (off_t)(SIM_BLOCK + SIM_CONTROL))
		return false;
	off_t end = status.st_size - (off_t)SIM_CONTROL;
	return pread(fd, control, sizeof(*control), end) == (ssize_t)sizeof(*control) &&
	       control->magic == CONTROL_OBJECT && control->size == (uint64_t)end;
}

CALL_LOGGED(cuMemImportFromShareableHandle, NEED_INIT,
	    (cu_mem_handle * handle, void *shareable, cu_handle_type type),
	    (handle, shareable, type), answer_ == CU_OK ? *handle : 0, 0)
{
	int fd = (int)(intptr_t)shareable;
	struct control control;

	if (!handle || (int)type != CU_HANDLE_POSIX_FD)
		return CU_INVALID_VALUE;
	if (!vmm_recognise(fd, &control))
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	int ordinal = state_ordinal(control.physical);
	struct object model = {
	    .size = control.size,
	    .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
	    .host = control.physical < 0,
	    .device = ordinal >= 0 ? ordinal : 0,
	    .physical = control.physical,
	    .handles = 1,
	};
	struct object *object = model.fd >= 0 ? vmm_object(&model) : NULL;
	if (!object) {
		if (model.fd >= 0)
			close(model.fd);
		return CU_OUT_OF_MEMORY;
	}
	*handle = (uintptr_t)object;
	return CU_OK;
}
