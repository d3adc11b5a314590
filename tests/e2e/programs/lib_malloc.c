// SPDX-License-Identifier: MIT
/*
 * Preloaded before libgpushare_shim.so: the $LIB_MALLOC_NTH-th allocation that the shim itself
 * makes fails. At the end, the number of its allocations goes to the file $LIB_MALLOC_COUNT.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static struct {
	uintptr_t begin, end; /* of the preload */
	unsigned int nth;
	atomic_uint asked;
} fault;

static int find_preload(struct dl_phdr_info *info, size_t size, void *unused)
{
	if (!info->dlpi_name || !strstr(info->dlpi_name, "/libgpushare_shim.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;

		if (part->p_type == PT_LOAD && end > fault.end)
			fault.end = end;
	}
	fault.begin = info->dlpi_addr;
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *nth = getenv("LIB_MALLOC_NTH");

	fault.nth = nth ? (unsigned int)strtoul(nth, NULL, 10) : 0;
	dl_iterate_phdr(find_preload, NULL);
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("LIB_MALLOC_COUNT");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

	if (fd >= 0) {
		dprintf(fd, "%u\n", atomic_load(&fault.asked));
		close(fd);
	}
}

static int fails(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	if (at < fault.begin || at >= fault.end ||
	    atomic_fetch_add(&fault.asked, 1) + 1 != fault.nth)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
