/* SPDX-License-Identifier: MIT */
/*
 * Copies of what the process has mapped: the CPU's up to a size, the GPU's above it. Which size that
 * is, is known to the process, or kept in the registry's directory, or measured on memory of our own.
 */
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "host_crossover.h"
#include "map.h"

#define SCRATCH ((size_t)1 << 20)

/* Where it can't be measured: what an H200 has, rounded down. */
static const struct host_crossover assumed = {.to = 256 << 10, .from = 4 << 10};

static struct {
	pthread_mutex_t lock;
	int count;
	struct {
		unsigned char uuid[GPUSHARE_UUID_SIZE];
		struct host_crossover crossover;
	} of[DEVICE_MAX];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool crossover_known(const unsigned char uuid[GPUSHARE_UUID_SIZE],
			    struct host_crossover *out)
{
	bool found = false;

	pthread_mutex_lock(&known.lock);
	for (int i = 0; !found && i < known.count; i++) {
		found = !memcmp(known.of[i].uuid, uuid, GPUSHARE_UUID_SIZE);
		if (found)
			*out = known.of[i].crossover;
	}
	pthread_mutex_unlock(&known.lock);
	return found;
}

/* Two threads may both have measured: the later answer is never found, and as good. */
static void crossover_learn(const unsigned char uuid[GPUSHARE_UUID_SIZE],
			    const struct host_crossover *crossover)
{
	pthread_mutex_lock(&known.lock);
	if (known.count < DEVICE_MAX) {
		memcpy(known.of[known.count].uuid, uuid, GPUSHARE_UUID_SIZE);
		known.of[known.count++].crossover = *crossover;
	}
	pthread_mutex_unlock(&known.lock);
}

struct scratch {
	struct gpushare_buffer buffer; /* without a name: nobody else's view is taken for its */
	struct map_view *view;
	char *host;
};

static bool crossover_race(void *user, bool to, bool dma, size_t size)
{
	const struct scratch *scratch = user;
	char *into = to ? NULL : scratch->host;
	const char *from = to ? scratch->host : NULL;

	return dma ? !transfer_dma(&scratch->buffer, 0, into, from, size)
		   : !map_view_copy(scratch->view, 0, into, from, size);
}

static bool crossover_run(struct scratch *scratch, struct host_crossover *out)
{
	_cleanup_free_ char *host = calloc(1, SCRATCH);
	bool good;

	if (!host || map_view_open(&scratch->buffer, false, &scratch->view))
		return false;
	scratch->host = host;
	good = host_crossover_measure(crossover_race, scratch, SCRATCH, out);
	map_view_close(scratch->view);
	return good;
}

static bool crossover_measure(const struct gpushare_buffer *like, struct host_crossover *out)
{
	const struct driver *driver = like->session->driver;
	struct scratch scratch = {
	    .buffer = {.session = like->session,
		       .device = like->device,
		       .context = like->context,
		       .info = {.size = SCRATCH, .backing = GPUSHARE_BACKING_VMM}},
	};
	struct vmm_mapping *mapping = &scratch.buffer.mapping;
	bool good;

	if (vmm_make(driver, SCRATCH, (cu_device)like->device, mapping) != CU_OK)
		return false;
	scratch.buffer.pointer = mapping->pointer;
	scratch.buffer.info.base_size = mapping->size;
	scratch.buffer.info.generation = mapping->pointer; /* no other's, as long as it is mapped */
	memcpy(scratch.buffer.info.device_uuid, like->info.device_uuid, GPUSHARE_UUID_SIZE);
	good = crossover_run(&scratch, out);
	vmm_unmap(driver, mapping);
	return good;
}

static void crossover_of(const struct gpushare_buffer *buffer, struct host_crossover *out)
{
	const unsigned char *uuid = buffer->info.device_uuid;
	const char *directory = buffer->session->client->directory;

	if (buffer->away) {
		*out = assumed; /* what is known is not of that */
		return;
	}
	if (crossover_known(uuid, out))
		return;
	if (!host_crossover_load(directory, uuid, out)) {
		if (crossover_measure(buffer, out))
			host_crossover_save(directory, uuid, out);
		else
			*out = assumed;
	}
	crossover_learn(uuid, out);
}

bool crossover_copy(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		    size_t length, int *out_status)
{
	bool unified = buffer->info.backing == GPUSHARE_BACKING_HOST;
	struct map_view *view = unified ? NULL : map_view_seen(buffer);
	struct host_crossover crossover;
	bool mine;

	if (!view)
		return false;
	crossover_of(buffer, &crossover);
	mine = length <= (to ? crossover.from : crossover.to);
	if (mine)
		*out_status =
		    map_view_copy(view, buffer->info.base_offset + offset, to, from, length);
	map_view_close(view);
	return mine;
}
