/* SPDX-License-Identifier: MIT */
#include "api_used.h"

#include <inttypes.h>
#include <utlist.h>

#include "base/cleanup.h"

struct used {
	struct used *prev, *next;
	unsigned int users;
	struct used_object object;
};

/* A thread holds `placing` while it maps or unmaps unified memory. Otherwise it could find an
 * address taken by a mapping that another thread is about to list or to unmap. */
static struct {
	pthread_mutex_t placing;
	pthread_mutex_t lock; /* never held over a CUDA call */
	struct used *first;
} table = {.placing = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Under table.lock. */
static struct used *find(uint64_t key)
{
	struct used *found;

	LL_SEARCH_SCALAR(table.first, found, object.key, key);
	return found;
}

int used_add(const struct used_object *object)
{
	struct used *made = malloc(sizeof(*made));

	if (!made)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for the library's table of %s",
				object->mapping.size ? "mappings" : "events");
	*made = (struct used){.users = 1, .object = *object};
	pthread_mutex_lock(&table.lock);
	DL_PREPEND(table.first, made);
	pthread_mutex_unlock(&table.lock);
	return GPUSHARE_OK;
}

bool used_take(uint64_t key, uint64_t generation, struct used_object *out_object)
{
	struct used *found;

	pthread_mutex_lock(&table.lock);
	found = find(key);
	if (found && found->object.generation != generation)
		found = NULL;
	if (found && out_object) {
		found->users++;
		*out_object = found->object;
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

void used_rename(uint64_t base, uint64_t generation, uint64_t to)
{
	struct used *found;

	pthread_mutex_lock(&table.lock);
	found = find(base);
	if (found && found->object.generation == generation)
		found->object.generation = to;
	pthread_mutex_unlock(&table.lock);
}

static int end_event(const struct used_object *object)
{
	const struct driver *driver = object->driver;
	_device_scope_ struct device_scope scope = {NULL};
	cu_result result;
	int status = device_enter(driver, object->context, &scope);

	if (status)
		return status;
	result = driver->cuEventDestroy_v2((cu_event)(uintptr_t)object->key);
	if (result == CU_OK || result == CU_CONTEXT_IS_DESTROYED) /* by cuDevicePrimaryCtxReset() */
		return GPUSHARE_OK;
	return api_fail_cuda(driver, result, "cuEventDestroy_v2",
			     "a named event can't be destroyed");
}

/* A CPU map may outlive its session, and so the context that the session retained. CUDA has then
 * unregistered the memory, with the context. */
static int end_mapping(const struct used_object *object)
{
	const struct driver *driver = object->driver;
	bool pushed = driver->cuCtxPushCurrent_v2(object->context) == CU_OK;
	cu_result result = vmm_unmap(driver, &object->mapping);
	cu_context left;

	if (pushed)
		driver->cuCtxPopCurrent_v2(&left);
	if (result == CU_OK)
		return GPUSHARE_OK;
	return api_fail_cuda(driver, result,
			     object->mapping.file ? "cuMemHostUnregister" : "cuMemUnmap",
			     "the %" PRIu64 " bytes at 0x%" PRIx64 " can't be freed",
			     object->mapping.size, object->mapping.pointer);
}

int used_drop(uint64_t key)
{
	struct used *last;
	int status = GPUSHARE_OK;

	pthread_mutex_lock(&table.lock);
	last = find(key);
	if (last && --last->users)
		last = NULL;
	if (last)
		DL_DELETE(table.first, last);
	pthread_mutex_unlock(&table.lock);
	if (last)
		status = last->object.mapping.size ? end_mapping(&last->object)
						   : end_event(&last->object);
	free(last);
	return status;
}

int unified_drop(uint64_t base)
{
	int status;

	pthread_mutex_lock(&table.placing);
	status = used_drop(base);
	pthread_mutex_unlock(&table.placing);
	return status;
}

int unified_add(const struct driver *driver, cu_context context, const struct vmm_mapping *mapping,
		uint64_t generation)
{
	return used_add(&(struct used_object){
	    .key = mapping->pointer,
	    .driver = driver,
	    .context = context,
	    .mapping = *mapping,
	    .generation = generation,
	});
}

static int refused(const struct driver *driver, cu_result result, const char *call,
		   const record *from)
{
	if (result == VMM_ADDRESS_TAKEN)
		return api_fail(GPUSHARE_E_ADDRESS_TAKEN,
				"'%s' is unified memory, at 0x%" PRIx64
				" in every process, and that address "
				"is taken here; attach it earlier, before other memory is made",
				from->name, from->address);
	if (result == CU_NOT_SUPPORTED)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is unified memory, which this driver or GPU can't map: %s is "
				"not supported",
				from->name, call);
	return api_fail_cuda(driver, result, call, "the %" PRIu64 " bytes of '%s' can't be mapped",
			     from->base_size, from->name);
}

static int place(struct gpushare_buffer *buffer, const record *from, int fd)
{
	const struct driver *driver = buffer->session->driver;
	const struct vmm_wish wish = {
	    .address = from->address - from->base_offset,
	    .host = true,
	    .read_only = buffer->read_only,
	    .hold = true, /* for sharing it again with a registry that has lost it */
	};
	const char *call = NULL;
	struct used_object used;
	cu_result result;
	int status;

	if (used_take(wish.address, from->generation, &used)) {
		buffer->mapping = used.mapping;
		if (!buffer->mapping.read_only || buffer->read_only)
			return GPUSHARE_OK;
		used_drop(buffer->mapping.pointer);
		return api_fail(GPUSHARE_E_READ_ONLY,
				"'%s' is already mapped read-only in this process, at its only "
				"address; detach it first",
				from->name);
	}
	result = vmm_map(driver, fd, from->base_size, (cu_device)buffer->device, &wish,
			 &buffer->mapping, &call);
	if (result != CU_OK)
		return refused(driver, result, call, from);
	buffer->mapping.read_only = buffer->read_only;
	status = unified_add(driver, buffer->context, &buffer->mapping, from->generation);
	if (status)
		vmm_unmap(driver, &buffer->mapping);
	return status;
}

int unified_map(struct gpushare_buffer *buffer, const record *from, int fd, bool read_only)
{
	int status;

	if (from->address <= from->base_offset)
		return api_fail(
		    GPUSHARE_E_PROTOCOL,
		    "the registry sent no address for '%s', which needs the same address in "
		    "each process",
		    from->name);
	buffer->read_only = read_only;
	buffer->pointer = from->address;
	pthread_mutex_lock(&table.placing);
	status = place(buffer, from, fd);
	pthread_mutex_unlock(&table.placing);
	return status;
}
