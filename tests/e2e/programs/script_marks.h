/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_MARKS_H
#define TESTS_E2E_SCRIPT_MARKS_H
/* What a process holds now, against what it held at a mark: descriptors, mappings, device memory. */
#include "cuda/cuda_abi.h"
#include "script.h"

struct marks {
	int fds, mappings;
	size_t free_bytes;
};

static struct marks marks_then;

/* Without the one that counts them. */
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

/* Of the GPU whose context is current. */
static size_t marks_free_bytes(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_cuMemGetInfo_v2_call *info = library ? dlsym(library, "cuMemGetInfo_v2") : NULL;
	size_t free_bytes = 0, total = 0;

	if (!info || info(&free_bytes, &total))
		script_stop("cuMemGetInfo failed");
	return free_bytes;
}

static struct marks marks_now(void)
{
	return (struct marks){script_count("/proc/self/fd"), marks_mappings(), marks_free_bytes()};
}

static void verb_mark(char **argument, int count)
{
	marks_now(); /* what its own first use costs */
	marks_then = marks_now();
}

/* marked: more than at the mark; less counts as nothing */
static void verb_marked(char **argument, int count)
{
	struct marks now = marks_now();

	printf("more than at the mark: %d fds, %d mappings, %zu bytes\n",
	       now.fds > marks_then.fds ? now.fds - marks_then.fds : 0,
	       now.mappings > marks_then.mappings ? now.mappings - marks_then.mappings : 0,
	       now.free_bytes < marks_then.free_bytes ? marks_then.free_bytes - now.free_bytes : 0);
}

static const struct script_verb marks_verbs[] = {
    {"mark", 0, 0, verb_mark},
    {"marked", 0, 0, verb_marked},
    {NULL, 0, 0, NULL},
};

#endif
