/* SPDX-License-Identifier: MIT */
/* Checks and the lock for releasing in a consumer's slot, and releases by the CPU. */
#include "api_order_stream.h"

int release_check(const struct ordering *ordering, uint32_t slot)
{
	return atomic_load(&ordering->slot) == slot
		   ? GPUSHARE_OK
		   : api_fail(GPUSHARE_E_INVALID, "'%s' was just left by another thread",
			      ordering->name);
}

int release_take(struct ordering *ordering, uint32_t slot)
{
	int status = ordering_take_at_driver(ordering, &ordering->release);

	if (status)
		return status;
	status = release_check(ordering, slot);
	if (status)
		pthread_mutex_unlock(&ordering->release);
	return status;
}

void release_give(struct ordering *ordering, uint32_t slot)
{
	struct order_lane *lane = &ordering->releasing;
	struct gpushare_session *session = ordering->session;

	/* If the slot is not left, the thread that leaves it later reads `last`. */
	if (atomic_load(&ordering->slot) != slot) {
		session_lock(session);
		stream_note_left(ordering, slot, atomic_exchange(&lane->last, 0));
		pthread_mutex_unlock(&session->lock);
	}
	pthread_mutex_unlock(&ordering->release);
}

/* First wait until streams have written the numbers they were given: a late write of a lower number
 * would take this release back. If another thread gives a stream a release meanwhile, wait for that
 * too, unless it covers `sequence`. */
int stream_release_host(struct ordering *ordering, uint32_t slot, uint64_t sequence)
{
	struct order_lane *lane = &ordering->releasing;
	uint64_t last, now = atomic_load(&lane->last);
	int status;

	for (;;) {
		last = now;
		host_await(ordering, slot, last);
		status = release_take(ordering, slot);
		if (status)
			return status;
		now = atomic_load(&lane->last);
		if (now == last || now >= sequence)
			break;
		release_give(ordering, slot);
	}
	if (now == last) {
		if (last)
			order_raise(&lane->last, sequence);
		order_release(ordering->page, slot - 1, sequence);
	}
	release_give(ordering, slot);
	return GPUSHARE_OK;
}
