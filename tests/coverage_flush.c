/* SPDX-License-Identifier: MIT */
/*
 * Only for `make coverage`, linked into every instrumented image (program or library): saves the
 * process's coverage counters.
 *
 * At exit, libgcov reads, adds up and rewrites each of two hundred files. Tests kill processes at
 * any moment: a kill during that rewrite would ruin the counts of all other processes. So --wrap
 * replaces libgcov's exit functions. A process adds its counters one by one to a mapped file, which
 * is valid whenever the process is killed. The code prints nothing, takes no lock, allocates no
 * memory, and avoids functions that tests replace. Each image has one file, named by a hash of its
 * object files.
 *
 * If an image starts with GPUSHARE_COVERAGE_WRITE set, it loads the counters from its file, and
 * libgcov writes them where gcov looks for them. After all tests, tests/coverage.sh runs every
 * image that way, one after another.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The structs below copy the layout in gcc's libgcov.h, which gcc doesn't install. */
#if __GNUC__ < 12 || defined(__clang__)
#error "make coverage needs gcc 12 or later"
#endif
#define KINDS (__GNUC__ < 14 ? 8 : __GNUC__ == 14 ? 9 : 10)

struct function {
	const struct unit *key;
	unsigned ident;
	unsigned lines;
	unsigned graph;
	struct {
		unsigned many;
		uint64_t *values;
	} arcs;
};

struct unit {
	unsigned version;
	struct unit *next;
	unsigned stamp;
	unsigned checksum;
	const char *file;
	void (*merge[KINDS])(void);
	unsigned many;
	const struct function *const *functions;
};

/* Weak: an image without instrumented code has no libgcov. */
extern struct {
	struct unit *first;
} __gcov_root __attribute__((weak, visibility("hidden")));
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

void __real___gcov_exit(void) __attribute__((weak));
void __real__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) __attribute__((noreturn));
void __wrap___gcov_exit(void);
void __wrap___gcov_dump(void);

static const struct {
	int of;
	rlim_t room;
} limits[] = {
    {RLIMIT_NOFILE, 1 << 16},
    {RLIMIT_AS, RLIM_INFINITY},
};
#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static void mix(uint64_t *hash, uint64_t value)
{
	*hash = (*hash ^ value) * 0x100000001b3;
}

/* Return how many counters this image has; set *hash, which names its file. */
static size_t measure(uint64_t *hash)
{
	size_t many = 0;

	*hash = 0xcbf29ce484222325;
	for (const struct unit *u = __gcov_root.first; u; u = u->next) {
		for (const char *c = u->file; *c; c++)
			mix(hash, (unsigned char)*c);
		mix(hash, u->stamp);
		mix(hash, u->checksum);
		for (unsigned i = 0; i < u->many; i++) {
			if (u->functions[i] && u->functions[i]->key == u)
				many += u->functions[i]->arcs.many;
		}
		mix(hash, many);
	}
	return many;
}

static void carry_one(uint64_t *file, uint64_t *ours, bool out)
{
	if (out)
		*ours = *file;
	else if (*ours)
		__atomic_fetch_add(file, __atomic_exchange_n(ours, 0, __ATOMIC_RELAXED),
				   __ATOMIC_RELAXED);
}

/* Add every counter to the file, or with `out` load every counter from it. */
static void carry(uint64_t *file, bool out)
{
	for (const struct unit *u = __gcov_root.first; u; u = u->next) {
		for (unsigned i = 0; i < u->many; i++) {
			const struct function *f = u->functions[i];

			if (!f || f->key != u)
				continue;
			for (unsigned n = 0; n < f->arcs.many; n++, file++)
				carry_one(file, &f->arcs.values[n], out);
		}
	}
}

/* By raw system calls: tests replace the C library's functions and make them fail. */
static uint64_t *map(size_t size, uint64_t hash)
{
	char path[512];
	long fd, at = -1;

	if (snprintf(path, sizeof(path), "%s/%016llx", COUNTS, (unsigned long long)hash) >=
	    (int)sizeof(path))
		return NULL;
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return NULL;
	syscall(SYS_fchmod, fd, 0666); /* other users' processes count as well */
	if (!syscall(SYS_ftruncate, fd, size))
		at = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	return at == -1 ? NULL : (uint64_t *)at;
}

/* A test may have lowered this process's limits. Raise them, map the file, and restore them. */
static uint64_t *map_without_limits(size_t size, uint64_t hash)
{
	struct rlimit before[LIMITS];
	uint64_t *file;

	for (size_t i = 0; i < LIMITS; i++) {
		struct rlimit most = {limits[i].room, limits[i].room};

		syscall(SYS_prlimit64, 0, limits[i].of, NULL, &before[i]);
		if (!syscall(SYS_prlimit64, 0, limits[i].of, &most, NULL))
			continue;
		most = (struct rlimit){before[i].rlim_max, before[i].rlim_max};
		syscall(SYS_prlimit64, 0, limits[i].of, &most, NULL);
	}
	file = map(size, hash);
	for (size_t i = 0; i < LIMITS; i++)
		syscall(SYS_prlimit64, 0, limits[i].of, &before[i], NULL);
	return file;
}

static bool gone; /* this process has saved its counters; count() does nothing */

static void count(bool out)
{
	int error = errno;
	uint64_t hash, *file;
	size_t size;

	if (gone || !&__gcov_root || !(size = measure(&hash) * sizeof(uint64_t)))
		return;
	file = map(size, hash);
	if (!file)
		file = map_without_limits(size, hash);
	if (file) {
		carry(file, out);
		syscall(SYS_munmap, file, size);
	}
	errno = error;
}

/* Each object file's last destructor calls it; the first call saves the counters of all. */
void __wrap___gcov_exit(void)
{
	count(false);
	gone = true;
}

/* libgcov's wrappers of the exec functions call it before the exec. */
void __wrap___gcov_dump(void)
{
	count(false);
}

/* A child that shares this memory (autostart's CLONE_VM) also saves and clears the parent's
 * counters. */
void __wrap__exit(int code)
{
	count(false);
	__real__exit(code);
}

__attribute__((constructor)) static void begin(void)
{
	if (!getenv("GPUSHARE_COVERAGE_WRITE"))
		return;
	if (__real___gcov_exit) {
		count(true);
		__real___gcov_exit();
	}
	gone = true;
	/* Only the program's constructor, which runs after the libraries', ends the process. */
	if (getauxval(AT_PHDR) == (uintptr_t)&__ehdr_start + __ehdr_start.e_phoff)
		__real__exit(0);
}
