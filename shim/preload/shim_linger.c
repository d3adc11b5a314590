/* SPDX-License-Identifier: MIT */
#include "shim_linger.h"

#include <poll.h>
#include <string.h>

#include "base/monotonic.h"
#include "shim_buffers.h"
#include "shim_link.h"
#include "shim_lookup.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"

#define FREE_MS 20 /* time limit of a free in an empty stream, which takes microseconds */

struct deferred linger_list = DEFERRED_INITIALIZER;

bool linger_withdraw(const struct live *entry)
{
	deferred_set_limit(&linger_list, state_deferred());
	if (deferred_fits(&linger_list, buffers_rounded(entry->size)))
		return share_end_attached(entry->name, entry->generation);
	share_end(entry->name, entry->generation);
	return false;
}

/* Has the stream done its work? Waits FREE_MS at most. */
static bool is_done(const struct driver *driver, cu_stream stream, cu_event event)
{
	int64_t until_ms = monotonic_ms() + FREE_MS;

	if (driver->cuEventRecord(event, stream) != CU_OK)
		return false;
	while (driver->cuEventQuery(event) == CU_NOT_READY) {
		if (monotonic_ms() >= until_ms)
			return false;
		poll(NULL, 0, 1);
	}
	return true;
}

/* cuMemFree waits for all work of the GPU. So free the memory in a new stream: the driver releases
 * the memory when that stream is synchronized. If a stream of the program holds up the hardware
 * queue, don't destroy the new stream: the memory would never be freed (contract_deferred). */
static cu_result free_apart(const struct driver *driver, cu_deviceptr pointer)
{
	cu_stream stream = NULL;
	cu_event event = NULL;
	cu_result result;

	result = driver->cuEventCreate(&event, CU_EVENT_NO_TIMING);
	if (result == CU_OK)
		result = driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING);
	if (result == CU_OK)
		result = driver->cuMemFreeAsync(pointer, stream);
	if (result != CU_OK)
		result = driver->cuMemFree_v2(pointer);
	else if (!is_done(driver, stream, event) || driver->cuStreamSynchronize(stream) != CU_OK)
		stream = NULL;
	if (event)
		driver->cuEventDestroy_v2(event);
	if (stream)
		driver->cuStreamDestroy_v2(stream);
	return result;
}

/* `waited`: the program's call has waited for the GPU. */
static void give_back(const struct driver *driver, const struct deferred_entry *entry, bool waited)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_result result;

	if (!scope_push(&scope, entry->context))
		return; /* the context has ended, and its memory with it */
	result = waited ? driver->cuMemFree_v2(entry->pointer) : free_apart(driver, entry->pointer);
	state_log("\"%s\" is given back: %s", entry->name,
		  result == CU_OK ? "it was held for those who had it attached"
				  : driver_error_name(driver, result));
}

/* Give the memory of the whole list back, although it may still be attached. */
static void give_up(const struct driver *driver, struct deferred_entry *list, bool waited)
{
	for (; list; list = deferred_next(list)) {
		give_back(driver, list, waited);
		(waited ? share_end_later : share_end)(list->name, list->generation);
	}
}

bool linger_keep(const struct live *entry)
{
	_quiet_ struct quiet quiet = quiet_enter();
	struct deferred_entry kept = {.pointer = entry->pointer,
				      .size = buffers_rounded(entry->size),
				      .generation = entry->generation,
				      .context = entry->context};

	strcpy(kept.name, entry->name);
	if (!deferred_put(&linger_list, &kept))
		return false;
	state_log("\"%s\" is freed; its memory stays until the others have detached it", kept.name);
	return true;
}

void linger_sweep(bool asks)
{
	const struct driver *driver = deferred_any(&linger_list) ? lookup_driver_to_end() : NULL;
	struct deferred_entry *left;

	if (!driver)
		return;
	_quiet_ struct quiet quiet = quiet_enter();
	give_up(driver, deferred_take_over(&linger_list), true);
	left = asks ? deferred_take_left(&linger_list, link_deferred, NULL)
		    : deferred_look(&linger_list, link_deferred_left, NULL);
	for (; left; left = deferred_next(left))
		give_back(driver, left, true);
}

bool linger_empty(void)
{
	const struct driver *driver = deferred_any(&linger_list) ? lookup_driver_to_end() : NULL;
	struct deferred_entry *all = driver ? deferred_take_all(&linger_list) : NULL;
	_quiet_ struct quiet quiet = quiet_enter();

	give_up(driver, all, false);
	return all != NULL;
}

void linger_end(struct deferred_entry *taken)
{
	for (; taken; taken = deferred_next(taken))
		share_end(taken->name, taken->generation);
}
