/* SPDX-License-Identifier: MIT */
#include "state/tree.h"

#include "os/hash.h"

static unsigned int rank(const struct tree_node *node)
{
	return hash_of(&node, sizeof(node));
}

void tree_insert(struct tree *tree, struct tree_node *node, const void *key)
{
	struct tree_node **at = &tree->root, *rest, **end[2];

	while (*at && rank(*at) >= rank(node))
		at = &(*at)->child[tree->compare(key, *at) > 0];
	rest = *at;
	*at = node;
	end[0] = &node->child[0];
	end[1] = &node->child[1];
	while (rest) { /* split the old subtree into the keys below and above the node */
		int below = tree->compare(key, rest) > 0;

		*end[!below] = rest;
		end[!below] = &rest->child[below];
		rest = rest->child[below];
	}
	*end[0] = *end[1] = NULL;
}

void tree_remove(struct tree *tree, struct tree_node *node, const void *key)
{
	struct tree_node **at = &tree->root, *below = node->child[0], *above = node->child[1];

	while (*at != node)
		at = &(*at)->child[tree->compare(key, *at) > 0];
	while (below && above) {
		if (rank(below) > rank(above)) {
			*at = below;
			at = &below->child[1];
			below = *at;
		} else {
			*at = above;
			at = &above->child[0];
			above = *at;
		}
	}
	*at = below ? below : above;
}

struct tree_node *tree_find(const struct tree *tree, const void *key)
{
	struct tree_node *node = tree->root;
	int side;

	while (node && (side = tree->compare(key, node)))
		node = node->child[side > 0];
	return node;
}

struct tree_node *tree_above(const struct tree *tree, const void *key)
{
	struct tree_node *node = tree->root, *found = NULL;

	while (node) {
		int below = tree->compare(key, node) < 0;

		if (below)
			found = node;
		node = node->child[!below];
	}
	return found;
}

/* `key` is NULL if `node` and all its descendants are known to be above the key. */
static bool walk_from(const struct tree *tree, struct tree_node *node, const void *key, bool at,
		      bool (*visit)(void *context, struct tree_node *node), void *context)
{
	while (node) {
		int side = key ? tree->compare(key, node) : -1;

		__builtin_prefetch(node->child[1]);
		if (side < 0 && !walk_from(tree, node->child[0], key, at, visit, context))
			return false;
		if (side < (at ? 1 : 0) && !visit(context, node))
			return false;
		if (side <= 0)
			key = NULL;
		node = node->child[1];
	}
	return true;
}

void tree_walk(const struct tree *tree, const void *key, bool at,
	       bool (*visit)(void *context, struct tree_node *node), void *context)
{
	walk_from(tree, tree->root, key, at, visit, context);
}
