/* SPDX-License-Identifier: MIT */
#include "shim_share.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/monotonic.h"
#include "shim_attach.h"
#include "shim_describe.h"
#include "shim_link.h"
#include "shim_live.h"
#include "shim_pages.h"
#include "shim_process.h"
#include "cuda/shim_scope.h"
#include "cuda/vmm.h"

/* Share the entry under its name. On a failure, log it and clear the name. */
static void enter(const struct driver *driver, struct live *entry)
{
	char why[512];
	struct memory what;
	const char *call;
	cu_result result = describe_memory(driver, entry, &what, &call);
	_cleanup_close_ int fd = what.fd;
	int status;

	if (result != CU_OK) {
		state_log("\"%s\" is not shared: %s answered %s", entry->name, call,
			  driver_error_name(driver, result));
		entry->name[0] = '\0';
		return;
	}
	status = link_share(&what, monotonic_ms() + state_timeout_ms(), &entry->generation,
			    &entry->reading, why, sizeof(why));
	if (status == GPUSHARE_E_NOT_READY) {
		/* The registry may have the name: the entry keeps its name and its memory. */
		entry->generation = 0;
		state_log("\"%s\" is not shared yet: %s", entry->name, why);
	} else if (status != GPUSHARE_OK) {
		state_log("\"%s\" is not shared: %s", entry->name, why);
		entry->name[0] = '\0';
	}
}

/* The entry for memory that the rule names. */
static struct live entry_of(const struct claim *claim, enum live_kind kind)
{
	enum rules_api call = claim->allocation.driver;
	struct live entry = {.size = claim->allocation.size,
			     .kind = kind,
			     .count = 1,
			     .device = claim->allocation.device,
			     .stream_ordered = call == RULES_API_cuMemAllocAsync ||
					       call == RULES_API_cuMemAllocFromPoolAsync,
			     .pool = claim->pool,
			     .mode = claim->match.mode,
			     .flags = claim->match.flags,
			     .ttl_s = claim->match.ttl_s};

	strcpy(entry.name, claim->match.name);
	strcpy(entry.group, claim->match.group);
	return entry;
}

/* Record the entry even without a name: queries must return the size that the program asked for.
 * Request the stream-sync page only after that: a resync reports to a new registry only what is in
 * the table. */
static bool remember(const struct live *entry)
{
	if (live_add(entry)) {
		if (!entry->name[0] || live_is_unsettled(entry))
			return true;
		state_log("\"%s\" is shared: %llu bytes", entry->name,
			  (unsigned long long)entry->size);
		pages_add(entry->name, entry->generation);
		return true;
	}
	if (entry->name[0])
		state_log("\"%s\" is not shared: out of memory", entry->name);
	/* Without an entry, the end of the buffer would not be noticed: withdraw its name. */
	share_end(entry->name, entry->generation);
	return false;
}

bool share_pointer(const struct claim *claim, cu_deviceptr pointer)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	struct live entry = entry_of(claim, LIVE_OWN);

	entry.pointer = pointer;
	enter(claim->driver, &entry);
	return remember(&entry);
}

bool share_mapping(const struct claim *claim, const struct vmm_mapping *mapping)
{
	struct live entry = entry_of(claim, LIVE_OWN_VMM);

	entry.pointer = mapping->pointer;
	entry.mapping = *mapping;
	entry.unified = entry.managed = claim->match.unified;
	enter(claim->driver, &entry);
	return entry.name[0] && remember(&entry);
}

static bool adopt(const struct claim *claim, record *found, int *out_fd, unsigned int *out_reading)
{
	struct memory what = {.name = claim->match.name, .group = claim->match.group, .fd = -1};
	char why[512];
	int status;

	what.size = claim->allocation.size;
	what.base_size = what.size;
	what.backing = claim->match.unified ? GPUSHARE_BACKING_HOST : GPUSHARE_BACKING_VMM;
	what.flags = claim->match.flags;
	what.ttl_s = claim->match.ttl_s;
	what.mode = claim->match.mode;
	if (describe_device(claim->driver, claim->allocation.device, what.device_uuid) != CU_OK)
		return false;
	status = link_adopt(&what, found, out_fd, out_reading, why, sizeof(why));
	if (status != GPUSHARE_OK) {
		state_log("\"%s\" is not adopted: %s", what.name, why);
		return false;
	}
	return true;
}

static cu_result open_adopted(const struct claim *claim, int fd, const record *found,
			      struct live *entry, const char **out_call)
{
	const struct vmm_wish wish = {
	    .hold = true, .address = found->address, .host = entry->unified};
	const struct driver *driver = claim->driver;
	cu_result result = CU_NOT_SUPPORTED;

	if (claim->allocation.driver == RULES_API_cuMemCreate) {
		*out_call = "cuMemImportFromShareableHandle";
		entry->mapping.size = found->size;
		if (found->base_size == found->size)
			result = driver->cuMemImportFromShareableHandle(
			    &entry->mapping.handle, (void *)(intptr_t)fd,
			    (cu_handle_type)CU_HANDLE_POSIX_FD);
		if (result == CU_OK)
			entry->mapping.held = held_keep(fd);
		return result;
	}
	*out_call = "cuCtxGetCurrent";
	result = driver->cuCtxGetCurrent(&entry->context);
	if (result == CU_OK)
		result = vmm_map(driver, fd, found->base_size, entry->device, &wish,
				 &entry->mapping, out_call);
	entry->pointer = entry->mapping.pointer;
	return result;
}

bool share_adopted(const struct claim *claim, cu_deviceptr *out_memory)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	struct live entry = entry_of(claim, LIVE_OWN_VMM);
	_cleanup_close_ int fd = -1;
	const char *call;
	cu_result result;
	record found;

	entry.unified = entry.managed = claim->match.unified;
	if (!adopt(claim, &found, &fd, &entry.reading))
		return false;
	describe_rights(&entry, &found);
	entry.generation = found.generation;
	result = open_adopted(claim, fd, &found, &entry, &call);
	if (result != CU_OK) {
		state_log("\"%s\" is not adopted: %s answered %s", entry.name, call,
			  result == VMM_ADDRESS_TAKEN ? "that its address is taken"
						      : driver_error_name(claim->driver, result));
		share_end(entry.name, entry.generation); /* the registry keeps the buffer */
		return false;
	}
	if (!remember(&entry)) {
		attach_close(claim->driver, &entry);
		return false;
	}
	state_log("\"%s\" is adopted: the program has the kept memory, with its contents",
		  entry.name);
	*out_memory = live_is_object(&entry) ? entry.mapping.handle : entry.pointer;
	return true;
}

void share_again(const struct driver *driver, struct live *entry)
{
	_scope_ struct scope scope = scope_enter(driver);

	if (entry->name[0])
		enter(driver, entry);
	remember(entry);
}

static bool is_to_be_told(const char *name)
{
	return *name && !process_is_ending() && process_is_mine();
}

static void say_untold(const char *name, int status, const char *why)
{
	if (status != GPUSHARE_OK && status != GPUSHARE_E_NOT_FOUND)
		state_log("\"%s\" is freed, but the registry was not told: %s", name, why);
}

static void tell_end(const char *name, uint64_t generation, bool *deferred)
{
	_quiet_ struct quiet quiet = quiet_enter();
	char why[512];
	int status;

	if (!is_to_be_told(name))
		return;
	if (!generation) { /* its share was not answered: a resync drops the name */
		link_settle(name);
		return;
	}
	pages_end(generation);
	status = link_withdraw(name, generation, deferred, why, sizeof(why));
	say_untold(name, status, why);
}

void share_settle(uint64_t key, bool object)
{
	const struct resync_ref unsettled = {.key = key, .object = object};
	struct live entry;

	if (!live_get(&unsettled, &entry) || !is_to_be_told(entry.name))
		return;
	_quiet_ struct quiet quiet = quiet_enter();
	link_settle(entry.name);
}

void share_end(const char *name, uint64_t generation)
{
	tell_end(name, generation, NULL);
}

void share_left(const struct live *entry)
{
	_quiet_ struct quiet quiet = quiet_enter();
	char why[512];
	int status;

	if (!is_to_be_told(entry->name))
		return;
	status = link_detach(entry->name, entry->generation, entry->reading, why, sizeof(why));
	say_untold(entry->name, status, why);
}

void share_end_later(const char *name, uint64_t generation)
{
	_quiet_ struct quiet quiet = quiet_enter();

	if (is_to_be_told(name))
		link_withdraw_later(name, generation);
}

bool share_left_later(const struct live *entry)
{
	_quiet_ struct quiet quiet = quiet_enter();

	return !is_to_be_told(entry->name) ||
	       link_detach_later(entry->name, entry->generation, entry->reading);
}

bool share_end_attached(const char *name, uint64_t generation)
{
	bool deferred = false;

	tell_end(name, generation, &deferred);
	return deferred;
}
