// SPDX-License-Identifier: MIT
/* A driver program that allocates and frees again and again. See script.h for what it is told. */
#include "script_marks.h"
#include "script_tally.h"

#define CALLS(N) \
	N(cuInit) \
	N(cuDeviceGet) \
	N(cuDevicePrimaryCtxRetain) \
	N(cuCtxSetCurrent) \
	N(cuMemAlloc_v2) \
	N(cuMemFree_v2) \
	N(cuGetErrorName) \
	N(cuMemcpyDtoH_v2) \
	N(cuMemsetD8_v2)

static struct {
#define N(call) cu_##call##_call *call;
	CALLS(N)
#undef N
} drv;

/* init[=ORDINAL]: a context on that device */
static void do_init(char **argument, int count)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device;
	cu_context context;

#define N(call) \
	drv.call = library ? dlsym(library, #call) : NULL; \
	if (!drv.call) \
		script_stop("no " #call);
	CALLS(N)
#undef N
	if (drv.cuInit(0) ||
	    drv.cuDeviceGet(&device, count ? (int)script_number(argument[0]) : 0) ||
	    drv.cuDevicePrimaryCtxRetain(&context, device) || drv.cuCtxSetCurrent(context))
		script_stop("init: a driver call failed");
}

/* hold=SIZE,BYTE: an allocation that stays, filled */
static void do_hold(char **argument, int count)
{
	size_t size = script_number(argument[0]);
	cu_deviceptr pointer;

	printf("hold: %d\n",
	       drv.cuMemAlloc_v2(&pointer, size) ||
		   drv.cuMemsetD8_v2(pointer, (unsigned char)script_number(argument[1]), size));
}

/* Did it go well? The first call that does not says how. */
static bool went_well(struct tally *tally, uint64_t turn, const char *call, cu_result result)
{
	const char *name = NULL;

	if (result && (drv.cuGetErrorName(result, &name) || !name))
		name = "unknown";
	if (result)
		tally_failed(tally, turn, "%s: %d, %s", call, (int)result, name);
	return !result;
}

static void cycle_alloc(struct tally *tally, uint64_t turn, size_t size, const uint64_t *first)
{
	cu_deviceptr pointer = 0;
	unsigned char byte = 0;

	if (!went_well(tally, turn, "cuMemAlloc", drv.cuMemAlloc_v2(&pointer, size)) ||
	    !went_well(tally, turn, "cuMemcpyDtoH", drv.cuMemcpyDtoH_v2(&byte, pointer, 1)))
		return;
	if (!first || byte == *first)
		went_well(tally, turn, "cuMemFree", drv.cuMemFree_v2(pointer));
	else
		tally_failed(tally, turn, "it begins with %d", byte);
}

/* cycle=COUNT,SIZE[,BYTE]: so often one is made, begins with BYTE, and is freed */
static void do_cycle(char **argument, int count)
{
	uint64_t first = count > 2 ? script_number(argument[2]) : 0;
	struct tally tally = {0};

	for (uint64_t i = 0; i < script_number(argument[0]); i++)
		cycle_alloc(&tally, i, script_number(argument[1]), count > 2 ? &first : NULL);
	printf("cycle: %d failed\n", tally.failed);
}

static const struct script_verb verbs[] = {
    {"init", 0, 1, do_init},
    {"hold", 2, 2, do_hold},
    {"cycle", 2, 3, do_cycle},
    {NULL, 0, 0, NULL},
};

int main(int argc, char **argv)
{
	script_use(marks_verbs);
	return script_run(verbs, argv + 1);
}
