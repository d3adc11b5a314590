/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_MARKS_H
#define TESTS_E2E_SCRIPT_MARKS_H
/* Compare what a process holds with what it held at a mark: file descriptors, mappings, device
 * memory. */
#include "cuda/cuda_abi.h"
#include "script.h"

struct marks {
	int fds, mappings;
	size_t free_bytes;
};

static struct marks marks_then;

static int marks_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	int lines = 0, c;

	if (!file)
		script_stop("no /proc/self/maps");
	while ((c = getc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

/* Return the free memory of the current context's GPU, in bytes; 0 where other tests use that GPU
 * at the same time. */
static size_t marks_free_bytes(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_cuMemGetInfo_v2_call *info = library ? dlsym(library, "cuMemGetInfo_v2") : NULL;
	size_t free_bytes = 0, total = 0;

	if (getenv("GPUSHARE_TEST_GPU_SHARED"))
		return 0;
	if (!info || info(&free_bytes, &total))
		script_stop("cuMemGetInfo failed");
	return free_bytes;
}

static struct marks marks_now(void)
{
	return (struct marks){script_count("/proc/self/fd"), marks_mappings(), marks_free_bytes()};
}

VERB(mark, 0, 0)
{
	marks_now(); /* the first call may itself allocate something that stays */
	marks_then = marks_now();
}

/* marked: print how much more the process holds than at the mark; 0 if it holds less */
VERB(marked, 0, 0)
{
	struct marks now = marks_now();

	printf("more than at the mark: %d fds, %d mappings, %zu bytes\n",
	       now.fds > marks_then.fds ? now.fds - marks_then.fds : 0,
	       now.mappings > marks_then.mappings ? now.mappings - marks_then.mappings : 0,
	       now.free_bytes < marks_then.free_bytes ? marks_then.free_bytes - now.free_bytes : 0);
}

#endif
