/* SPDX-License-Identifier: MIT */
#include "api_unified.h"

#include <inttypes.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "cuda/vmm_host.h"

struct placed {
	struct placed *prev, *next;
	unsigned int users;
	const struct driver *driver;
	cu_context context;
	struct vmm_mapping mapping;
	uint64_t generation;
};

/* A thread holds `placing` while it maps or unmaps. Otherwise it could find an address taken by a
 * mapping that another thread is about to list or to unmap. */
static struct {
	pthread_mutex_t placing;
	pthread_mutex_t lock; /* never held over a CUDA call */
	struct placed *first;
} table = {.placing = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock. */
static struct placed *find(uint64_t base)
{
	struct placed *found;

	LL_SEARCH_SCALAR(table.first, found, mapping.pointer, base);
	return found;
}

bool unified_use(uint64_t base, uint64_t generation, struct vmm_mapping *out_mapping)
{
	struct placed *found;

	pthread_mutex_lock(&table.lock);
	found = find(base);
	if (found && found->generation != generation)
		found = NULL;
	if (found) {
		found->users++;
		*out_mapping = found->mapping;
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

int unified_add(const struct gpushare_buffer *buffer)
{
	struct placed *made = malloc(sizeof(*made));

	if (!made)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to map '%s'", buffer->info.name);
	*made = (struct placed){
	    .users = 1,
	    .driver = buffer->session->driver,
	    .context = buffer->context,
	    .mapping = buffer->mapping,
	    .generation = buffer->info.generation,
	};
	pthread_mutex_lock(&table.lock);
	DL_PREPEND(table.first, made);
	pthread_mutex_unlock(&table.lock);
	return GPUSHARE_OK;
}

bool unified_has(uint64_t base, uint64_t generation)
{
	const struct placed *found;
	bool has;

	pthread_mutex_lock(&table.lock);
	found = find(base);
	has = found && found->generation == generation;
	pthread_mutex_unlock(&table.lock);
	return has;
}

void unified_rename(uint64_t base, uint64_t generation, uint64_t to)
{
	struct placed *found;

	pthread_mutex_lock(&table.lock);
	found = find(base);
	if (found && found->generation == generation)
		found->generation = to;
	pthread_mutex_unlock(&table.lock);
}

/* A CPU map may outlive its session, and so the context that the session retained. CUDA has then
 * unregistered the memory, with the context. */
static int end(const struct placed *placed)
{
	const struct driver *driver = placed->driver;
	bool pushed = driver->cuCtxPushCurrent_v2(placed->context) == CU_OK;
	cu_result result = vmm_unmap(driver, &placed->mapping);
	cu_context left;

	if (pushed)
		driver->cuCtxPopCurrent_v2(&left);
	if (result == CU_OK)
		return GPUSHARE_OK;
	return api_fail_cuda(driver, result,
			     placed->mapping.file ? "cuMemHostUnregister" : "cuMemUnmap",
			     "the %" PRIu64 " bytes at 0x%" PRIx64 " can't be freed",
			     placed->mapping.size, placed->mapping.pointer);
}

int unified_drop(uint64_t base)
{
	struct placed *last;
	int status;

	pthread_mutex_lock(&table.placing);
	pthread_mutex_lock(&table.lock);
	last = find(base);
	if (last && --last->users)
		last = NULL;
	if (last)
		DL_DELETE(table.first, last);
	pthread_mutex_unlock(&table.lock);
	status = last ? end(last) : GPUSHARE_OK;
	pthread_mutex_unlock(&table.placing);
	free(last);
	return status;
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
	    .must = true,
	    .read_only = buffer->read_only,
	    .hold = true, /* for sharing it again with a registry that has lost it */
	};
	const char *call = NULL;
	cu_result result;
	int status;

	if (unified_use(wish.address, from->generation, &buffer->mapping)) {
		if (!buffer->mapping.read_only || buffer->read_only)
			return GPUSHARE_OK;
		unified_drop(buffer->mapping.pointer);
		return api_fail(GPUSHARE_E_READ_ONLY,
				"'%s' is already mapped read-only in this process, at its only "
				"address; detach it first",
				from->name);
	}
	result = vmm_host_map(driver, fd, from->base_size, (cu_device)buffer->device, &wish,
			      &buffer->mapping, &call);
	if (result != CU_OK)
		return refused(driver, result, call, from);
	buffer->mapping.read_only = buffer->read_only;
	status = unified_add(buffer);
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
