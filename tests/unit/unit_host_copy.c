/* SPDX-License-Identifier: MIT */
/*
 * Every way to copy, from every start to every length: the right bytes arrive, and those beside them
 * are neither written (guards) nor read (pages that can't be).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
/* cmocka wants some of the above first */
#include <cmocka.h>

#include "host_copy.h"

#define PAGE ((size_t)4096)
#define OFFSETS 128
#define LENGTHS 301
#define GUARD 0xa5
#define BIG (((size_t)3 << 20) + 77)

static unsigned char pattern(size_t i)
{
	return (unsigned char)((i * 2654435761u >> 13) ^ i);
}

/* `size` bytes between two pages that nobody may touch. */
static char *fenced(size_t size)
{
	size_t pages = (size + PAGE - 1) / PAGE * PAGE;
	char *room = mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(room != MAP_FAILED);
	assert_int_equal(mprotect(room + PAGE, pages, PROT_READ | PROT_WRITE), 0);
	return room + PAGE;
}

static void unfence(char *room, size_t size)
{
	munmap(room - PAGE, (size + PAGE - 1) / PAGE * PAGE + 2 * PAGE);
}

static bool is_guard(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)bytes[i] != GUARD)
			return false;
	return true;
}

/* One copy, the device's and the host's side at offsets of their own in `PAGE` bytes each. */
static void one_copy(const struct host_copy_way *way, bool to, size_t device_at, size_t host_at,
		     size_t length, char *device, char *host)
{
	char *from = to ? host + host_at : device + device_at;
	char *into = to ? device : host;
	size_t into_at = to ? device_at : host_at;

	memset(into, GUARD, PAGE);
	for (size_t i = 0; i < length; i++)
		from[i] = (char)pattern(i);
	(to ? way->to : way->from)(into + into_at, from, length);
	if (memcmp(into + into_at, from, length) != 0 || !is_guard(into, into_at) ||
	    !is_guard(into + into_at + length, PAGE - into_at - length))
		fail_msg("%s %s: %zu bytes, device at %zu, host at %zu", way->name,
			 to ? "to" : "from", length, device_at, host_at);
}

static void each_way(void (*test)(const struct host_copy_way *way))
{
	for (const struct host_copy_way *way = host_copy_ways; way->name; way++) {
		if (way->usable())
			test(way);
		else
			print_message("    this CPU has no %s\n", way->name);
	}
}

static void all_starts(const struct host_copy_way *way)
{
	char *device = fenced(PAGE), *host = fenced(PAGE);

	for (size_t at = 0; at < OFFSETS; at++) {
		for (size_t length = 0; length < LENGTHS; length++) {
			one_copy(way, true, at, (at * 7 + length) % 61, length, device, host);
			one_copy(way, false, at, (at * 5 + length) % 67, length, device, host);
		}
	}
	unfence(device, PAGE);
	unfence(host, PAGE);
}

static void test_all_starts(void **state)
{
	(void)state;
	each_way(all_starts);
}

/* Up against pages that can't be touched, on each side. */
static void at_the_edge(const struct host_copy_way *way)
{
	char *device = fenced(PAGE), *host = fenced(PAGE);

	for (size_t length = 0; length < LENGTHS; length++) {
		for (size_t i = 0; i < length; i++)
			host[PAGE - length + i] = (char)pattern(i);
		way->to(device + PAGE - length, host + PAGE - length, length);
		way->from(host, device + PAGE - length, length);
		assert_int_equal(memcmp(host, host + PAGE - length, length), 0);
		way->to(device, host, length);
		memset(host + PAGE - length, 0, length);
		way->from(host + PAGE - length, device, length);
		for (size_t i = 0; i < length; i++)
			assert_int_equal((unsigned char)host[PAGE - length + i], pattern(i));
	}
	unfence(device, PAGE);
	unfence(host, PAGE);
}

static void test_edges(void **state)
{
	(void)state;
	each_way(at_the_edge);
}

static void big_ones(const struct host_copy_way *way)
{
	char *device = fenced(BIG + 200), *host = fenced(BIG + 200), *back = fenced(BIG + 200);

	for (size_t i = 0; i < BIG + 200; i++)
		host[i] = (char)pattern(i);
	for (size_t at = 0; at < 67; at += 11) {
		memset(device, GUARD, BIG + 200);
		memset(back, GUARD, BIG + 200);
		way->to(device + at, host + 3 * at % 64, BIG);
		assert_int_equal(memcmp(device + at, host + 3 * at % 64, BIG), 0);
		assert_true(is_guard(device, at) && is_guard(device + at + BIG, 200 - at));
		way->from(back + at % 7, device + at, BIG);
		assert_int_equal(memcmp(back + at % 7, host + 3 * at % 64, BIG), 0);
		assert_true(is_guard(back, at % 7) && is_guard(back + at % 7 + BIG, 200 - at % 7));
	}
	unfence(device, BIG + 200);
	unfence(host, BIG + 200);
	unfence(back, BIG + 200);
}

static void test_big(void **state)
{
	(void)state;
	each_way(big_ones);
}

/* The calls themselves take the first usable way. */
static void test_best(void **state)
{
	const struct host_copy_way *first = host_copy_ways;
	char device[100] = "", host[100] = "", back[100] = "";

	(void)state;
	while (!first->usable())
		first++;
	assert_ptr_equal(host_copy_best(), first);
	assert_ptr_equal(host_copy_best(), first);
	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (char)pattern(i);
	host_copy_to(device + 1, host, 98);
	host_copy_from(back, device + 1, 98);
	assert_memory_equal(back, host, 98);
	assert_int_equal(device[0] | device[99] | back[98], 0);
	host_copy_to(NULL, NULL, 0);
	host_copy_from(NULL, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_starts),
	    cmocka_unit_test(test_edges),
	    cmocka_unit_test(test_big),
	    cmocka_unit_test(test_best),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
