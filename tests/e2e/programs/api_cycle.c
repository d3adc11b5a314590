// SPDX-License-Identifier: MIT
/* A program of gpushare's API that does the same again and again. See script.h for what it is told. */
#include "gpushare.h"
#include "script_marks.h"
#include "script_tally.h"
#include "status.h"

static struct gpushare_session *session;

/* A context is current from here on: for the question how much memory is free. */
static void do_open(char **argument, int count)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device;
	cu_context context;

#define CALL(name) cu_##name##_call *name = library ? dlsym(library, #name) : NULL
	CALL(cuInit);
	CALL(cuDeviceGet);
	CALL(cuDevicePrimaryCtxRetain);
	CALL(cuCtxSetCurrent);
#undef CALL
	if (!cuInit || !cuDeviceGet || !cuDevicePrimaryCtxRetain || !cuCtxSetCurrent || cuInit(0) ||
	    cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		script_stop("open: a driver call failed");
	printf("open: %d\n", gpushare_open(NULL, &session));
}

/* hold=NAME,SIZE,FLAGS,BYTE: made, and filled */
static void do_hold(char **argument, int count)
{
	const struct gpushare_alloc_options options = {
	    .device = -1, .flags = (uint32_t)script_number(argument[2])};
	size_t size = script_number(argument[1]);
	unsigned char *bytes = malloc(size);
	struct gpushare_buffer *buffer = NULL;
	int status = gpushare_alloc_with(session, argument[0], size, &options, &buffer);

	if (!bytes)
		script_stop("out of memory");
	memset(bytes, (int)script_number(argument[3]), size);
	if (!status)
		status = gpushare_copy_to(buffer, 0, bytes, size);
	free(bytes);
	printf("hold: %d\n", status);
}

/* Did it go well? The first call that does not says how. */
static bool went_well(struct tally *tally, uint64_t turn, const char *call, int status)
{
	if (status)
		tally_failed(tally, turn, "%s: %s: %s", call, status_name(status),
			     gpushare_explain());
	return !status;
}

static void cycle_attach(struct tally *tally, uint64_t turn, const char *name, uint64_t byte)
{
	struct gpushare_buffer *buffer;
	unsigned char first = 0;

	if (!went_well(tally, turn, "attach", gpushare_attach(session, name, NULL, &buffer)) ||
	    !went_well(tally, turn, "copy_from", gpushare_copy_from(buffer, 0, &first, 1)))
		return;
	if (first == byte)
		went_well(tally, turn, "detach", gpushare_detach(buffer));
	else
		tally_failed(tally, turn, "it begins with %d", first);
}

/* cycle=COUNT,NAME,BYTE: attached so often, begins with BYTE, is detached */
static void do_cycle(char **argument, int count)
{
	struct tally tally = {0};

	for (uint64_t i = 0; i < script_number(argument[0]); i++)
		cycle_attach(&tally, i, argument[1], script_number(argument[2]));
	printf("cycle: %d failed\n", tally.failed);
}

/* make=COUNT,NAME,SIZE,FLAGS: made so often, and freed */
static void do_make(char **argument, int count)
{
	const struct gpushare_alloc_options options = {
	    .device = -1, .flags = (uint32_t)script_number(argument[3])};
	struct gpushare_buffer *buffer;
	struct tally tally = {0};

	for (uint64_t i = 0; i < script_number(argument[0]); i++)
		if (went_well(&tally, i, "alloc_with",
			      gpushare_alloc_with(session, argument[1], script_number(argument[2]),
						  &options, &buffer)))
			went_well(&tally, i, "free", gpushare_free(buffer));
	printf("make: %d failed\n", tally.failed);
}

static const struct script_verb verbs[] = {
    {"open", 0, 0, do_open}, {"hold", 4, 4, do_hold}, {"cycle", 3, 3, do_cycle},
    {"make", 4, 4, do_make}, {NULL, 0, 0, NULL},
};

int main(int argc, char **argv)
{
	script_use(marks_verbs);
	return script_run(verbs, argv + 1);
}
