// SPDX-License-Identifier: MIT
/*
 * A driver program that looks up its calls at run time. The first argument says how:
 *   dlsym
 *   gpa    cuGetProcAddress of CUDA 11.3
 *   gpa2   cuGetProcAddress_v2 of CUDA 12.0, with symbolStatus NULL as the runtime does
 *   gpa2s  the same with a symbolStatus
 *   chain  the cuGetProcAddress that cuGetProcAddress_v2 itself returns
 *   dlsym_t, gpa_t, gpa2_t  the same for the per-thread default stream
 */
#include "drv_calls.h"

static struct {
#define N(call) cu_##call##_call *call;
	DRV_CALLS(N)
#undef N
} drv;

#define DRV(call) drv.call
#include "drv_verbs.h"

static int version_of(const char *call)
{
#define F(since, version, name, params) \
	if (!strcmp(call, #name)) \
		return version;
	CUDA_ABI_CALLS(F)
#undef F
	return 0;
}

/* The driver has entries for the per-thread default stream from CUDA 7.0 on. */
static int version_for(const char *call, bool per_thread)
{
	int version = version_of(call);

	return per_thread && version < 7000 ? 7000 : version;
}

static void *ask_per_thread(void *library, const char *call)
{
	static const char *const endings[] = {"_ptsz", "_ptds", ""};
	void *found = NULL;
	char name[96];

	for (size_t i = 0; !found && i < sizeof(endings) / sizeof(*endings); i++) {
		snprintf(name, sizeof(name), "%s%s", call, endings[i]);
		found = dlsym(library, name);
	}
	return found;
}

static void *ask(void *library, const char *how, const char *call)
{
	cu_cuGetProcAddress_call *get = dlsym(library, "cuGetProcAddress");
	cu_cuGetProcAddress_v2_call *get2 = dlsym(library, "cuGetProcAddress_v2");
	cu_proc_status status = -1;
	void *found = NULL;
	bool per_thread = strstr(how, "_t") != NULL;
	cu_uint64 flags = per_thread ? CU_PROC_PER_THREAD_STREAM : CU_PROC_DEFAULT;
	char bare[64];

	if (!strncmp(how, "dlsym", 5))
		return per_thread ? ask_per_thread(library, call) : dlsym(library, call);
	snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(call, "_"), call);
	if (!strcmp(how, "gpa") || !strcmp(how, "gpa_t"))
		return get && !get(bare, &found, version_for(call, per_thread), flags) ? found
										       : NULL;
	if (!strcmp(how, "gpa2s")) {
		if (!get2 || get2(bare, &found, version_for(call, per_thread), 0, &status) ||
		    status)
			return NULL;
		return found;
	}
	if (!strcmp(how, "chain") &&
	    (!get2 || get2("cuGetProcAddress", (void **)&get2, 12000, 0, NULL)))
		return NULL;
	return get2 && !get2(bare, &found, version_for(call, per_thread), flags, NULL) ? found
										       : NULL;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (argc < 2 || !library)
		script_stop("no route, or no libcuda.so.1");
#define N(call) \
	drv.call = ask(library, argv[1], #call); \
	if (!drv.call) \
		script_stop("not found: " #call);
	DRV_CALLS_MAIN(N)
#undef N
#define N(call) \
	*(void **)&drv.call = ask(library, argv[1], #call); \
	if (!drv.call) \
		*(void **)&drv.call = (void *)drv_not_found;
	DRV_CALLS_WAYS(N)
	DRV_CALLS_CONTEXTS(N)
#undef N
	child_prefix = 2;
	drv_use();
	return script_run(argv + 2);
}
