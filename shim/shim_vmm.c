/* SPDX-License-Identifier: MIT */
/*
 * cuMemCreate memory: a name stands from the create until the last handle is released and the last
 * mapping gone, whichever comes later. Objects are known by handle, mappings by address.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_lock.h"
#include "shim_process.h"
#include "shim_share.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct object {
	cu_mem_handle handle;
	unsigned int handles, mappings;
	bool attached;
	uint64_t generation;
	char name[GPUSHARE_NAME_MAX + 1];
	struct object *next; /* of those that end */
	UT_hash_handle hh;
};

struct place {
	cu_deviceptr pointer;
	struct object *object;
	struct place *next; /* of those that are being unmapped */
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock;
	atomic_size_t count;
	struct object *objects;
	struct place *places;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_concerned(void)
{
	return atomic_load_explicit(&table.count, memory_order_acquire) && process_is_mine();
}

static struct object *find_object(cu_mem_handle handle)
{
	struct object *found;

	HASH_FIND(hh, table.objects, &handle, sizeof(handle), found);
	return found;
}

static struct place *find_place(cu_deviceptr pointer)
{
	struct place *found;

	HASH_FIND(hh, table.places, &pointer, sizeof(pointer), found);
	return found;
}

/* Under the lock. False: uthash found no memory and left the object out. */
static bool put_in(struct object *made)
{
	size_t before = HASH_COUNT(table.objects);

	HASH_ADD(hh, table.objects, handle, sizeof(made->handle), made);
	if (HASH_COUNT(table.objects) == before)
		return false;
	atomic_fetch_add_explicit(&table.count, 1, memory_order_release);
	return true;
}

/* errno stays, where there is no memory too. */
static bool add_object(cu_mem_handle handle, const char *name, uint64_t generation, bool attached)
{
	int error = errno;
	struct object *made = calloc(1, sizeof(*made));
	bool added = false;

	if (made) {
		*made = (struct object){
		    .handle = handle, .handles = 1, .attached = attached, .generation = generation};
		strcpy(made->name, name);
	}
	if (made && lock_take(&table.lock)) {
		added = put_in(made);
		pthread_mutex_unlock(&table.lock);
	}
	if (!added)
		free(made);
	errno = error;
	return added;
}

/* Under the lock: off the table and on to the list, if nothing holds it any more. */
static void end_if_unheld(struct object *object, struct object **ended)
{
	if (object->handles || object->mappings)
		return;
	HASH_DEL(table.objects, object);
	atomic_fetch_sub_explicit(&table.count, 1, memory_order_release);
	object->next = *ended;
	*ended = object;
}

/* Own names go before the memory does, attachments after it. */
static void tell_ended(const struct object *ended, bool attached)
{
	for (; ended; ended = ended->next)
		if (ended->attached == attached)
			share_end(ended->name, ended->generation, attached);
}

static void free_ended(struct object *ended)
{
	while (ended) {
		struct object *next = ended->next;

		free(ended);
		ended = next;
	}
}

static cu_result create(cu_cuMemCreate_call *real, cu_mem_handle *handle, size_t size,
			const cu_mem_prop *prop, unsigned long long flags)
{
	cu_result result = real(handle, size, prop, flags);

	if (result == CU_OUT_OF_MEMORY && buffers_make_room())
		result = real(handle, size, prop, flags);
	return result;
}

/* The same with a handle type more, so that it can travel; without it where that can't be had. */
static cu_result create_exportable(cu_cuMemCreate_call *real, cu_mem_handle *handle, size_t size,
				   const cu_mem_prop *prop, unsigned long long flags)
{
	cu_mem_prop wider = *prop;
	cu_result result;

	wider.requestedHandleTypes |= CU_HANDLE_POSIX_FD;
	result = create(real, handle, size, &wider, flags);
	return result != CU_OK ? real(handle, size, prop, flags) : result;
}

static void name_object(const struct claim *claim, cu_mem_handle handle, size_t size)
{
	uint64_t generation;

	if (share_object(claim, handle, size, &generation) &&
	    !add_object(handle, claim->match.name, generation, false))
		share_end(claim->match.name, generation, false);
}

static bool attach_created(struct claim *claim, size_t size, cu_mem_handle *handle,
			   cu_result *out_result)
{
	struct attach_object found = {.handle = 0};

	if (!attach_object(claim, size, &found, out_result))
		return false;
	if (*out_result != CU_OK)
		return true;
	*handle = found.handle;
	/* Not remembered, the attachment counts until the process ends. */
	add_object(found.handle, claim->match.name, found.generation, true);
	return true;
}

static bool adopt_created(const struct claim *claim, cu_mem_handle *handle)
{
	cu_mem_handle adopted;
	uint64_t generation;

	if (!claim->match.adopt || !share_adopted_object(claim, &adopted, &generation))
		return false;
	if (!add_object(adopted, claim->match.name, generation, false))
		share_end(claim->match.name, generation, false);
	*handle = adopted;
	return true;
}

/* Memory of the host is for NCCL's and other people's own purposes: it is left alone. */
cu_result buffers_create(cu_cuMemCreate_call *real, const void *caller, cu_mem_handle *handle,
			 size_t size, const cu_mem_prop *prop, unsigned long long flags)
{
	struct claim claim;
	cu_result result;

	buffers_sweep();
	if (!handle || !size || !prop || (int)prop->location.type != CU_LOCATION_DEVICE ||
	    !claim_open(&claim, RULES_API_cuMemCreate, size, prop->location.id, caller))
		return create(real, handle, size, prop, flags);
	if (attach_created(&claim, size, handle, &result))
		return result;
	if (!claim_take(&claim, RULES_NAME))
		return create(real, handle, size, prop, flags);
	if (adopt_created(&claim, handle))
		return CU_OK;
	result = create_exportable(real, handle, size, prop, flags);
	if (result == CU_OK)
		name_object(&claim, *handle, size);
	else
		claim_return(&claim, RULES_NAME);
	return result;
}

static struct object *drop_handle(cu_mem_handle handle)
{
	struct object *ended = NULL, *object;

	if (!lock_take(&table.lock))
		return NULL;
	object = find_object(handle);
	if (object && object->handles) {
		object->handles--;
		end_if_unheld(object, &ended);
	}
	pthread_mutex_unlock(&table.lock);
	return ended;
}

cu_result buffers_release(cu_cuMemRelease_call *real, cu_mem_handle handle)
{
	struct object *ended = is_concerned() ? drop_handle(handle) : NULL;
	cu_result result;

	tell_ended(ended, false);
	result = real(handle);
	tell_ended(ended, true);
	free_ended(ended);
	return result;
}

/* Mapped memory of ours that is no mapping to the program. */
static bool stands_for_plain(cu_deviceptr pointer)
{
	int error = errno;
	struct live entry;
	bool found = live_maybe(pointer) && live_find(pointer, pointer, &entry) &&
		     (entry.kind == LIVE_OWN_VMM || entry.kind == LIVE_OPENED);

	errno = error;
	return found;
}

cu_result buffers_retain(cu_cuMemRetainAllocationHandle_call *real, cu_mem_handle *handle,
			 void *pointer)
{
	cu_result result;
	struct object *object;

	if (stands_for_plain((cu_deviceptr)(uintptr_t)pointer))
		return CU_INVALID_VALUE;
	result = real(handle, pointer);
	if (result != CU_OK || !is_concerned() || !lock_take(&table.lock))
		return result;
	object = find_object(*handle);
	if (object)
		object->handles++;
	pthread_mutex_unlock(&table.lock);
	return result;
}

static void add_place(cu_deviceptr pointer, cu_mem_handle handle)
{
	struct place *made = calloc(1, sizeof(*made));
	struct object *object;
	size_t before;
	bool added = false;

	if (!made || !lock_take(&table.lock)) {
		free(made);
		return;
	}
	object = find_object(handle);
	if (object && !find_place(pointer)) {
		made->pointer = pointer;
		made->object = object;
		before = HASH_COUNT(table.places);
		HASH_ADD(hh, table.places, pointer, sizeof(made->pointer), made);
		added = HASH_COUNT(table.places) > before;
		object->mappings += added;
	}
	pthread_mutex_unlock(&table.lock);
	if (!added)
		free(made);
}

cu_result buffers_map(cu_cuMemMap_call *real, cu_deviceptr pointer, size_t size, size_t offset,
		      cu_mem_handle handle, unsigned long long flags)
{
	cu_result result = real(pointer, size, offset, handle, flags);
	int error = errno;

	if (result == CU_OK && is_concerned())
		add_place(pointer, handle);
	errno = error;
	return result;
}

/* One call may unmap several. Off the table, each still counted: the address may be another's as
 * soon as the driver has been asked. */
static struct place *take_places(cu_deviceptr pointer, size_t size)
{
	struct place *taken = NULL, *place, *next;

	if (!lock_take(&table.lock))
		return NULL;
	HASH_ITER (hh, table.places, place, next) {
		if (place->pointer < pointer || place->pointer - pointer >= size)
			continue;
		HASH_DEL(table.places, place);
		place->next = taken;
		taken = place;
	}
	pthread_mutex_unlock(&table.lock);
	return taken;
}

/* The driver refused, as it does a part of a mapping; or they are gone. */
static struct object *settle_places(struct place *taken, bool gone)
{
	struct object *ended = NULL;
	struct place *next;

	if (!taken || !lock_take(&table.lock))
		return NULL;
	for (; taken; taken = next) {
		next = taken->next;
		if (!gone) {
			HASH_ADD(hh, table.places, pointer, sizeof(taken->pointer), taken);
			continue;
		}
		taken->object->mappings--;
		end_if_unheld(taken->object, &ended);
		free(taken);
	}
	pthread_mutex_unlock(&table.lock);
	return ended;
}

/* Here the name may go behind the memory: it stands for what the registry keeps, not for an
 * address. */
cu_result buffers_unmap(cu_cuMemUnmap_call *real, cu_deviceptr pointer, size_t size)
{
	struct place *taken;
	struct object *ended;
	cu_result result;
	int error;

	if (stands_for_plain(pointer))
		return CU_INVALID_VALUE;
	taken = is_concerned() ? take_places(pointer, size) : NULL;
	result = real(pointer, size);
	error = errno;
	ended = settle_places(taken, result == CU_OK);

	tell_ended(ended, false);
	tell_ended(ended, true);
	free_ended(ended);
	errno = error;
	return result;
}
