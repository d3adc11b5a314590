/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: find a symbol by its bare name, the CUDA version that the program was built
 * for, and the program's kind of default stream. Drivers before 12 have no cuGetProcAddress_v2. A
 * driver before 11.3 is linked without this file: a newer runtime falls back to plain dlsym there.
 */
#include <ctype.h>

#include "driver_sim.h"

#define PROC_PER_THREAD_SINCE 7000

#if SIM_CUDA < 12000
#define cuGetProcAddress_v2 NULL /* its row in the table stays empty */
#endif

struct proc {
	const char *symbol;
	int version;
	void *pointer;
	void *per_thread;
};

#define F(since, version, name, params) _Static_assert(since <= version || !version, #name);
SIM_CALLS(F)
#undef F

static struct proc procs[] = {
#define F(since, version, name, params) {#name, version, (void *)name, NULL},
    SIM_CALLS(F)
#undef F
};

static void proc_fill(void)
{
	static const struct {
		const char *symbol;
		void *pointer;
	} twins[] = {
#define P(name, suffix) {#name, (void *)name##suffix},
	    SIM_PER_THREAD(P)
#undef P
	};

	for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++) {
		for (size_t k = 0; k < sizeof(procs) / sizeof(procs[0]); k++) {
			if (strcmp(procs[k].symbol, twins[i].symbol) == 0)
				procs[k].per_thread = twins[i].pointer;
		}
	}
}

/* The length of a symbol without its version suffix: "cuMemAlloc_v2" is looked up as
 * "cuMemAlloc". */
static size_t proc_bare(const char *symbol)
{
	size_t length = strlen(symbol);
	size_t digits = length;

	while (digits && isdigit((unsigned char)symbol[digits - 1]))
		digits--;
	return digits < length && digits > 2 && strncmp(symbol + digits - 2, "_v", 2) == 0
		   ? digits - 2
		   : length;
}

static bool proc_means(const struct proc *proc, const char *bare)
{
	size_t length = proc_bare(proc->symbol);

	return proc->version && proc->pointer && strlen(bare) == length &&
	       strncmp(bare, proc->symbol, length) == 0 && !faults_lacks(proc->symbol, length);
}

/* Return the newest symbol of that name which the version allows. NULL: none. *known: the name
 * exists in some version. */
static const struct proc *proc_find(const char *bare, int version, bool *known)
{
	const struct proc *best = NULL;

	*known = false;
	for (size_t i = 0; i < sizeof(procs) / sizeof(procs[0]); i++) {
		const struct proc *proc = &procs[i];
		if (!proc_means(proc, bare))
			continue;
		*known = true;
		if (proc->version <= version && (!best || proc->version > best->version))
			best = proc;
	}
	return best;
}

static cu_result proc_get(const char *bare, void **pointer, int version, cu_uint64 flags,
			  cu_proc_status *status)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool known;

	if (!bare || !pointer || flags > CU_PROC_PER_THREAD_STREAM)
		return CU_INVALID_VALUE;
	pthread_once(&once, proc_fill);
	const struct proc *proc = proc_find(bare, version, &known);
	if (status)
		*status = (cu_proc_status)(proc	   ? 0
					   : known ? CU_PROC_VERSION_INSUFFICIENT
						   : CU_PROC_SYMBOL_NOT_FOUND);
	if (!proc)
		return CU_NOT_FOUND;
	bool twin = flags == CU_PROC_PER_THREAD_STREAM && proc->per_thread &&
		    version >= PROC_PER_THREAD_SINCE;
	*pointer = twin ? proc->per_thread : proc->pointer;
	return CU_OK;
}

cu_result cuGetProcAddress(const char *symbol, void **pointer, int version, cu_uint64 flags)
{
	ANSWER(cuGetProcAddress, NEED_NOTHING, proc_get(symbol, pointer, version, flags, NULL));
}

#if SIM_CUDA >= 12000
/* A symbol that is not found is no error here: *pointer becomes NULL, and the status says why. */
CALL(cuGetProcAddress_v2, NEED_NOTHING,
     (const char *bare, void **pointer, int version, cu_uint64 flags, cu_proc_status *status),
     (bare, pointer, version, flags, status))
{
	cu_result result = proc_get(bare, pointer, version, flags, status);

	if (result != CU_NOT_FOUND)
		return result;
	*pointer = NULL;
	return CU_OK;
}
#endif
