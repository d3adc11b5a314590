/* SPDX-License-Identifier: MIT */
/*
 * How a CUDA runtime finds the driver's entry points. There is one way per CUDA generation. A
 * shared library is built for one (-DSIM_CUDART=12); GPUSHARE_SIM_CUDART chooses it in the static
 * one:
 *   13  one dlsym("cuGetProcAddress_v2"), then all look-ups through that pointer, twice: with flags
 *       0 and 2. No status is asked for.
 *   12  as 13, but the pointer is first replaced by its own answer for "cuGetProcAddress" at 12000
 *   11  one dlsym("cuGetProcAddress"), the call with four arguments
 * If the driver lacks that call, plain dlsym looks up versioned names.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_sim.h"

static struct {
	pthread_once_t once;
	void *handle;
	int generation; /* 11, 12, 13; 0: a setting that does not parse */
	cu_cuGetProcAddress_call *four;
	cu_cuGetProcAddress_v2_call *five;
	struct runtime_table tables[2];
	cudaError_t result;
} lookup = {.once = PTHREAD_ONCE_INIT};

static const struct {
	const char *name;
	int version;
	const char *symbol;
} lookup_calls[] = {
#define R(name, version, symbol) {#name, version, #symbol},
    RUNTIME_CALLS(R)
#undef R
};
#define LOOKUP_COUNT (sizeof(lookup_calls) / sizeof(lookup_calls[0]))
_Static_assert(sizeof(struct runtime_table) == LOOKUP_COUNT * sizeof(void *), "one slot a call");

#ifdef SIM_CUDART
static int lookup_generation(void)
{
	return SIM_CUDART;
}
#else
static int lookup_generation(void)
{
	const char *text = getenv("GPUSHARE_SIM_CUDART");

	if (!text || !*text)
		return 13;
	for (int generation = 11; generation <= 13; generation++) {
		char name[4];
		snprintf(name, sizeof(name), "%d", generation);
		if (strcmp(text, name) == 0)
			return generation;
	}
	return 0;
}
#endif

static int lookup_versions(int generation)
{
	return generation == 11 ? 11080 : generation == 12 ? 12080 : 13000;
}

static int lookup_ask(const char *symbol, void **pointer, int version, uint64_t flags, int *status)
{
	cu_proc_status found = (cu_proc_status)0;
	int result;

	*pointer = NULL;
	if (lookup.four)
		result = (int)lookup.four(symbol, pointer, version, flags);
	else
		result = (int)lookup.five(symbol, pointer, version, flags, status ? &found : NULL);
	if (status)
		*status = result == CU_OK || (int)found ? (int)found : CU_PROC_SYMBOL_NOT_FOUND;
	return result;
}

static void *lookup_plain(const char *symbol, bool per_thread)
{
	static const char *const suffixes[] = {"_ptsz", "_ptds"};
	char name[96];

	for (size_t i = 0; per_thread && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, suffixes[i]);
		void *pointer = dlsym(lookup.handle, name);
		if (pointer)
			return pointer;
	}
	return dlsym(lookup.handle, symbol);
}

static void lookup_fill(struct runtime_table *table, bool per_thread)
{
	void **slots = (void **)table;
	uint64_t flags = per_thread ? CU_PROC_PER_THREAD_STREAM : CU_PROC_DEFAULT;

	for (size_t i = 0; i < LOOKUP_COUNT; i++) {
		if (lookup.four || lookup.five)
			lookup_ask(lookup_calls[i].name, &slots[i], lookup_calls[i].version, flags,
				   NULL);
		else
			slots[i] = lookup_plain(lookup_calls[i].symbol, per_thread);
	}
}

static void lookup_start(void)
{
	lookup.generation = lookup_generation();
	lookup.result = cudaErrorInitializationError;
	if (!lookup.generation)
		return;
	lookup.result = cudaErrorInsufficientDriver;
	lookup.handle = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lookup.handle)
		return;
	if (lookup.generation == 11)
		*(void **)&lookup.four = dlsym(lookup.handle, "cuGetProcAddress");
	else
		*(void **)&lookup.five = dlsym(lookup.handle, "cuGetProcAddress_v2");
	if (lookup.generation == 12 && lookup.five) {
		void *again;
		if (lookup_ask("cuGetProcAddress", &again, 12000, CU_PROC_DEFAULT, NULL) == CU_OK &&
		    again)
			*(void **)&lookup.five = again;
	}
	for (int i = 0; i < 2; i++)
		lookup_fill(&lookup.tables[i], i == RUNTIME_PER_THREAD);
	if (lookup.tables[0].cuInit)
		lookup.result = (cudaError_t)lookup.tables[0].cuInit(0);
}

cudaError_t runtime_lookup(const struct runtime_table **table, enum runtime_stream stream)
{
	pthread_once(&lookup.once, lookup_start);
	*table = &lookup.tables[stream];
	return lookup.result;
}

int runtime_lookup_version(void)
{
	int generation = lookup_generation();

	return generation ? lookup_versions(generation) : 0;
}

/* For cudaGetDriverEntryPoint. `status` gets the driver's CU_PROC_* value. */
cudaError_t runtime_lookup_entry(const char *symbol, void **pointer, int version, uint64_t flags,
				 int *status)
{
	const struct runtime_table *table;
	cudaError_t error = runtime_lookup(&table, RUNTIME_LEGACY);

	if (error != cudaSuccess)
		return error;
	if (!lookup.four && !lookup.five)
		return cudaErrorCallRequiresNewerDriver;
	return (cudaError_t)lookup_ask(symbol, pointer, version, flags, status);
}
