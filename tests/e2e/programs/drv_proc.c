// SPDX-License-Identifier: MIT
/*
 * Calls cuGetProcAddress and cuGetProcAddress_v2 with all kinds of arguments, and prints the
 * result, the status, and the name for which dlsym() returns the same pointer. `drv_proc owners`
 * prints instead whether each pointer is the driver's or the preload's.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_abi.h"

#define NOTHING ((void *)(uintptr_t)16) /* what the result holds before the call */
#define STATUS_BEFORE 99

static const char *const names[] = {
#define F(since, version, name, params) #name,
    CUDA_ABI_CALLS(F)
#undef F
};
#define NAMES (sizeof(names) / sizeof(*names))
static const char *const suffixes[] = {"", "_ptsz", "_ptds"};
static const int versions[] = {2000, 3020, 11030, 12000, 13000};

static struct {
	char name[96];
	void *pointer;
} known[NAMES * 4];

static cu_cuGetProcAddress_call *get4;
static cu_cuGetProcAddress_v2_call *get5;
static bool null4, null5; /* a call with a NULL result pointer returns, it doesn't crash */

static void bare_of(char *to, size_t room, const char *name)
{
	const char *generation = strstr(name, "_v");

	snprintf(to, room, "%.*s", generation ? (int)(generation - name) : INT_MAX, name);
}

/* Look up each symbol, its per-thread variants, and its bare name: that of the 32-bit version. */
static void learn(void *library)
{
	size_t count = 0;

	for (size_t i = 0; i < NAMES; i++) {
		bare_of(known[count++].name, sizeof(known->name), names[i]);
		for (size_t k = 0; k < 3; k++)
			snprintf(known[count++].name, sizeof(known->name), "%s%s", names[i],
				 suffixes[k]);
	}
	for (size_t i = 0; i < count; i++)
		known[i].pointer = dlsym(library, known[i].name);
}

static const char *name_of(const void *pointer)
{
	if (pointer == NOTHING)
		return "untouched";
	for (size_t i = 0; pointer && i < NAMES * 4; i++)
		if (known[i].pointer == pointer)
			return known[i].name;
	return pointer ? "a stranger" : "NULL";
}

static const char *owner_of(void *pointer)
{
	Dl_info info;

	if (!pointer || pointer == NOTHING)
		return "nobody";
	if (!dladdr(pointer, &info))
		return "unknown";
	return strstr(info.dli_fname, "/libcuda.so")	? "driver"
	       : strstr(info.dli_fname, "libgpushare_") ? "preload"
							: "stranger";
}

static void ask(const char *name, int version, cu_uint64 flags)
{
	cu_proc_status status = STATUS_BEFORE;
	void *pointer = NOTHING;
	int result;

	printf("%s %d %llu:", name, version, (unsigned long long)flags);
	if (get4) {
		result = get4(name, &pointer, version, flags);
		printf(" %d %s", result, name_of(pointer));
		if (null4)
			printf(" null %d", get4(name, NULL, version, flags));
	}
	if (get5) {
		pointer = NOTHING;
		result = get5(name, &pointer, version, flags, &status);
		printf(" | %d %d %s", result, status, name_of(pointer));
		pointer = NOTHING;
		result = get5(name, &pointer, version, flags, NULL);
		printf(" | %d %s", result, name_of(pointer));
		status = STATUS_BEFORE;
		if (null5) {
			result = get5(name, NULL, version, flags, &status);
			printf(" null %d %d", result, status);
		}
	}
	putchar('\n');
}

static void own(const char *name, int version, cu_uint64 flags)
{
	void *pointer = NOTHING;
	int result = get5 ? get5(name, &pointer, version, flags, NULL)
			  : get4(name, &pointer, version, flags);

	printf("%s %d %llu: %s\n", name, version, (unsigned long long)flags,
	       result ? "nobody" : owner_of(pointer));
}

static void ask_all(void (*one)(const char *, int, cu_uint64))
{
	char bare[96], last[96] = "";

	for (size_t i = 0; i < NAMES; i++) {
		bare_of(bare, sizeof(bare), names[i]);
		for (size_t k = 0; strcmp(bare, last) != 0 && k < 5; k++)
			for (cu_uint64 flags = 0; flags < 3; flags++)
				one(bare, versions[k], flags);
		strcpy(last, bare);
	}
}

static void ask_odd(void)
{
	static const char *const odd[] = {"cuNoSuchCall", "cuMemAlloc_v2", "", "cudaMalloc", "cu"};
	static const int odd_versions[] = {INT_MIN, -1, 0, 1, INT_MAX};
	static const cu_uint64 odd_flags[] = {3, 4, 1ULL << 40, UINT64_MAX};

	for (int i = 0; i < 5; i++) {
		ask(odd[i], 12000, 0);
		ask("cuMemAlloc", odd_versions[i], 0);
		ask("cuGetProcAddress", odd_versions[i], 0);
	}
	for (int i = 0; i < 4; i++) {
		ask("cuMemAlloc", 12000, odd_flags[i]);
		ask("cuNoSuchCall", 12000, odd_flags[i]);
	}
}

/* Try in a child whether a call with a NULL result pointer returns. */
static bool survives_null(int parameters)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		if (parameters == 4)
			get4("cuMemAlloc", NULL, 3020, 0);
		else
			get5("cuMemAlloc", NULL, 12000, 0, NULL);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("%d parameters, NULL result: signal %d\n", parameters, WTERMSIG(status));
	return !status;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0); /* keeps what was printed if a call crashes */
	get4 = (cu_cuGetProcAddress_call *)dlsym(library, "cuGetProcAddress");
	get5 = (cu_cuGetProcAddress_v2_call *)dlsym(library, "cuGetProcAddress_v2");
	printf("entries:%s%s\n", get4 ? " cuGetProcAddress" : "",
	       get5 ? " cuGetProcAddress_v2" : "");
	learn(library);
	if (!get4 && !get5)
		return 0;
	if (argc > 1 && !strcmp(argv[1], "owners")) {
		ask_all(own);
		return 0;
	}
	null4 = get4 && survives_null(4);
	null5 = get5 && survives_null(5);
	ask_all(ask);
	ask_odd();
	return 0;
}
