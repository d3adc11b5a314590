// SPDX-License-Identifier: MIT
/* The ordered set that names and generations stand in. */
#include "unit.h"

#include "state/tree.h"

#define MANY 5000

struct thing {
	struct tree_node node;
	int key;
};

static int compare(const void *key, const struct tree_node *node)
{
	return *(const int *)key - TREE_OF(struct thing, node, node)->key;
}

static struct tree tree;
static struct thing *all[MANY];

static int begin(void **state)
{
	tree = (struct tree){.compare = compare};
	for (int i = 0; i < MANY; i++) {
		all[i] = calloc(1, sizeof(**all));
		all[i]->key = i;
	}
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < MANY; i++)
		free(all[i]);
	return 0;
}

static int depth(const struct tree_node *node)
{
	int below = node ? depth(node->child[0]) : 0, above = node ? depth(node->child[1]) : 0;

	return node ? 1 + (below > above ? below : above) : 0;
}

static int walked[MANY], count;

static bool visit(void *most, struct tree_node *node)
{
	walked[count++] = TREE_OF(struct thing, node, node)->key;
	return count < *(int *)most;
}

/* A walk from each key visits what tree_above() finds one by one. */
static void assert_walks(int most)
{
	for (int from = -1; from < MANY; from += 1 + MANY / 50) {
		for (int at = 0; at < 2; at++) {
			const struct tree_node *next = at && tree_find(&tree, &from)
							   ? tree_find(&tree, &from)
							   : tree_above(&tree, &from);

			count = 0;
			tree_walk(&tree, &from, at, visit, &most);
			for (int i = 0; i < count; i++) {
				assert_int_equal(walked[i], TREE_OF(struct thing, node, next)->key);
				next = tree_above(&tree, &walked[i]);
			}
			assert_true(!next || count == most);
		}
	}
}

/* Expect exactly the keys of is_there(), in order, each found by its key. */
static void assert_are(bool (*is_there)(int))
{
	struct tree_node *next = NULL;

	for (int i = MANY - 1; i >= 0; i--) {
		assert_ptr_equal(tree_above(&tree, &i), next);
		if (is_there(i))
			next = &all[i]->node;
		assert_ptr_equal(tree_find(&tree, &i), is_there(i) ? &all[i]->node : NULL);
	}
	assert_in_range(depth(tree.root), 0, 64); /* a depth of 37 is expected at most */
	assert_walks(20);
	assert_walks(MANY + 1);
}

static bool every(int i)
{
	return i >= 0;
}

static bool third(int i)
{
	return i % 3 == 0;
}

static bool none(int i)
{
	return i < 0;
}

static void insert(int i)
{
	tree_insert(&tree, &all[i]->node, &i);
}

static void drop(int i)
{
	tree_remove(&tree, &all[i]->node, &i);
}

static void they_come_and_go_in_any_order(void **state)
{
	assert_are(none);
	for (int i = 0; i < MANY; i++)
		insert(i * 1009 % MANY);
	assert_are(every);
	for (int i = 0; i < MANY; i++)
		if (!third(i * 1009 % MANY))
			drop(i * 1009 % MANY);
	assert_are(third);
	for (int i = 0; i < MANY; i += 3)
		drop(i);
	assert_are(none);
	assert_null(tree.root);
}

/* The order in which clients choose names does not make it deep. */
static void they_come_in_order_and_backwards(void **state)
{
	for (int i = 0; i < MANY; i++)
		insert(i);
	assert_are(every);
	for (int i = MANY - 1; i >= 0; i--)
		drop(i);
	assert_are(none);
	for (int i = MANY - 1; i >= 0; i--)
		insert(i);
	assert_are(every);
	for (int i = 0; i < MANY; i++)
		drop(i);
	assert_are(none);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(they_come_and_go_in_any_order, begin, end),
	  cmocka_unit_test_setup_teardown(they_come_in_order_and_backwards, begin, end))
