/* SPDX-License-Identifier: MIT */
#include "shim_freed.h"

#include "base/shim_lock.h"
#include "cuda/shim_quiet.h"

#define FREED_MAX 64 /* if there are more, the oldest is forgotten */

static struct {
	pthread_mutex_t lock; /* never held during a driver call */
	unsigned int next;
	unsigned long long ids[FREED_MAX];
	_Atomic cu_deviceptr pointers[FREED_MAX]; /* 0: none; written under the lock */
} freed = {.lock = PTHREAD_MUTEX_INITIALIZER};

atomic_uint freed_count;

/* Return FREED_MAX if `pointer` is not remembered. */
static unsigned int place_of(cu_deviceptr pointer)
{
	unsigned int place = 0;

	while (place < FREED_MAX &&
	       atomic_load_explicit(&freed.pointers[place], memory_order_relaxed) != pointer)
		place++;
	return place;
}

bool freed_is_listed(cu_deviceptr pointer)
{
	return pointer && place_of(pointer) != FREED_MAX;
}

/* Under the lock. */
static void set(unsigned int place, cu_deviceptr pointer, unsigned long long id)
{
	bool had = atomic_load_explicit(&freed.pointers[place], memory_order_relaxed);

	freed.ids[place] = id;
	atomic_store_explicit(&freed.pointers[place], pointer, memory_order_release);
	if (pointer && !had)
		atomic_fetch_add_explicit(&freed_count, 1, memory_order_release);
	if (!pointer && had)
		atomic_fetch_sub_explicit(&freed_count, 1, memory_order_release);
}

/* Return the driver's id of the allocation; 0: the driver knows none, or can't tell. If
 * the query fails, ask once more: after a wrong 0 a double free gets through, and the program
 * hangs. The call is allowed during a capture. */
static unsigned long long ask(const struct driver *driver, cu_deviceptr pointer)
{
	_quiet_ struct quiet quiet = quiet_enter();
	unsigned long long id;

	(void)quiet;
	for (int tries = 0; tries < 2; tries++)
		if (driver->cuPointerGetAttribute(&id, CU_ATTRIBUTE_BUFFER_ID, pointer) == CU_OK)
			return id;
	return 0;
}

struct freed freed_put(const struct driver *driver, cu_deviceptr pointer)
{
	struct freed one = {pointer, ask(driver, pointer)};
	unsigned int place;

	if (!one.id || !lock_take(&freed.lock))
		return one;
	place = place_of(pointer); /* of an earlier allocation at this address */
	if (place != FREED_MAX)
		set(place, 0, 0);
	set(freed.next, pointer, one.id);
	freed.next = (freed.next + 1) % FREED_MAX;
	pthread_mutex_unlock(&freed.lock);
	return one;
}

void freed_forget(const struct freed *one)
{
	unsigned int place;

	if (!freed_maybe(one->pointer) || !lock_take(&freed.lock))
		return;
	place = place_of(one->pointer);
	if (place != FREED_MAX && freed.ids[place] == one->id)
		set(place, 0, 0);
	pthread_mutex_unlock(&freed.lock);
}

static bool find(cu_deviceptr pointer, struct freed *out_one)
{
	unsigned int place;

	if (!freed_maybe(pointer) || !lock_take(&freed.lock))
		return false;
	place = place_of(pointer);
	if (place != FREED_MAX)
		*out_one = (struct freed){pointer, freed.ids[place]};
	pthread_mutex_unlock(&freed.lock);
	return place != FREED_MAX;
}

bool freed_holds(const struct driver *driver, cu_deviceptr pointer)
{
	struct freed one;

	if (!find(pointer, &one))
		return false;
	if (ask(driver, pointer) == one.id)
		return true;
	freed_forget(&one);
	return false;
}
