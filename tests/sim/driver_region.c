/* SPDX-License-Identifier: MIT */
/* All address ranges that the driver knows. They don't overlap, so two ranges that overlap count as
 * equal. A tree finds one of 20,000 open handles quickly. */

#include <search.h>
#include <utlist.h>

#include "driver_sim.h"

static void *region_tree;
static struct region *regions;

static int region_compare(const void *one, const void *other)
{
	const struct region *a = one, *b = other;

	if (a->start + a->size <= b->start)
		return -1;
	return b->start + b->size <= a->start;
}

static struct region *region_within(uint64_t start, uint64_t size)
{
	const struct region range = {.start = start, .size = size};
	struct region *const *found = tfind(&range, &region_tree, region_compare);

	return found ? *found : NULL;
}

struct region *region_add(const struct region *model)
{
	struct region *region = malloc(sizeof(*region));

	if (!region)
		return NULL;
	*region = *model;
	if (!tsearch(region, &region_tree, region_compare)) {
		free(region);
		return NULL;
	}
	DL_PREPEND(regions, region);
	return region;
}

void region_remove(struct region *region)
{
	tdelete(region, &region_tree, region_compare);
	DL_DELETE(regions, region);
	free(region);
}

struct region *region_find(uint64_t address)
{
	return region_within(address, 1);
}

struct region *region_exactly(uint64_t start)
{
	struct region *region = region_find(start);

	return region && region->start == start ? region : NULL;
}

bool region_overlaps(uint64_t start, uint64_t size)
{
	return region_within(start, size);
}

/* An access may span adjacent VMM mappings, but only one allocation of any other kind. */
bool region_covers(uint64_t start, uint64_t size, int access)
{
	while (size) {
		struct region *region = region_find(start);
		if (!region || (region->access & access) != access)
			return false;
		uint64_t left = region->start + region->size - start;
		if (size <= left)
			return true;
		if (region->kind != REGION_MAPPED)
			return false;
		start += left;
		size -= left;
	}
	return true;
}

struct region *region_first_of(cu_context context)
{
	struct region *region;

	DL_SEARCH_SCALAR(regions, region, context, context);
	return region;
}
