/* SPDX-License-Identifier: MIT */
/* All address ranges that the driver knows, in a treap: 20,000 open handles stay cheap. */

#include "driver_sim.h"

static struct region *region_root;

static uint32_t region_random(void)
{
	static uint32_t seed = 2463534242u;

	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

/* Ranges that start below `start` get into `low`, the rest into `high`. */
static void region_split(struct region *tree, uint64_t start, struct region **low,
			 struct region **high)
{
	while (tree) {
		if (tree->start < start) {
			*low = tree;
			low = &tree->right;
			tree = tree->right;
		} else {
			*high = tree;
			high = &tree->left;
			tree = tree->left;
		}
	}
	*low = NULL;
	*high = NULL;
}

struct region *region_add(const struct region *model)
{
	struct region *region = malloc(sizeof(*region));
	struct region **link = &region_root;

	if (!region)
		return NULL;
	*region = *model;
	region->priority = region_random();
	while (*link && (*link)->priority > region->priority)
		link = region->start < (*link)->start ? &(*link)->left : &(*link)->right;
	region_split(*link, region->start, &region->left, &region->right);
	*link = region;
	return region;
}

void region_remove(struct region *region)
{
	struct region **link = &region_root;

	while (*link != region)
		link = region->start < (*link)->start ? &(*link)->left : &(*link)->right;
	struct region *left = region->left, *right = region->right;
	while (left && right) {
		if (left->priority > right->priority) {
			*link = left;
			link = &left->right;
			left = left->right;
		} else {
			*link = right;
			link = &right->left;
			right = right->left;
		}
	}
	*link = left ? left : right;
	free(region);
}

/* Return the last range that starts at or before `address`. */
static struct region *region_floor(uint64_t address)
{
	struct region *tree = region_root, *best = NULL;

	while (tree) {
		if (tree->start <= address) {
			best = tree;
			tree = tree->right;
		} else {
			tree = tree->left;
		}
	}
	return best;
}

struct region *region_find(uint64_t address)
{
	struct region *region = region_floor(address);

	return region && address - region->start < region->size ? region : NULL;
}

struct region *region_exactly(uint64_t start)
{
	struct region *region = region_floor(start);

	return region && region->start == start ? region : NULL;
}

bool region_overlaps(uint64_t start, uint64_t size)
{
	struct region *region = region_floor(start + size - 1);

	return region && region->start + region->size > start;
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

static struct region *region_first_in(struct region *tree, cu_context context)
{
	if (!tree || tree->context == context)
		return tree;
	struct region *found = region_first_in(tree->left, context);
	return found ? found : region_first_in(tree->right, context);
}

struct region *region_first_of(cu_context context)
{
	return region_first_in(region_root, context);
}
