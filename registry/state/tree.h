/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_TREE_H
#define GPUSHARE_REGISTRY_TREE_H
/*
 * An ordered set (a treap) of structs that contain a struct tree_node. Nothing is allocated, so
 * nothing fails, and an operation takes O(log n). A node's rank is a hash of its address with a
 * secret of the process, so clients can't choose names that make the tree deep.
 */
#include <stdbool.h>
#include <stddef.h>

struct tree_node {
	struct tree_node *child[2]; /* below, above */
};

struct tree {
	struct tree_node *root;
	/* < 0, 0 or > 0: the key is below, equal to or above the node's key. */
	int (*compare)(const void *key, const struct tree_node *node);
};

/* The struct that contains the node. */
#define TREE_OF(type, member, node) ((type *)((char *)(node)-offsetof(type, member)))
/* The same for the result of a look-up; NULL if that is NULL. */
#define TREE_FOUND(type, member, found) ((type *)tree_outer((found), offsetof(type, member)))
static inline void *tree_outer(struct tree_node *found, size_t offset)
{
	return found ? (char *)found - offset : NULL;
}

/* The tree must have no node with that key. */
void tree_insert(struct tree *tree, struct tree_node *node, const void *key);
/* The node must be in the tree, with that key. */
void tree_remove(struct tree *tree, struct tree_node *node, const void *key);
/* NULL: none. */
struct tree_node *tree_find(const struct tree *tree, const void *key);
/* The first node above the key; NULL: none. */
struct tree_node *tree_above(const struct tree *tree, const void *key);
/* Visit the nodes above the key (`at`: also the key's own) in order, until a visit returns
 * false. */
void tree_walk(const struct tree *tree, const void *key, bool at,
	       bool (*visit)(void *context, struct tree_node *node), void *context);

#endif
