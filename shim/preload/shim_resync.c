/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "shim_async.h"
#include "shim_describe.h"
#include "shim_line.h"
#include "shim_link.h"
#include "shim_live.h"
#include "shim_lookup.h"
#include "shim_pages.h"
#include "cuda/shim_scope.h"
#include "shim_state.h"

static bool list(struct resync *resync)
{
	return live_list(resync) && async_list(resync);
}

/* A buffer that is attached at several addresses is reported once for each, every time with the
 * total count. The registry takes the last report. */
static bool hold(struct resync *resync, const struct resync_ref *ref, gpushare_Hold *out_hold)
{
	struct live entry;

	(void)resync;
	if (ref->attached) {
		live_count(out_hold);
		async_count(out_hold);
		return out_hold->count;
	}
	if (!live_get(ref, &entry))
		return false;
	strcpy(out_hold->name, entry.name);
	return true;
}

/* The registry has the buffer again. If the program has freed it meanwhile, withdraw it. */
static void settle(const struct resync_ref *wanted, const struct live *entry, uint64_t generation)
{
	struct live now;
	char why[512];
	bool stands = generation == wanted->generation ? live_get(wanted, &now)
						       : live_rename(wanted, generation);

	if (!stands) {
		if (live_is_own(entry))
			link_withdraw(entry->name, generation, NULL, why, sizeof(why));
		return;
	}
	if (generation != wanted->generation) {
		pages_end(wanted->generation);
		pages_add(entry->name, generation);
	}
	if (wanted->generation)
		state_log("\"%s\" is known to the registry again", entry->name);
	else
		state_log("\"%s\" is shared: %llu bytes", entry->name,
			  (unsigned long long)entry->size);
}

static void lose(const struct resync_ref *wanted, const struct live *entry, const char *why)
{
	if (!live_is_own(entry)) {
		state_log("\"%s\" can't be shared again with the new registry: %s", entry->name,
			  why);
		return;
	}
	live_rename(wanted, 0);
	if (!wanted->generation) {
		state_log("\"%s\" is not shared: %s", entry->name, why);
		return;
	}
	pages_end(wanted->generation);
	state_log("\"%s\" is not shared any more: the registry was restarted, and %s", entry->name,
		  why);
}

/* Try again later if the registry didn't answer, or if an earlier unanswered share of the buffer
 * still holds the name: the resync in progress will remove that name. */
static bool is_for_later(const struct resync_ref *wanted, int status)
{
	return status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT ||
	       status == GPUSHARE_E_NOT_READY ||
	       (status == GPUSHARE_E_EXISTS && !wanted->generation &&
		atomic_load(&live_resync.goes_on));
}

/* A function of its own: the copy is off the stack before the registry is called. */
__attribute__((noinline)) static bool is_still_there(const struct resync_ref *wanted)
{
	struct live now;

	return live_get(wanted, &now);
}

/* The exported memory is the entry's only if the entry still exists after the export: once the
 * memory is freed, the driver may reuse its handle or address. False: stop sharing for now. */
static bool share(struct resync *resync, const struct resync_ref *wanted, int64_t until_ms)
{
	const struct driver *driver = lookup_driver();
	_scope_ struct scope scope = scope_enter(driver);
	_cleanup_close_ int fd = -1;
	struct memory what;
	struct live entry;
	const char *call;
	unsigned int reading; /* unused: the buffer is in its table already */
	uint64_t generation;
	cu_result result;
	char why[512];
	int status;

	(void)resync;
	if (!live_get(wanted, &entry))
		return true;
	if (entry.context && !live_is_object(&entry)) /* an object outlives its context */
		scope_push(&scope, entry.context);
	result = describe_memory(driver, &entry, &what, &call);
	if (result != CU_OK) {
		if (!call || !is_still_there(wanted))
			return true;
		snprintf(why, sizeof(why), "%s answered %s", call,
			 driver_error_name(driver, result));
		lose(wanted, &entry, why);
		return true;
	}
	fd = what.fd;
	if (!is_still_there(wanted))
		return true;
	what.again = wanted->anew ? 0 : wanted->generation;
	status = link_share(&what, until_ms, &generation, &reading, why, sizeof(why));
	if (status == GPUSHARE_OK) {
		settle(wanted, &entry, generation);
		return true;
	}
	if (is_for_later(wanted, status))
		return false;
	lose(wanted, &entry, why);
	return true;
}

static void refused(const char *why)
{
	state_log("could not report the shared buffers to the registry: %s", why);
}

const struct resync_calls shim_resync_calls = {
    .list = list,
    .hold = hold,
    .share = share,
    .refused = refused,
};

void shim_resync_share(int64_t until_ms)
{
	if (lookup_driver_to_end())
		resync_share(&live_resync, until_ms, state_timeout_ms());
}
