/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_NODES_H
#define TESTS_E2E_NODES_H
/* A list in device memory, linked by device pointers. */
#include <stddef.h>
#include <stdint.h>

/* The list has NODES_COUNT nodes. Each points to the node written before it; the last one written
 * is the head. */
struct node {
	uint64_t next; /* a device pointer */
	uint64_t value;
};
#define NODES_COUNT 100

/* Return a node's address: each node has a page of its own, and they are not in order. */
static inline uint64_t node_at(uint64_t buffer, int number)
{
	return buffer + (uint64_t)(number * 37 % NODES_COUNT) * 4096;
}

/* Write the list into a buffer of NODES_COUNT pages. Return the error code of write(), or 0. */
static inline int nodes_link(uint64_t buffer, int (*write)(uint64_t, const void *, size_t))
{
	uint64_t before = 0;
	int code = 0;

	for (int i = 0; !code && i < NODES_COUNT; i++) {
		const struct node node = {before, (uint64_t)i};

		before = node_at(buffer, i);
		code = write(before, &node, sizeof(node));
	}
	return code;
}

/* Follow the list. Return the sum of its values, or -1 if a pointer can't be read. */
static inline long nodes_walk(uint64_t buffer, int (*read)(void *, uint64_t, size_t))
{
	struct node node = {node_at(buffer, NODES_COUNT - 1), 0};
	long sum = 0;

	for (int i = 0; node.next && i <= NODES_COUNT; i++) {
		if (read(&node, node.next, sizeof(node)))
			return -1;
		sum += (long)node.value;
	}
	return sum;
}

#endif
