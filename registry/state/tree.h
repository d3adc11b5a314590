/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_TREE_H
#define GPUSHARE_REGISTRY_TREE_H
/*
 * An ordered set of structs that hold a struct tree_node: a treap. Nothing is allocated, so nothing fails, and no
 * operation takes longer than the logarithm of the count. A node's rank comes from its address and a key
 * of the process: clients can't choose names that make the tree deep.
 */
#include <stdbool.h>
#include <stddef.h>

struct tree_node {
	struct tree_node *child[2]; /* below, above */
};

struct tree {
	struct tree_node *root;
	/* Below 0, 0, above 0: as the key is below, at, above the node's. */
	int (*compare)(const void *key, const struct tree_node *node);
};

#define TREE_OF(type, member, node) ((type *)((char *)(node)-offsetof(type, member)))

/* No node has that key. */
void tree_insert(struct tree *tree, struct tree_node *node, const void *key);
/* The node is in the tree. */
void tree_remove(struct tree *tree, struct tree_node *node, const void *key);
/* NULL: none. */
struct tree_node *tree_find(const struct tree *tree, const void *key);
/* The first node above the key; NULL: none. */
struct tree_node *tree_above(const struct tree *tree, const void *key);
/* Visit the nodes above the key (`at`: also the key's own) in order, until a visit returns false. */
void tree_walk(const struct tree *tree, const void *key, bool at,
	       bool (*visit)(void *context, struct tree_node *node), void *context);

#endif
