/* SPDX-License-Identifier: MIT */
/* Blocks: each is a memfd of a multiple of 2 MiB, divided into allocations in steps of 512
 * bytes. */

#include <utlist.h>

#include "driver_sim.h"

#define BLOCK_CACHE (UINT64_C(256) << 20) /* bytes per device, kept for later allocations */

struct span {
	struct span *next;
	uint64_t offset, size;
};

static struct block *blocks[SIM_DEVICES_MAX];

static uint64_t block_round(uint64_t size, uint64_t step)
{
	return (size + step - 1) & ~(step - 1);
}

uint64_t block_cached(cu_device device)
{
	uint64_t cached = 0;

	for (const struct block *block = blocks[device]; block; block = block->next) {
		if (!block->used)
			cached += block->size;
	}
	return cached;
}

static void block_destroy(struct block *block)
{
	LL_DELETE(blocks[block->device], block);
	state.used[block->device] -= block->size;
	munmap((void *)(uintptr_t)block->base, block->size);
	munmap(block->control, SIM_CONTROL);
	close(block->fd);
	free(block->free);
	free(block);
}

void block_empty_cache(cu_device device)
{
	struct block *block, *next;

	LL_FOREACH_SAFE (blocks[device], block, next) {
		if (!block->used)
			block_destroy(block);
	}
}

/* Count `size` against the device. False if it does not fit even after emptying the cache. */
bool block_account(cu_device device, uint64_t size)
{
	if (size > state.capacity)
		return false;
	if (state.used[device] + size > state.capacity)
		block_empty_cache(device);
	if (state.used[device] + size > state.capacity)
		return false;
	state.used[device] += size;
	return true;
}

static void *block_place(const struct block *block)
{
	return block->pooled ? address_reserve_pooled(block->size)
			     : address_reserve(block->size, SIM_BLOCK, 0);
}

static bool block_map(struct block *block)
{
	block->fd = address_memfd(block->size + SIM_CONTROL);
	if (block->fd < 0)
		return false;
	void *base = block_place(block);
	block->control = mmap(NULL, SIM_CONTROL, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd,
			      (off_t)block->size);
	if (!base || block->control == MAP_FAILED ||
	    mmap(base, block->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, block->fd, 0) ==
		MAP_FAILED) {
		if (base)
			munmap(base, block->size);
		if (block->control != MAP_FAILED)
			munmap(block->control, SIM_CONTROL);
		close(block->fd);
		return false;
	}
	/* A forked child of a CUDA process has none of its device memory. */
	madvise(base, block->size, MADV_DONTFORK);
	block->base = (uintptr_t)base;
	block->control->magic = CONTROL_BLOCK;
	block->control->nonce = address_nonce();
	block->control->size = block->size;
	block->control->physical = state.physical[block->device];
	return true;
}

static struct block *block_new(const struct memory_want *want, uint64_t size)
{
	struct block *block = calloc(1, sizeof(*block));
	struct span *span = calloc(1, sizeof(*span));

	if (!block || !span || !block_account(want->device, size)) {
		free(block);
		free(span);
		return NULL;
	}
	*block = (struct block){
	    .size = size,
	    .device = want->device,
	    .pooled = want->kind == REGION_ASYNC,
	    .free = span,
	};
	if (!block_map(block)) {
		state.used[want->device] -= size;
		free(block);
		free(span);
		return NULL;
	}
	span->size = size;
	LL_PREPEND(blocks[want->device], block);
	return block;
}

static bool block_fits(const struct block *block, uint64_t size)
{
	for (const struct span *span = block->free; span; span = span->next) {
		if (span->size >= size)
			return true;
	}
	return false;
}

/* Prefer a 2 MiB block in use that has room, else a cached block of exactly this size. The rest of
 * a larger block stays unused. */
static struct block *block_find(const struct memory_want *want, uint64_t size)
{
	uint64_t whole = block_round(size, SIM_BLOCK);
	struct block *cached = NULL;

	for (struct block *block = blocks[want->device]; block; block = block->next) {
		if (block->pooled != (want->kind == REGION_ASYNC) || !block->free)
			continue;
		if (block->used && block->size == SIM_BLOCK && block_fits(block, size))
			return block;
		if (!block->used && block->size == whole)
			cached = block;
	}
	return cached;
}

static uint64_t block_cut(struct block *block, uint64_t size)
{
	struct span *span = block->free;

	while (span->size < size)
		span = span->next;
	uint64_t offset = span->offset;
	span->offset += size;
	span->size -= size;
	if (!span->size) {
		LL_DELETE(block->free, span);
		free(span);
	}
	block->used += size;
	return offset;
}

/* NULL: out of memory. */
struct block *block_take(const struct memory_want *want, uint64_t size, uint64_t *offset)
{
	size = block_round(size, SIM_STEP);
	struct block *block = block_find(want, size);
	if (!block)
		block = block_new(want, block_round(size, SIM_BLOCK));
	if (block)
		*offset = block_cut(block, size);
	return block;
}

static void block_merge(struct span *span)
{
	struct span *next = span->next;

	if (!next || span->offset + span->size != next->offset)
		return;
	span->size += next->size;
	span->next = next->next;
	free(next);
}

/* Destroy an empty block instead of caching it if it was exported: an importer may still have it
 * mapped and must keep seeing the old contents. */
void block_give(struct block *block, uint64_t offset, uint64_t size)
{
	struct span **link = &block->free, *before = NULL;
	struct span *span = malloc(sizeof(*span));

	size = block_round(size, SIM_STEP);
	block->used -= size;
	if (!block->used &&
	    (block->exported || !span || block_cached(block->device) > BLOCK_CACHE)) {
		while (block->free) {
			struct span *next = block->free->next;
			free(block->free);
			block->free = next;
		}
		free(span);
		block_destroy(block);
		return;
	}
	if (!span)
		return; /* a free must not fail: the space is lost until the block ends */
	while (*link && (*link)->offset < offset) {
		before = *link;
		link = &before->next;
	}
	*span = (struct span){.next = *link, .offset = offset, .size = size};
	*link = span;
	block_merge(span);
	if (before)
		block_merge(before);
}
