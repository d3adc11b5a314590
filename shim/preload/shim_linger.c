/* SPDX-License-Identifier: MIT */
#include "shim_linger.h"

#include <string.h>

#include "shim_buffers.h"
#include "shim_link.h"
#include "shim_lookup.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"

static struct deferred deferred = DEFERRED_INITIALIZER;

bool linger_any(void)
{
	return deferred_any(&deferred);
}

bool linger_holds(uint64_t base, uint64_t size)
{
	_quiet_ struct quiet quiet = quiet_enter();

	return deferred_holds(&deferred, base, size);
}

bool linger_withdraw(const struct live *entry)
{
	deferred_set_limit(&deferred, state_deferred());
	if (deferred_fits(&deferred, buffers_rounded(entry->size)))
		return share_end_attached(entry->name, entry->generation);
	share_end(entry->name, entry->generation);
	return false;
}

static void give_back(const struct driver *driver, const struct deferred_entry *entry)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_result result;

	if (!scope_push(&scope, entry->context))
		return; /* the context has ended, and its memory with it */
	result = driver->cuMemFree_v2(entry->pointer);
	state_log("\"%s\" is given back: %s", entry->name,
		  result == CU_OK ? "it was held for those who had it attached"
				  : driver_error_name(driver, result));
}

/* Give memory back although it may still be attached. */
static void give_up(const struct driver *driver, struct deferred_entry *list,
		    void (*end)(const char *name, uint64_t generation))
{
	for (; list; list = deferred_next(list)) {
		give_back(driver, list);
		end(list->name, list->generation);
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
	if (!deferred_put(&deferred, &kept))
		return false;
	state_log("\"%s\" is held for those who have it attached", kept.name);
	return true;
}

static int ask(void *user, uint64_t generations[DEFERRED_MAX], size_t *count)
{
	char why[512];

	(void)user;
	return link_deferred(generations, count, why, sizeof(why));
}

static int look(void *user, uint64_t generations[DEFERRED_MAX], size_t *count)
{
	char why[512];

	(void)user;
	return link_deferred_left(generations, count, why, sizeof(why));
}

typedef struct deferred_entry *take_call(struct deferred *deferred, deferred_ask *ask, void *user);

static void sweep(take_call *take, deferred_ask *by)
{
	const struct driver *driver = deferred_any(&deferred) ? lookup_driver_to_end() : NULL;
	struct deferred_entry *left;
	struct quiet quiet;

	if (!driver)
		return;
	quiet = quiet_enter();
	give_up(driver, deferred_take_over(&deferred), share_end_later);
	for (left = take(&deferred, by, NULL); left; left = deferred_next(left))
		give_back(driver, left);
	quiet_leave(&quiet);
}

void linger_sweep(void)
{
	sweep(deferred_look, look);
}

void linger_ask(void)
{
	sweep(deferred_take_left, ask);
}

bool linger_empty(void)
{
	const struct driver *driver = deferred_any(&deferred) ? lookup_driver_to_end() : NULL;
	struct deferred_entry *all = driver ? deferred_take_all(&deferred) : NULL;
	struct quiet quiet = quiet_enter();

	give_up(driver, all, share_end);
	quiet_leave(&quiet);
	return all != NULL;
}

struct deferred_entry *linger_take_of(cu_context context)
{
	return deferred_take_of(&deferred, context);
}

void linger_end(struct deferred_entry *taken)
{
	for (; taken; taken = deferred_next(taken))
		share_end(taken->name, taken->generation);
}

void linger_return(struct deferred_entry *taken)
{
	deferred_return(&deferred, taken);
}
