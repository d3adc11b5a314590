/* SPDX-License-Identifier: MIT */
#include "shim_attach.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/monotonic.h"
#include "core/buffer/deferred.h"
#include "shim_describe.h"
#include "shim_link.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"
#include "cuda/vmm.h"

/* Why the rule's buffer can't be attached: one line, and the error that the program gets if the
 * rule has `must`. */
struct refusal {
	char why[512];
	cu_result result;
};

__attribute__((format(printf, 3, 4))) static bool refuse(struct refusal *refusal, cu_result result,
							 const char *why, ...)
{
	va_list arguments;

	refusal->result = result;
	va_start(arguments, why);
	vsnprintf(refusal->why, sizeof(refusal->why), why, arguments);
	va_end(arguments);
	return false;
}

static bool refuse_call(struct refusal *refusal, const struct driver *driver, cu_result result,
			const char *call)
{
	return refuse(refusal, result, "%s answered %s", call, driver_error_name(driver, result));
}

/* Return the device's ordinal in this process; -1: it is not visible. */
static int device_seek(const struct driver *driver, const uint8_t wanted[GPUSHARE_UUID_SIZE])
{
	uint8_t uuid[GPUSHARE_UUID_SIZE];
	cu_device device;
	int count = 0;

	if (driver->cuDeviceGetCount(&count) != CU_OK)
		return -1;
	for (int i = 0; i < count; i++)
		if (driver->cuDeviceGet(&device, i) == CU_OK &&
		    describe_device(driver, device, uuid) == CU_OK &&
		    !memcmp(uuid, wanted, GPUSHARE_UUID_SIZE))
			return i;
	return -1;
}

/* Can the device of the program's allocation access the buffer? If the buffer's GPU is not visible,
 * return true: only opening the buffer can tell. */
static bool is_reached(const struct claim *claim, const record *what)
{
	int home = device_seek(claim->driver, what->device_uuid), can = 0;

	return home < 0 || home == claim->allocation.device ||
	       (claim->driver->cuDeviceCanAccessPeer(&can, claim->allocation.device, home) ==
		    CU_OK &&
		can);
}

/* Check the buffer's size, record, kind of memory and reachability. */
static bool fits(const struct claim *claim, const struct link_found *found, size_t size,
		 struct refusal *refusal)
{
	const record *what = &found->what;

	if (what->size < size)
		return refuse(refusal, CU_OUT_OF_MEMORY,
			      "it has %llu bytes, the program asks for %zu",
			      (unsigned long long)what->size, size);
	if (!span_fits(what->base_offset, what->size, what->base_size))
		return refuse(refusal, CU_INVALID_VALUE, "its record in the registry is invalid");
	if (claim->allocation.driver == RULES_API_cuMemAllocManaged &&
	    what->backing != GPUSHARE_BACKING_HOST)
		return refuse(refusal, CU_NOT_SUPPORTED,
			      "managed memory is for the CPU too, which can't reach a device "
			      "buffer; share one that was made by a rule with \"unified\"");
	if (what->backing != GPUSHARE_BACKING_HOST && !is_reached(claim, what))
		return refuse(
		    refusal, CU_INVALID_DEVICE,
		    "it is on another GPU, to which the program's GPU has no peer access");
	return true;
}

static bool open_ipc(const struct claim *claim, const struct link_found *found, struct live *entry,
		     struct refusal *refusal)
{
	const struct driver *driver = claim->driver;
	cu_result result = CU_NOT_SUPPORTED;
	cu_ipc_mem_handle ipc;
	cu_deviceptr mapping;

	if (found->own)
		return refuse(refusal, CU_INVALID_VALUE, "this process has shared it itself");
	memcpy(ipc.reserved, found->handle, GPUSHARE_HANDLE_SIZE);
	result = driver->cuIpcOpenMemHandle_v2(&mapping, ipc, CU_IPC_LAZY_PEER_ACCESS);
	if (result == CU_INVALID_CONTEXT)
		return refuse(
		    refusal, result,
		    "CUDA takes the owner, which has the same pid in another container, for "
		    "this process; start one of them with another pid, or share it as vmm");
	if (result != CU_OK)
		return refuse_call(refusal, driver, result, "cuIpcOpenMemHandle");
	entry->kind = LIVE_IPC;
	entry->mapping.pointer = mapping;
	memcpy(entry->handle, found->handle, GPUSHARE_HANDLE_SIZE);
	return true;
}

/* Map the descriptor's memory. Unified memory has the same address in every process. */
static bool open_fd(const struct claim *claim, const struct link_found *found, struct live *entry,
		    struct refusal *refusal)
{
	const record *what = &found->what;
	bool unified = what->backing == GPUSHARE_BACKING_HOST;
	const struct vmm_wish wish = {
	    .address = unified ? what->address - what->base_offset : 0,
	    .host = unified,
	    .read_only = !found->own && found->read_only,
	    .hold = what->flags & GPUSHARE_FLAG_KEEP,
	};
	const char *call = NULL;
	cu_result result;

	if (unified && found->own)
		return refuse(refusal, CU_INVALID_VALUE, "this process has shared it itself");
	if (unified && what->address <= what->base_offset)
		return refuse(refusal, CU_INVALID_VALUE, "its record in the registry is invalid");
	result = vmm_map(claim->driver, found->fd, what->base_size, claim->allocation.device, &wish,
			 &entry->mapping, &call);
	if (result == VMM_ADDRESS_TAKEN)
		return refuse(refusal, CU_OUT_OF_MEMORY,
			      "the address that it has in every process is taken in this one");
	if (result != CU_OK)
		return refuse_call(refusal, claim->driver, result, call);
	entry->kind = LIVE_VMM;
	entry->unified = unified;
	entry->managed = unified && claim->allocation.driver == RULES_API_cuMemAllocManaged;
	return true;
}

static bool open_found(const struct claim *claim, const struct link_found *found,
		       struct live *entry, struct refusal *refusal)
{
	bool by_fd = backing_is_fd(found->what.backing);
	bool opened;

	entry->device = claim->allocation.device;
	entry->pool = claim->pool;
	claim->driver->cuCtxGetCurrent(&entry->context);
	if (!by_fd && found->what.backing != GPUSHARE_BACKING_IPC)
		return refuse(refusal, CU_NOT_SUPPORTED,
			      "this version of gpushare does not know its kind of memory");
	opened =
	    by_fd ? open_fd(claim, found, entry, refusal) : open_ipc(claim, found, entry, refusal);
	if (!opened && found->what.backing != GPUSHARE_BACKING_HOST &&
	    device_seek(claim->driver, found->what.device_uuid) < 0 &&
	    (refusal->result == CU_INVALID_DEVICE || refusal->result == CU_NOT_SUPPORTED ||
	     refusal->result == CU_PEER_ACCESS_UNSUPPORTED))
		return refuse(refusal, CU_INVALID_DEVICE,
			      "its GPU is not visible to this process, and the program's GPU can't "
			      "reach it");
	entry->pointer = entry->mapping.pointer + found->what.base_offset;
	return opened;
}

/* open_found() for cuMemCreate, whose memory the program maps itself. Such memory belongs to no
 * context. */
static bool import(const struct claim *claim, const struct link_found *found, struct live *entry,
		   struct refusal *refusal)
{
	const struct driver *driver = claim->driver;
	cu_result result = CU_NOT_SUPPORTED;

	/* Check this now. The program maps the memory in a later call, where it would be too late
	 * to refuse. */
	if (device_seek(driver, found->what.device_uuid) < 0)
		return refuse(refusal, CU_INVALID_DEVICE, "its GPU is not visible to this process");
	if (found->what.backing == GPUSHARE_BACKING_HOST)
		return refuse(refusal, CU_NOT_SUPPORTED,
			      "it is unified memory, which the program can't map by itself "
			      "(cuMemCreate); share cuMemCreate memory under that name");
	if (found->what.backing != GPUSHARE_BACKING_VMM)
		return refuse(refusal, CU_NOT_SUPPORTED,
			      "it is cudaMalloc memory, and the program asks for memory to map by "
			      "itself (cuMemCreate); share cuMemCreate memory under that name");
	if (!found->own && found->read_only)
		return refuse(refusal, CU_NOT_PERMITTED,
			      "it is read-only, and the program asks for memory to map by itself "
			      "(cuMemCreate)");
	if (found->what.base_offset || found->what.base_size != entry->size)
		return refuse(refusal, CU_OUT_OF_MEMORY,
			      "it is %llu bytes in one piece, the program asks for a piece of %zu",
			      (unsigned long long)found->what.base_size, (size_t)entry->size);
	entry->kind = LIVE_VMM;
	entry->mapping.size = entry->size;
	result = driver->cuMemImportFromShareableHandle(&entry->mapping.handle,
							(void *)(intptr_t)found->fd,
							(cu_handle_type)CU_HANDLE_POSIX_FD);
	if (result != CU_OK)
		return refuse_call(refusal, driver, result, "cuMemImportFromShareableHandle");
	if (found->what.flags & GPUSHARE_FLAG_KEEP)
		entry->mapping.held = held_keep(found->fd);
	return true;
}

static bool ask(const struct claim *claim, struct link_found *found, struct refusal *refusal)
{
	const char *name = claim->match.name;
	int64_t until_ms = monotonic_ms() + claim->match.wait_ms;
	int status;

	refusal->result = CU_OUT_OF_MEMORY;
	do {
		status = link_attach(name, claim->match.flags & GPUSHARE_FLAG_READONLY, found,
				     refusal->why, sizeof(refusal->why));
	} while (status != GPUSHARE_OK && link_await(name, status, until_ms, refusal->why,
						     sizeof(refusal->why)) == GPUSHARE_OK);
	return status == GPUSHARE_OK;
}

/* Attach the rule's buffer as `entry`. entry->size is the size that the program asked for. */
static bool attach(const struct claim *claim, struct live *entry, struct refusal *refusal)
{
	bool object = claim->allocation.driver == RULES_API_cuMemCreate;
	struct link_found found = {.own = false};
	_cleanup_close_ int fd = -1;

	if (!ask(claim, &found, refusal))
		return false;
	fd = found.fd;
	describe_found(entry, &found);
	if (fits(claim, &found, entry->size, refusal) &&
	    (object ? import : open_found)(claim, &found, entry, refusal)) {
		if (live_add(entry)) {
			state_log("\"%s\" is attached: %llu of %llu bytes asked for", entry->name,
				  (unsigned long long)entry->size,
				  (unsigned long long)found.what.size);
			return true;
		}
		attach_close(claim->driver, entry);
		refuse(refusal, CU_OUT_OF_MEMORY, "out of memory");
	}
	share_left(entry);
	return false;
}

/* If a rule with `must` makes the allocation fail, the rule is not spent: when the program tries
 * again, it must not get other memory. */
bool attach_buffer(struct claim *claim, cu_deviceptr *out_memory, cu_result *out_result)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	struct live entry = {.size = claim->allocation.size};
	struct refusal refusal = {.result = CU_OK};

	if (attach(claim, &entry, &refusal)) {
		*out_memory = live_is_object(&entry) ? entry.mapping.handle : entry.pointer;
		*out_result = CU_OK;
		return true;
	}
	state_log("\"%s\" is not attached: %s; %s", claim->match.name, refusal.why,
		  claim->match.must ? "the allocation fails, as the rule says \"must\""
				    : "the program gets ordinary memory");
	*out_result = refusal.result;
	if (!claim->match.must)
		return false;
	claim_fail(claim);
	return true;
}

cu_result attach_close(const struct driver *driver, const struct live *entry)
{
	_scope_ struct scope scope = scope_enter(driver);

	if (live_is_object(entry)) {
		held_drop(entry->mapping.held);
		return driver->cuMemRelease(entry->mapping.handle);
	}
	if (live_is_mapped(entry) && !entry->mapping.file)
		return vmm_unmap(driver, &entry->mapping);
	/* unlike cuMemFree, cuMemHostUnregister and cuIpcCloseMemHandle need a context */
	if (entry->context)
		scope_push(&scope, entry->context);
	if (entry->mapping.file)
		return vmm_unmap(driver, &entry->mapping);
	return driver->cuIpcCloseMemHandle(entry->mapping.pointer);
}

void attach_wait(const struct driver *driver, const struct live *entry)
{
	_scope_ struct scope scope = scope_enter(driver);

	if (entry->context)
		scope_push(&scope, entry->context);
	/* cuCtxSynchronize would invalidate a relaxed capture, deferred_stand_in() doesn't */
	if (deferred_stand_in(driver) != CU_OK)
		driver->cuCtxSynchronize();
}

cu_result attach_end(const struct driver *driver, const struct live *entry)
{
	cu_result result;

	if (live_is_mapped(entry))
		attach_wait(driver, entry);
	result = attach_close(driver, entry);
	share_left(entry);
	return result;
}
