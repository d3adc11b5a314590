/* SPDX-License-Identifier: MIT */
#include "host_copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE 64	 /* bytes of a cache line */
#define LINES 16 /* line loads that the CPU can have in flight over the bus */

static size_t over(const char *pointer, size_t alignment)
{
	return (uintptr_t)pointer & (alignment - 1);
}

/* Bytes from `device` to its next cache line boundary, but at most `size`. */
static size_t up_to_line(const char *device, size_t size)
{
	size_t head = (LINE - over(device, LINE)) % LINE;

	return head < size ? head : size;
}

/* One access to device memory, as wide as the type and aligned to it; `host` may be unaligned. */
#define WORD(type) \
	static inline void store_##type(char *device, const char *host) \
	{ \
		type word; \
		memcpy(&word, host, sizeof(word)); \
		*(volatile type *)device = word; \
	} \
	static inline void load_##type(char *host, const char *device) \
	{ \
		type word = *(const volatile type *)device; \
		memcpy(host, &word, sizeof(word)); \
	}
WORD(uint8_t)
WORD(uint16_t)
WORD(uint32_t)
WORD(uint64_t)
#undef WORD

/* The accesses widen to 8 bytes as the device address becomes aligned, then narrow for the rest. */
#define ONE(access, type) \
	access##_##type(to, from); \
	to += sizeof(type), from += sizeof(type), size -= sizeof(type)
#define WIDEN(access, type, device) \
	if (size >= sizeof(type) && over(device, 2 * sizeof(type))) { \
		ONE(access, type); \
	}
#define NARROW(access, type) \
	if (size >= sizeof(type)) { \
		ONE(access, type); \
	}
#define BY_WORDS(access, device) \
	WIDEN(access, uint8_t, device) \
	WIDEN(access, uint16_t, device) \
	WIDEN(access, uint32_t, device) \
	while (size >= sizeof(uint64_t)) { \
		ONE(access, uint64_t); \
	} \
	NARROW(access, uint32_t) \
	NARROW(access, uint16_t) \
	if (size) \
	access##_uint8_t(to, from)

static void words_to(char *to, const char *from, size_t size)
{
	BY_WORDS(store, to);
}

static void words_from(char *to, const char *from, size_t size)
{
	BY_WORDS(load, from);
}

static bool words_usable(void)
{
	return true;
}

#if defined(__x86_64__)
void host_copy_fence_stores(void)
{
	_mm_sfence();
}

/* Needed because a streaming load may be served from a line that the CPU fetched earlier. */
static void fence_loads(void)
{
	_mm_mfence();
}

/* Stores of 16 bytes are SSE2, which every x86-64 has; loads that bypass the cache are SSE4.1. */
static void sse41_to(char *device, const char *host, size_t size)
{
	size_t head = up_to_line(device, size);

	words_to(device, host, head);
	device += head, host += head, size -= head;
	for (; size >= LINE; device += LINE, host += LINE, size -= LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)host);
		__m128i b = _mm_loadu_si128((const __m128i *)host + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)host + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)host + 3);

		_mm_stream_si128((__m128i *)device, a);
		_mm_stream_si128((__m128i *)device + 1, b);
		_mm_stream_si128((__m128i *)device + 2, c);
		_mm_stream_si128((__m128i *)device + 3, d);
	}
	words_to(device, host, size);
}

static void load_any(char *host, const char *device)
{
	_mm_storeu_si128((__m128i *)host, _mm_loadu_si128((const __m128i *)device));
}

#define STREAM(host, device) \
	_mm_storeu_si128((__m128i *)(host), _mm_stream_load_si128((__m128i *)(device)))

/*
 * Each ordinary load is a round trip over the bus. So one such load of 16 bytes copies the
 * unaligned beginning, and one the unaligned end; both overlap the aligned part between them.
 * `lines` copies whole lines and returns how many bytes it copied.
 */
__attribute__((target("sse4.1"))) static void
streamed_from(char *host, const char *device, size_t size,
	      size_t (*lines)(char *host, const char *device, size_t size))
{
	const char *end = device + size;
	size_t step;

	if (size < 16) {
		words_from(host, device, size);
		return;
	}
	if (over(device, 16)) {
		load_any(host, device);
		step = 16 - over(device, 16);
		device += step, host += step, size -= step;
	}
	for (; over(device, LINE) && size >= 16; device += 16, host += 16, size -= 16)
		STREAM(host, device);
	if (size >= LINE) {
		step = lines(host, device, size);
		device += step, host += step, size -= step;
	}
	for (; size >= 16; device += 16, host += 16, size -= 16)
		STREAM(host, device);
	if (size)
		load_any(host + size - 16, end - 16);
}

__attribute__((target("sse4.1"))) static size_t sse41_lines(char *host, const char *device,
							    size_t size)
{
	size_t done = 0;

	for (; size - done >= LINE; done += LINE) {
		__m128i *line = (__m128i *)(device + done);
		__m128i a = _mm_stream_load_si128(line);
		__m128i b = _mm_stream_load_si128(line + 1);
		__m128i c = _mm_stream_load_si128(line + 2);
		__m128i d = _mm_stream_load_si128(line + 3);

		_mm_storeu_si128((__m128i *)(host + done), a);
		_mm_storeu_si128((__m128i *)(host + done) + 1, b);
		_mm_storeu_si128((__m128i *)(host + done) + 2, c);
		_mm_storeu_si128((__m128i *)(host + done) + 3, d);
	}
	return done;
}

/* One load per line: the bus transfers a whole line at once, and no second load needs the line.
 * LINES lines are loaded into registers before the first of them is stored: a store that misses the
 * cache would delay loads in flight. */
__attribute__((target("avx512f"))) static size_t avx512_lines(char *host, const char *device,
							      size_t size)
{
	__m512i come[LINES];
	size_t done = 0;

	for (; size - done >= sizeof(come); done += sizeof(come)) {
		for (int i = 0; i < LINES; i++)
			come[i] = _mm512_stream_load_si512((void *)(device + done + i * LINE));
		for (int i = 0; i < LINES; i++)
			_mm512_storeu_si512(host + done + i * LINE, come[i]);
	}
	for (; size - done >= LINE; done += LINE)
		_mm512_storeu_si512(host + done, _mm512_stream_load_si512((void *)(device + done)));
	return done;
}

static void sse41_from(char *host, const char *device, size_t size)
{
	streamed_from(host, device, size, sse41_lines);
}

static void avx512_from(char *host, const char *device, size_t size)
{
	streamed_from(host, device, size, avx512_lines);
}

static bool sse41_usable(void)
{
	return __builtin_cpu_supports("sse4.1");
}

static bool avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f");
}

#elif defined(__aarch64__)
void host_copy_fence_stores(void)
{
	__asm__ volatile("dsb st" ::: "memory");
}

static void fence_loads(void)
{
	__asm__ volatile("dsb ld" ::: "memory");
}

static void pairs_to(char *device, const char *host, size_t size)
{
	size_t head = up_to_line(device, size);

	words_to(device, host, head);
	device += head, host += head, size -= head;
	for (; size >= LINE; device += LINE, host += LINE, size -= LINE)
		__asm__ volatile("ldp q0, q1, [%1]\n\t"
				 "ldp q2, q3, [%1, #32]\n\t"
				 "stnp q0, q1, [%0]\n\t"
				 "stnp q2, q3, [%0, #32]" ::"r"(device),
				 "r"(host)
				 : "v0", "v1", "v2", "v3", "memory");
	words_to(device, host, size);
}

static void pairs_from(char *host, const char *device, size_t size)
{
	size_t head = up_to_line(device, size);

	words_from(host, device, head);
	device += head, host += head, size -= head;
	for (; size >= LINE; device += LINE, host += LINE, size -= LINE)
		__asm__ volatile("ldnp q0, q1, [%1]\n\t"
				 "ldnp q2, q3, [%1, #32]\n\t"
				 "stp q0, q1, [%0]\n\t"
				 "stp q2, q3, [%0, #32]" ::"r"(host),
				 "r"(device)
				 : "v0", "v1", "v2", "v3", "memory");
	words_from(host, device, size);
}

static bool pairs_usable(void)
{
	return true;
}

#endif

const struct host_copy_way host_copy_ways[] = {
#define W(name, to) {#name, name##_usable, to, name##_from},
    HOST_COPY_WAYS(W)
#undef W
	{NULL, NULL, NULL, NULL},
};

const struct host_copy_way *host_copy_best(void)
{
	static _Atomic(const struct host_copy_way *) known;
	const struct host_copy_way *way = atomic_load_explicit(&known, memory_order_relaxed);

	if (way)
		return way;
	for (way = host_copy_ways; !way->usable();)
		way++;
	atomic_store_explicit(&known, way, memory_order_relaxed);
	return way;
}

void host_copy_to(void *device, const void *host, size_t size)
{
	host_copy_best()->to(device, host, size);
	host_copy_fence_stores();
}

void host_copy_from(void *host, const void *device, size_t size)
{
	fence_loads();
	host_copy_best()->from(host, device, size);
}
