/* SPDX-License-Identifier: MIT */
/* Checks and turns for releasing in a consumer's slot, and releases by the CPU. */
#include "api_order_stream.h"

int release_check(const struct ordering *ordering, uint32_t slot)
{
	return (atomic_load(&ordering->roles) & ORDER_CONSUMES) &&
		       atomic_load(&ordering->slot) == slot
		   ? GPUSHARE_OK
		   : api_fail(GPUSHARE_E_INVALID, "'%s' was just left by another thread",
			      ordering->name);
}

int release_take(struct ordering *ordering, uint32_t slot)
{
	int status = ordering_take_at_driver(ordering, &ordering->releasing.turn);

	if (status)
		return status;
	status = release_check(ordering, slot);
	if (status)
		turn_give(&ordering->releasing.turn);
	return status;
}

/* First wait until streams have written the numbers they were given: a late write of a lower number
 * would take this release back. If another thread gives a stream a release meanwhile, wait for that
 * too, unless it covers `sequence`. */
int stream_release_host(struct ordering *ordering, uint32_t slot, uint64_t sequence)
{
	_Atomic uint64_t *given = &ordering->page->slot[slot - 1].given;
	uint64_t last, now = atomic_load(given);
	int status;

	for (;;) {
		last = now;
		host_await(ordering, slot, last);
		status = release_take(ordering, slot);
		if (status)
			return status;
		now = atomic_load(given);
		if (now == last || now >= sequence)
			break;
		turn_give(&ordering->releasing.turn);
	}
	if (now == last) {
		order_raise(given, sequence);
		order_release(ordering->page, slot - 1, sequence);
	}
	turn_give(&ordering->releasing.turn);
	return GPUSHARE_OK;
}
