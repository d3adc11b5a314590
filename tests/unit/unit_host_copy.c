/* SPDX-License-Identifier: MIT */
/* Every copy method with every start and length: the right bytes arrive. Those beside them are
 * neither written (guards) nor read (inaccessible pages). */
#include "unit.h"

#include "core/copy/host_copy.h"

#define PAGE ((size_t)4096)
#define OFFSETS 128
#define LENGTHS 301
#define LOOP ((size_t)1024) /* bytes: no method copies more per loop */
#define MORE 17
#define GUARD 0xa5

static unsigned char pattern(size_t i)
{
	return (unsigned char)((i * 2654435761u >> 13) ^ i);
}

/* Map `size` bytes between two inaccessible pages. */
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

/* Make one copy and check it. Device and host side have their own offsets within `PAGE` bytes. */
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
		/* lengths around the end of a loop over many cache lines */
		for (size_t length = 2 * LOOP - MORE; length < 2 * LOOP + 64 + MORE; length++) {
			one_copy(way, true, at, (at * 7 + length) % 61, length, device, host);
			one_copy(way, false, at, (at * 5 + length) % 67, length, device, host);
		}
	}
	unfence(device, PAGE);
	unfence(host, PAGE);
}

static void test_all_starts(void **state)
{
	each_way(all_starts);
}

/* Copy right up to inaccessible pages, on each side. */
static void at_the_edge(const struct host_copy_way *way)
{
	char *device = fenced(PAGE), *host = fenced(PAGE);

	for (size_t length = 0; length < 2 * LOOP; length++) {
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
	each_way(at_the_edge);
}

/* An aligned word is stored in one piece, alone or among others. Another process sees its old or
 * its new value. */
#define WORDS 24
#define LOOKS 2000000
#define PATIENCE_S 60

struct watched {
	_Alignas(64) volatile uint64_t words[WORDS];
	_Atomic bool ended;
};

static void change(const struct host_copy_way *way, struct watched *watched)
{
	static const size_t firsts[] = {0, 1, 3, 7, 8};
	uint64_t values[WORDS];

	for (size_t k = 0; !atomic_load(&watched->ended); k++) {
		size_t first = firsts[k % 5], count = k % 3 ? WORDS - first : 1;

		memset(values, k % 2 ? 0xff : 0, sizeof(values));
		way->to((char *)&watched->words[first], (char *)values, count * sizeof(*values));
	}
	_exit(0);
}

static void words_at_once(const struct host_copy_way *way)
{
	struct watched *watched =
	    mmap(NULL, sizeof(*watched), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t torn = 0, seen[2] = {0};
	time_t end = time(NULL) + PATIENCE_S;
	pid_t child;

	assert_true(watched != MAP_FAILED);
	child = fork();
	if (!child)
		change(way, watched);
	for (size_t i = 0; i < LOOKS || (!(seen[0] && seen[1]) && time(NULL) < end); i++) {
		uint64_t now = watched->words[i % WORDS];

		torn += now && ~now;
		seen[now & 1]++;
	}
	atomic_store(&watched->ended, true);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(torn, 0);
	assert_true(seen[0] && seen[1]);
	munmap(watched, sizeof(*watched));
}

static void test_words(void **state)
{
	each_way(words_at_once);
}

/* In other builds the compiler's own copies or the sanitizer's accesses are unaligned. */
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define ALIGNMENT
/* With the CPU's alignment check no word may be read or written unaligned, whatever the offsets. */
#define CHECK_ALIGNMENT 0x40000u /* EFLAGS.AC */

static void test_alignment(void **state)
{
	const struct host_copy_way *way = host_copy_ways;
	_Alignas(64) char device[128], host[128], back[128];

	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (char)(i + 1);
	while (strcmp(way->name, "words") != 0)
		way++;
	for (size_t at = 0; at < 16; at++) {
		for (size_t length = 0; length < 100; length++) {
			unsigned long long flags = __builtin_ia32_readeflags_u64();

			memset(device, 0, sizeof(device));
			memset(back, 0, sizeof(back));
			__builtin_ia32_writeeflags_u64(flags | CHECK_ALIGNMENT);
			way->to(device + at, host + at, length);
			way->from(back + at, device + at, length);
			__builtin_ia32_writeeflags_u64(flags);
			assert_memory_equal(device + at, host + at, length);
			assert_memory_equal(back + at, host + at, length);
		}
	}
}
#endif

/* The public calls use the first usable method. */
static void test_best(void **state)
{
	const struct host_copy_way *first = host_copy_ways;
	char device[100] = "", host[100] = "", back[100] = "";

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
	    UNIT(test_all_starts), UNIT(test_edges), UNIT(test_words), UNIT(test_best),
#ifdef ALIGNMENT
	    UNIT(test_alignment),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
